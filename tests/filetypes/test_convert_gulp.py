"""Conversion between Gulp directories and frame stores: every byte, all metadata, or an error."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import FormatError
from bloscpack.frames.store import openclip
from bloscpack.gulp import GulpChunk, GulpDirectory
from bloscpack.gulp.clipmetadata import pack_entries, unpack_entries
from bloscpack.media import image
from bloscpack.storage import disk

from ..conftest import SMALL_FORMATS, ReferenceFolder, Warned, small_vectors
from ..frames.memory_source import MemorySourceOfClips
from .test_convert import jpegs, left_in, pixels

pytest.importorskip("simplejpeg", reason="a Gulp directory holds JPEG")


ITEMS: dict[str, tuple[list[bytes], list[Any]]] = {
    "plain": (jpegs(0, 5, 8, 12, 3), [{"label": 3, "nested": {"b": [1, 2.5, None], "a": "é"}}]),
    "": (jpegs(1, 1, 9, 7), [{}]),
    "no frames": ([], [{"why": "skipped"}]),
    "shapes": (jpegs(2, 1, 8, 8, 3) + jpegs(3, 1, 16, 4) + jpegs(4, 1, 4, 8, 3), [{"n": 1}]),
    "two entries": (jpegs(5, 2, 8, 8, 3), [{"label": 1}, {"label": 2}]),
    "pairs": (jpegs(6, 1, 8, 8, 3), [[["label", 4]]]),
    "not objects": (jpegs(7, 1, 8, 8, 3), [{"label": 1}, "text", 7, None]),
    "nothing": (jpegs(8, 1, 8, 8, 3), []),
    "own key": (jpegs(9, 1, 8, 8, 3), [{"gulp.meta_data": [1], "x": 2}]),
    "a/../b\0\ud800": (jpegs(10, 2, 8, 8, 3), [{"nan": float("nan"), "big": 10**40}]),
}


def write_gulp(folder: Path, items: dict[str, Any], per_chunk: int = 4) -> Path:
    """Write items as GulpIO2 does, with any metadata."""
    folder.mkdir()
    ids = list(items)
    for number, start in enumerate(range(0, len(ids), per_chunk)):
        chunk = GulpChunk(folder / f"data_{number}.gulp", folder / f"meta_{number}.gmeta")
        with chunk.open("wb"):
            for id_ in ids[start : start + per_chunk]:
                images, entries = items[id_]
                chunk.append(id_, {}, images)
                chunk.meta_dict[id_]["meta_data"] = entries
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_gulp(tmp_path / "gulp", ITEMS)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_gulp_to_store_and_back_is_the_same_files(folder: Path, tmp_path: Path) -> None:
    found = bp.convert(folder, tmp_path / "clips.blp")
    nframes = sum(len(images) for images, _ in ITEMS.values())
    assert found == bp.Conversion("frames", len(ITEMS), nframes, nframes)
    with bp.frames.open(tmp_path / "clips.blp") as store:
        assert list(store) == list(ITEMS)
        for id_, (images, _) in ITEMS.items():
            assert store[id_].read_images() == (images or store[id_].read_images())
            assert len(store[id_]) == len(images)
        assert json.dumps(store["plain"].meta) == json.dumps(ITEMS["plain"][1][0])
        assert store["two entries"].meta == {
            "label": 1,
            "gulp.meta_data": [{"label": 1}, {"label": 2}],
        }
        assert store["pairs"].meta == {"gulp.meta_data": [[["label", 4]]]}
    back = bp.convert(tmp_path / "clips.blp", tmp_path / "back", videos_per_chunk=4)
    assert back == bp.Conversion("gulp", len(ITEMS), nframes, nframes)
    assert files(tmp_path / "back") == files(folder)
    assert left_in(tmp_path) == ["back", "clips.blp", "gulp"]


def test_items_without_an_object_of_metadata_are_recovered(folder: Path, tmp_path: Path) -> None:
    report = bp.recover(folder, tmp_path / "new")
    assert (report.saved, report.nchunks) == (len(ITEMS), len(ITEMS))
    assert {each.clip for each in report.damage} == {"nothing"}
    with bp.frames.open(folder) as old, bp.frames.open(tmp_path / "new") as new:
        for id_ in ITEMS:
            assert new[id_].read_images() == old[id_].read_images()
            assert json.dumps(new[id_].meta_data) == json.dumps(old[id_].meta_data)


def test_an_id_in_two_chunks_costs_only_the_second_item(folder: Path, tmp_path: Path) -> None:
    write_gulp(tmp_path / "other", {"x": ITEMS["plain"], "plain": ITEMS[""]})
    for name in ("data_{}.gulp", "meta_{}.gmeta"):
        (tmp_path / "other" / name.format(0)).rename(folder / name.format(7))
    report = bp.recover(folder, tmp_path / "new")
    assert (report.saved, report.nchunks) == (len(ITEMS) + 1, len(ITEMS) + 2)
    assert str(report.damage[0]).startswith("meta_7.gmeta: item 'plain' is in meta_0.gmeta too")
    with bp.frames.open(tmp_path / "new") as new:
        assert list(new) == [*ITEMS, "x"]
        assert new["plain"].read_images() == ITEMS["plain"][0]


def test_an_id_twice_in_one_chunk_costs_only_the_second_item(folder: Path, tmp_path: Path) -> None:
    index = folder / "meta_0.gmeta"
    text = index.read_text("ascii")
    index.write_text(text[:-1] + ', "shapes": {"frame_info": [], "meta_data": [{}]}}', "ascii")
    report = bp.recover(folder, tmp_path / "new")
    assert (report.saved, report.nchunks) == (len(ITEMS), len(ITEMS) + 1)
    assert "item 'shapes' is in meta_0.gmeta too" in str(report.damage[1])
    with bp.frames.open(tmp_path / "new") as new:
        assert new["shapes"].read_images() == ITEMS["shapes"][0]


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_items_before_the_damage_of_an_index_are_recovered(
    folder: Path, tmp_path: Path, cut: int
) -> None:
    """GulpIO2 leaves a cut index if metadata cannot be written."""
    with bp.frames.open(folder) as source:
        ids = list(source)
    (index,) = folder.glob("meta_1.gmeta")
    text = index.read_text("ascii")
    index.write_text(text[:-cut], "ascii")
    report = bp.recover(folder, tmp_path / "new")
    (damage,) = (each for each in report.damage if "before the damage" in str(each))
    with bp.frames.open(tmp_path / "new") as new:
        assert report.saved == len(new)
        left = [id_ for id_ in ids if id_ in new]
        nlost = len(ids) - len(left)
        assert nlost == {1: 0, 30: 1}.get(cut, nlost)
        assert left == list(new) == [*ids[: 8 - nlost], *ids[8:]]
        assert f"{4 - nlost} items before the damage are read" in str(damage)
        for id_ in left:
            assert new[id_].read_images() == (ITEMS[id_][0] or new[id_].read_images())


def test_order_stays_with_many_chunks(tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "many.blp") as store:
        for number in range(25):
            store.append(f"clip {number}", jpegs(number, 1, 8, 8, 3))
    bp.convert(tmp_path / "many.blp", tmp_path / "gulp", videos_per_chunk=2)
    assert GulpDirectory(tmp_path / "gulp").num_chunks == 13
    with bp.frames.open(tmp_path / "gulp") as source:
        assert list(source) == [f"clip {number}" for number in range(25)]


@pytest.mark.parametrize("is_remote", [False, True], ids=["folder", "URL"])
def test_labels_of_adapters_travel(folder: Path, tmp_path: Path, is_remote: bool) -> None:
    (folder / "label2idx.json").write_text('{"walk": 0, "run": 1}')
    source = folder if not is_remote else "memory://labels"
    if is_remote:
        memory = pytest.importorskip("fsspec").filesystem("memory")
        for name, data in files(folder).items():
            memory.pipe(f"/labels/{name}", data)
    bp.recover(source, tmp_path / "recovered")
    assert GulpDirectory(tmp_path / "recovered")._load_label_dict() == {"walk": 0, "run": 1}
    bp.convert(source, tmp_path / "clips.blp")
    with bp.frames.open(tmp_path / "clips.blp") as store:
        assert store.attrs == {"label2idx": {"walk": 0, "run": 1}}
    bp.convert(tmp_path / "clips.blp", tmp_path / "back")
    assert GulpDirectory(tmp_path / "back")._load_label_dict() == {"walk": 0, "run": 1}


def test_lost_metadata_are_reported(folder: Path, tmp_path: Path, warned: Warned) -> None:
    (folder / "label2idx.json").write_text("{")
    bp.convert(folder, tmp_path / "clips.blp")
    assert "label2idx.json is left out: it is not JSON" in warned.text
    with bp.frames.create(tmp_path / "with.blp", attrs={"source": "x", "label2idx": {}}):
        pass
    bp.convert(tmp_path / "with.blp", tmp_path / "back", allow_empty=True)
    assert "left out: attribute 'source' of the file" in warned.text
    assert left_in(tmp_path / "back") == ["label2idx.json"]


@pytest.mark.parametrize("shape", [(3, 8, 6), (3, 8, 6, 1), (3, 8, 6, 3)])
def test_a_quality_encodes_arrays(tmp_path: Path, shape: tuple[int, ...]) -> None:
    source = MemorySourceOfClips({"x": pixels(1, *shape)})
    with pytest.raises(ValueError, match="clip 'x': a Gulp directory holds JPEG; give a quality"):
        bp.convert(source, tmp_path / "gulp", to="gulp")
    found = bp.convert(source, tmp_path / "gulp", to="gulp", quality=70)
    left = ("shape (8, 6, 1) of the frames of clip 'x'",) * (shape[3:] == (1,))
    assert found == bp.Conversion("gulp", 1, 3, 0, lossless=False, left_out=left)
    with bp.frames.open(tmp_path / "gulp") as gulp:
        expected = [image.encode_jpeg(frame, quality=70) for frame in pixels(1, *shape)]
        assert gulp["x"].read_images() == expected


@pytest.mark.parametrize(
    "frames",
    [
        pixels(1, 3, 8, 6, 3).astype("u2"),
        pixels(1, 3, 8, 6).astype("f4"),
        pixels(1, 3, 8, 6).astype(bool),
        pixels(1, 3, 8, 6, 4),
        pixels(1, 3, 8),
    ],
    ids=lambda frames: f"{frames.dtype}{frames.shape}",
)
def test_frames_that_a_gulp_directory_cannot_hold(tmp_path: Path, frames: np.ndarray) -> None:
    source = MemorySourceOfClips({"fine": pixels(0, 2, 8, 8, 3), "depth": frames})
    with pytest.raises(ValueError, match="clip 'depth': a Gulp directory holds JPEG, which is"):
        bp.convert(source, tmp_path / "gulp", to="gulp", quality=90)
    assert left_in(tmp_path) == []


def test_png_images_in_a_store(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    frames = pixels(1, 2, 8, 6, 3)
    with bp.frames.create(tmp_path / "png.blp") as store:
        store.append("png", [image.encode_png(frame) for frame in frames])
    with pytest.raises(ValueError, match="clip 'png': frame 0 is a PNG image"):
        bp.convert(tmp_path / "png.blp", tmp_path / "gulp")
    bp.convert(tmp_path / "png.blp", tmp_path / "gulp", quality=80)
    with bp.frames.open(tmp_path / "gulp") as gulp:
        assert gulp["png"].read_images() == [
            image.encode_jpeg(frame, quality=80) for frame in frames
        ]
    with bp.frames.create(tmp_path / "deep.blp") as store:
        store.append("deep", [image.encode_png(np.ones((4, 4), "u2"))])
    with pytest.raises(ValueError, match="clip 'deep': frame 0: JPEG holds uint8, not uint16"):
        bp.convert(tmp_path / "deep.blp", tmp_path / "other", quality=80)


def test_long_clips_go_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setattr(openclip, "_BATCH_IMAGES", 3)
    monkeypatch.setattr(openclip, "_BATCH_NBYTES", 3 * 8 * 8)
    items = {"long": (jpegs(1, 10, 8, 8, 3), [{"n": 1}])}
    folder = write_gulp(tmp_path / "gulp", items)
    bp.convert(folder, tmp_path / "clips.blp")
    bp.convert(tmp_path / "clips.blp", tmp_path / "back")
    assert files(tmp_path / "back") == files(folder)
    with bp.frames.create(tmp_path / "mixed.blp") as store:
        store.append("mixed", [*jpegs(1, 4, 8, 8, 3), image.encode_png(pixels(2, 8, 8, 3))])
    with pytest.raises(ValueError, match="clip 'mixed': frame 4 is a PNG image"):
        bp.convert(tmp_path / "mixed.blp", tmp_path / "mixed")
    frames = pixels(1, 10, 8, 8)
    bp.convert(MemorySourceOfClips({"x": frames}), tmp_path / "x.blp")
    with bp.frames.open(tmp_path / "x.blp") as store:
        assert np.array_equal(store["x"], frames)
    bp.convert(tmp_path / "x.blp", tmp_path / "x", quality=90)
    with bp.frames.open(tmp_path / "x") as gulp:
        assert gulp["x"].read_images() == [image.encode_jpeg(frame) for frame in frames]


def test_progress_counts_clips(folder: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    bp.convert(folder, tmp_path / "a.blp", progress=lambda *step: steps.append(step))
    assert steps == [(done, 2 * len(ITEMS)) for done in range(1, 2 * len(ITEMS) + 1)]
    steps.clear()
    bp.convert(
        tmp_path / "a.blp", tmp_path / "b", verify=False, progress=lambda *x: steps.append(x)
    )
    assert steps == [(done, len(ITEMS)) for done in range(1, len(ITEMS) + 1)]


def test_damage_in_a_new_store_is_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, frame = disk.write_at, ITEMS["plain"][0][3]

    def write_at(fd: int, offset: int, *parts: Any) -> None:
        written(fd, offset, *(bytes(part).replace(frame, frame[::-1]) for part in parts))

    monkeypatch.setattr(disk, "write_at", write_at)
    with pytest.raises(FormatError, match="clip 'plain': frame 3"):
        bp.convert(folder, tmp_path / "out")
    assert left_in(tmp_path) == ["gulp"]


def test_damage_in_a_new_directory_is_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, frame = GulpChunk._write_frame, ITEMS["plain"][0][3]

    def write_frame(self: GulpChunk, id_: str, data: bytes) -> None:
        written(self, id_, data[:-3] + b"abc" if data == frame else data)

    monkeypatch.setattr(GulpChunk, "_write_frame", write_frame)
    with pytest.raises(FormatError, match="clip 'plain': the pixels of frame 3"):
        bp.convert(folder, tmp_path / "out", to="gulp")
    assert left_in(tmp_path) == ["gulp"]


@pytest.mark.parametrize("to", ["frames", "gulp"])
def test_nothing_is_left_after_an_error(folder: Path, tmp_path: Path, to: str) -> None:
    def stop(done: int, total: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.convert(folder, tmp_path / "out", to=to, progress=stop)
    assert left_in(tmp_path) == ["gulp"]


def test_a_damaged_source(folder: Path, tmp_path: Path) -> None:
    data = (folder / "data_0.gulp").read_bytes()
    (folder / "data_0.gulp").write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match="clip '"):
        bp.convert(folder, tmp_path / "out.blp")
    assert left_in(tmp_path) == ["gulp"]


def test_existing_targets_are_not_changed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for to in ("frames", "gulp"):
        with pytest.raises(FileExistsError, match="file' exists already"):
            bp.convert(folder, tmp_path / "file", to=to)
        with pytest.raises(FileExistsError, match="gulp' is a folder with files in it"):
            bp.convert(folder, folder, to=to, overwrite=True)
        with pytest.raises(FileNotFoundError, match="no such folder"):
            bp.convert(folder, tmp_path / "nowhere" / "x", to=to)
    with pytest.raises(FileExistsError, match="exists already"):
        bp.convert(folder, tmp_path / "file", to="gulp", overwrite=True)
    assert (tmp_path / "file").read_text() == "mine"
    bp.convert(folder, tmp_path / "file", overwrite=True)
    assert list(bp.frames.open(tmp_path / "file")) == list(ITEMS)
    (tmp_path / "empty").mkdir()
    bp.convert(folder, tmp_path / "empty", to="gulp", videos_per_chunk=4)
    assert files(tmp_path / "empty") == files(folder)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    bp.convert(folder, tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quality": 90}, "quality is for a copy of type 'gulp', not of type 'frames'"),
        ({"to": "gulp", "quality": 0}, "quality must be 1 to 100"),
        ({"to": "gulp", "videos_per_chunk": 0}, "videos_per_chunk must be at least 1"),
    ],
)
def test_options_that_make_no_sense(
    folder: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        bp.convert(folder, tmp_path / "out", **options)
    assert left_in(tmp_path) == ["gulp"]


@pytest.mark.parametrize("quality", [0, 90])
def test_quality_is_not_for_an_array(tmp_path: Path, quality: int) -> None:
    bp.save(tmp_path / "a.blp", np.arange(8.0))
    with pytest.raises(
        ValueError, match="quality is for a copy of type 'gulp', not of type 'array'"
    ):
        bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", quality=quality)
    assert left_in(tmp_path) == ["a.blp"]


@pytest.mark.parametrize("name", small_vectors("recording.vrs"))
def test_quality_is_not_for_a_recording(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="recording"):
        bp.convert(SMALL_FORMATS / name, tmp_path / "x.blp", quality=90)
    assert left_in(tmp_path) == []


def test_a_store_without_clips(tmp_path: Path) -> None:
    bp.frames.create(tmp_path / "empty.blp").close()
    with pytest.raises(ValueError, match=r"empty.blp: no clips to convert"):
        bp.convert(tmp_path / "empty.blp", tmp_path / "gulped")
    assert bp.convert(tmp_path / "empty.blp", tmp_path / "gulped", allow_empty=True).clips == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "gulp.meta_data"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(st.none() | st.lists(json_values, max_size=3))
def test_entries_survive(entries: list[Any] | None) -> None:
    assert unpack_entries(json.loads(json.dumps(pack_entries(entries)))) == entries


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3))
def test_metadata_of_others_are_one_entry(meta: dict[str, Any]) -> None:
    assert unpack_entries(meta) == [meta]


GULP_FILES = ReferenceFolder("gulp")


def cases() -> list[Any]:
    if not GULP_FILES:
        return []
    return json.loads((GULP_FILES / "manifest.json").read_text("utf-8"))["cases"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.get("case"))
def test_directories_of_gulpio2(case: dict[str, Any], tmp_path: Path) -> None:
    folder = GULP_FILES / case["case"]
    bp.convert(folder, tmp_path / "clips.blp")
    bp.convert(tmp_path / "clips.blp", tmp_path / "back")
    with bp.frames.open(folder) as before, bp.frames.open(tmp_path / "back") as after:
        assert list(after) == list(before)
        for id_ in before:
            assert after[id_].read_images() == before[id_].read_images()
            assert after[id_].meta_data == before[id_].meta_data  # type: ignore[attr-defined]
    labels = folder / "label2idx.json"
    assert (tmp_path / "back" / "label2idx.json").exists() == labels.exists()
