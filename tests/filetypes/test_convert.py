"""Conversion of frame stores and other sources to frame stores: every byte, or an error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FormatError, UnsupportedError
from bloscpack.frames.store import openclip
from bloscpack.media import image
from bloscpack.storage import disk

from ..conftest import needs_exchange
from ..frames.memory_source import MemorySourceOfClips

pytest.importorskip("simplejpeg", reason="images are JPEG")


def pixels(number: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, shape).astype(np.uint8)


def jpegs(number: int, *shape: int) -> list[bytes]:
    return [image.encode_jpeg(frame) for frame in pixels(number, *shape)]


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with bp.frames.create(tmp_path / "clips.blp") as store:
        for number in range(8):
            store.append(f"clip {number}", jpegs(number, 5, 8, 12, 3))
    return tmp_path / "clips.blp"


@pytest.mark.parametrize("dtype", ["bool", "u1", "<u2", "<f4", "<c8"])
def test_arrays_to_a_store(tmp_path: Path, dtype: str) -> None:
    frames = pixels(1, 40, 6, 5, 4).astype(dtype)
    if dtype == "<f4":
        frames[3, 2] = np.nan
    source = MemorySourceOfClips({"x": frames, "empty": frames[:0]}, {"x": {"n": 1}})
    found = bp.convert(source, tmp_path / "x", preset="small")
    assert found == bp.Conversion("frames", 2, 40, 0)
    assert not source.is_closed
    with bp.frames.open(tmp_path / "x") as store:
        assert store["x"].dtype == np.dtype(dtype)
        assert store["x"].read().tobytes() == frames.tobytes()
        assert store["x"].meta == {"n": 1}
        assert (store["empty"].shape, store["empty"].dtype) == ((0, 6, 5, 4), np.dtype(dtype))
        assert store.preset == "small"


def test_a_store_to_a_store(tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp", attrs={"k": 1}) as store:
        store.append("x", pixels(1, 4, 6, 5, 3), {"n": 1})
        store.append("y", jpegs(1, 2, 8, 8, 3))
    assert bp.convert(tmp_path / "a.blp", tmp_path / "b.blp").kind == "frames"
    bp.convert(tmp_path / "a.blp", tmp_path / "c", to="frames")
    bp.convert(tmp_path / "b.blp", tmp_path / "b.blp", overwrite=True)
    for name in ("b.blp", "c"):
        with bp.frames.open(tmp_path / name) as store:
            assert list(store) == ["x", "y"]
            assert np.array_equal(store["x"], pixels(1, 4, 6, 5, 3))
            assert store["y"].read_images() == jpegs(1, 2, 8, 8, 3)
            assert store.attrs == {"k": 1}


@needs_exchange
@pytest.mark.parametrize("name", ["b.blp", "b.npy"])
def test_a_file_that_appears_during_the_copy_is_kept(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "a.npy", pixels(1, 4, 6, 5))
    with pytest.raises(FileExistsError, match="exists already"):
        bp.convert(
            tmp_path / "a.npy",
            tmp_path / name,
            progress=lambda done, total: (tmp_path / name).write_text("precious") and None,
        )
    assert (tmp_path / name).read_text() == "precious"
    assert left_in(tmp_path) == ["a.npy", name]


@needs_exchange
def test_a_copy_is_synced_before_it_gets_its_name(tmp_path: Path, monkeypatch: Any) -> None:
    calls: list[str] = []

    def recorded(name: str) -> Any:
        real = getattr(disk, name)
        return lambda *args: (calls.append(name), real(*args))

    for name in ("sync", "rename_new", "sync_folder"):
        monkeypatch.setattr(disk, name, recorded(name))
    np.save(tmp_path / "a.npy", pixels(1, 4, 6, 5))
    bp.convert(tmp_path / "a.npy", tmp_path / "b.npy")
    assert calls[:3] == ["sync", "rename_new", "sync_folder"]


def test_several_stores_become_one(tmp_path: Path) -> None:
    for name in "ab":
        with bp.frames.create(tmp_path / name) as store:
            store.append(f"clip {name}", pixels(ord(name), 3, 6, 5))
    found = bp.convert([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    assert found == bp.Conversion("frames", 2, 6, 0)
    with bp.frames.open(tmp_path / "all") as store:
        assert list(store) == ["clip a", "clip b"]
        assert np.array_equal(store["clip b"], pixels(ord("b"), 3, 6, 5))


@pytest.mark.parametrize("to", [None, "v3"])
def test_several_arrays_are_refused(tmp_path: Path, to: str | None) -> None:
    for name in "ab":
        bp.save(tmp_path / name, np.arange(3))
    with pytest.raises(UnsupportedError, match="one file, not from a list"):
        bp.convert([tmp_path / "a", tmp_path / "b"], tmp_path / "all.npz", to=to)


def test_png_images(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    frames = pixels(1, 2, 8, 6, 3)
    with bp.frames.create(tmp_path / "png.blp") as store:
        store.append("png", [image.encode_png(frame) for frame in frames])
    bp.convert(tmp_path / "png.blp", tmp_path / "copy.blp")
    with bp.frames.open(tmp_path / "copy.blp") as store:
        assert np.array_equal(store["png"], frames)
        assert store["png"].read_images() == [image.encode_png(frame) for frame in frames]


def test_long_clips_go_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openclip, "_BATCH_IMAGES", 3)
    monkeypatch.setattr(openclip, "_BATCH_NBYTES", 3 * 8 * 8)
    frames = pixels(1, 10, 8, 8)
    bp.convert(MemorySourceOfClips({"x": frames}), tmp_path / "x.blp")
    with bp.frames.open(tmp_path / "x.blp") as store:
        assert np.array_equal(store["x"], frames)


def test_progress_counts_clips(store: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    bp.convert(store, tmp_path / "a.blp", progress=lambda *step: steps.append(step))
    assert steps == [(done, 16) for done in range(1, 17)]


class Unsteady(MemorySourceOfClips):
    """A source that returns other data when it is read a second time."""

    def __init__(self, what: str) -> None:
        super().__init__({"x": pixels(1, 3, 8, 8), "y": pixels(2, 3, 8, 8)}, {"y": {"n": 1}})
        self._what = what
        self._times = 0

    def keys(self) -> list[str]:
        return ["y", "x"] if self._what == "ids" else list(self)

    def __getitem__(self, key: str) -> Any:
        clip = super().__getitem__(key)
        self._times += key == "y"
        if self._times == 2:
            if self._what == "meta":
                clip._meta = {"n": 2}
            elif self._what == "pixels":
                clip._offset -= 64
            elif self._what == "dtype":
                clip.dtype = np.dtype("i1")
            elif self._what == "fewer":
                clip.shape = (2, 8, 8)
        return clip


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("ids", "the ids of the clips"),
        ("meta", "clip 'y': the metadata"),
        ("pixels", "clip 'y': the pixels of frame 0"),
        ("dtype", "clip 'y': the pixels of frame 0"),
        ("fewer", "clip 'y': the frames"),
    ],
)
def test_differences_are_found(tmp_path: Path, what: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        bp.convert(Unsteady(what), tmp_path / "x.blp")
    assert left_in(tmp_path) == []


def test_damage_in_a_new_store_is_found(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, frame = disk.write_at, jpegs(2, 5, 8, 12, 3)[3]

    def write_at(fd: int, offset: int, *parts: Any) -> None:
        written(fd, offset, *(bytes(part).replace(frame, frame[::-1]) for part in parts))

    monkeypatch.setattr(disk, "write_at", write_at)
    with pytest.raises(FormatError, match="clip 'clip 2': frame 3"):
        bp.convert(store, tmp_path / "out.blp")
    assert left_in(tmp_path) == ["clips.blp"]


def test_nothing_is_left_after_an_error(store: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.convert(store, tmp_path / "out.blp", progress=stop)
    assert left_in(tmp_path) == ["clips.blp"]


def test_existing_targets_are_not_changed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="file' exists already"):
        bp.convert(store, tmp_path / "file", to="frames")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        bp.convert(store, tmp_path / "nowhere" / "x", to="frames")
    assert (tmp_path / "file").read_text() == "mine"
    bp.convert(store, tmp_path / "file", to="frames", overwrite=True)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    bp.convert(store, tmp_path / "link", to="frames", overwrite=True)
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"to": "zip"}, "to must be"), ({"preset": "best"}, "preset must be")],
)
def test_options_that_make_no_sense(
    store: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        bp.convert(store, tmp_path / "out.blp", **options)
    assert left_in(tmp_path) == ["clips.blp"]
