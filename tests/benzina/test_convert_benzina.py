"""Datasets, picture folders and sources of clips, each converted to the others and compared."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("av", reason="pictures are coded by PyAV")
pytest.importorskip("PIL", reason="pictures are read and written by Pillow")
pytest.importorskip("simplejpeg", reason="JPEG is coded by simplejpeg")

import bloscpack as bp
from bloscpack import benzina
from bloscpack.benzina import convert as benzinacopy
from bloscpack.exceptions import BloscpackWarning, CodecError, FormatError, NotFoundError
from bloscpack.exchange import images as picturecopy
from bloscpack.filetypes.picturefolder import FolderSource
from bloscpack.frames import listing
from bloscpack.media import image

from ..benzina.codedfiles import picture, sample, write_dataset
from ..benzina.pictures import photo, psnr, save
from ..conftest import Warned
from ..frames.memory_source import MemorySourceOfClips
from ..sourcecontract import check_clip, check_source

NAMES = [b"a/0.png\0", b"same\0", b"same\0", b"../\xff\0"]
TILE = 64


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "a.bzna", NAMES)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Write a JPEG, a PNG and a rotated JPEG in two classes, and one without a class."""
    folder = tmp_path / "photos"
    save(folder / "cat" / "0.jpg", photo(20, 30, 0), quality=90)
    save(folder / "cat" / "turned.jpg", photo(40, 30, 1), orientation=6, quality=90)
    save(folder / "dog" / "deep" / "2.png", photo(20, 31, 2))
    save(folder / "top.png", photo(9, 8, 3)[..., 0])
    return folder


UNTEXTUAL = "bytes of the name of sample 3, which is not text"


def files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def rows(path: Path) -> list[tuple[bytes | None, int]]:
    with benzina.open(path) as opened:
        return [(each.name_bytes, each.target) for each in opened.samples()]


def pixels(path: Path) -> list[Any]:
    with benzina.open(path) as opened:
        return [each.decode("bzna_input") for each in opened.samples()]


@pytest.mark.parametrize("nthreads", [1, 3])
def test_dataset_to_store_and_back(dataset: Path, tmp_path: Path, nthreads: int) -> None:
    calls: list[tuple[int, int]] = []
    found = bp.convert(
        dataset, tmp_path / "s.blp", nthreads=nthreads, progress=lambda *done: calls.append(done)
    )
    assert found == bp.Conversion("frames", 4, 4, 0, left_out=(UNTEXTUAL,))
    assert calls[-1] == (8, 8)
    with bp.frames.open(tmp_path / "s.blp") as store:
        assert list(store) == ["a/0.png", "same#1", "same#2", "../\\xff"]
        metas = [store[id_].meta for id_ in store]
        assert metas[1] == {"name": "same", "target": 1}
        for number, id_ in enumerate(store):
            assert np.array_equal(store[id_][0], picture(number % 3))
    back = bp.convert(tmp_path / "s.blp", tmp_path / "b.bzna", tile=TILE, nthreads=nthreads)
    assert back == bp.Conversion("benzina", 4, 4, 0)
    # Bytes that are not UTF-8 come back as their escaped text.
    names = [name.removesuffix(b"\0") for name in NAMES[:3]] + [b"../\\xff"]
    assert rows(tmp_path / "b.bzna") == list(zip(names, range(4), strict=True))
    for number, one in enumerate(pixels(tmp_path / "b.bzna")):
        assert np.array_equal(one, picture(number % 3))


def test_splits_travel_through_a_store(tmp_path: Path) -> None:
    pictures = [(photo(9, 8, k), k, str(k)) for k in range(3)]
    splits = {"train": (0, 2), "val": (2, 3)}
    benzina.pack(pictures, tmp_path / "a.bzna", tile=16, preset="ultrafast", splits=splits)
    bp.convert(tmp_path / "a.bzna", tmp_path / "s.blp")
    bp.convert(tmp_path / "s.blp", tmp_path / "b.bzna", tile=16, verify=False)
    bp.convert(tmp_path / "a.bzna", tmp_path / "c.bzna")
    for name in ("b.bzna", "c.bzna"):
        with benzina.open(tmp_path / name) as opened:
            assert opened.splits == {"train": range(2), "val": range(2, 3)}
    with benzina.open(tmp_path / "a.bzna") as opened:
        bp.convert(opened.split("train"), tmp_path / "d.bzna")
    with benzina.open(tmp_path / "d.bzna") as opened:
        assert (len(opened), opened.splits) == (2, {})


def test_splits_are_not_those_of_some_of_the_clips(tmp_path: Path) -> None:
    pictures = [(photo(9, 8, k), k, str(k)) for k in range(3)]
    splits = {"train": (0, 1), "val": (1, 2)}
    benzina.pack(pictures, tmp_path / "a.bzna", tile=16, preset="ultrafast", splits=splits)
    bp.convert(tmp_path / "a.bzna", tmp_path / "s.blp")
    with bp.frames.open(tmp_path / "s.blp") as store:
        some = [item for item in listing.clips(store) if item.id != "0"]
        bp.frames.ingest(some, tmp_path / "some.blp")
    with pytest.warns(BloscpackWarning, match="left out"):
        done = bp.convert(tmp_path / "some.blp", tmp_path / "b.bzna", tile=16)
    assert done.left_out == ("attribute 'benzina' of the file",)
    with benzina.open(tmp_path / "b.bzna") as opened:
        assert (list(opened), opened.splits) == (["1", "2"], {})


@pytest.mark.parametrize(
    "splits", [{"train": 3}, {"train": [1]}, {"train": ["a", "b"]}, {"train": [0, 9]}, {"": [0, 1]}]
)
def test_splits_of_other_programs_are_left_out(tmp_path: Path, splits: Any) -> None:
    attrs = {"benzina": {"nsamples": 1, "splits": splits}}
    with bp.frames.create(tmp_path / "s.blp", attrs=attrs) as store:
        store.append("a", photo(9, 8, 1)[None])
    with pytest.warns(BloscpackWarning, match="left out"):
        done = bp.convert(tmp_path / "s.blp", tmp_path / "b.bzna", tile=16)
    assert done.left_out == ("attribute 'benzina' of the file",)
    with benzina.open(tmp_path / "b.bzna") as opened:
        assert (len(opened), opened.splits) == (1, {})


def test_samples_are_copied_between_datasets_byte_for_byte(dataset: Path, tmp_path: Path) -> None:
    found = bp.convert(dataset, tmp_path / "b.bzna")
    assert found == bp.Conversion("benzina", 4, 4, 4)
    with benzina.open(tmp_path / "b.bzna") as copy:
        assert [each.data for each in copy.samples()] == [sample(k % 3) for k in range(4)]
    assert rows(tmp_path / "b.bzna") == rows(dataset)
    with benzina.open(dataset) as opened:
        bp.convert(opened[2:], tmp_path / "c.bzna")
    assert rows(tmp_path / "c.bzna") == rows(dataset)[2:]


def test_thumbnails_become_the_pictures(tmp_path: Path) -> None:
    large = photo(40, 60, 0)
    benzina.pack([(large, 3, "a")], tmp_path / "a.bzna", tile=16, preset="ultrafast")
    with benzina.open(tmp_path / "a.bzna") as dataset:
        bp.convert(dataset.frames("bzna_thumb"), tmp_path / "b.bzna")
        small = dataset[0].decode("bzna_thumb")
    assert small.shape < large.shape
    assert np.array_equal(pixels(tmp_path / "b.bzna")[0], small)
    assert rows(tmp_path / "b.bzna") == [(b"a", 3)]


def test_a_crf_encodes_again_and_is_not_lossless(dataset: Path, tmp_path: Path) -> None:
    found = bp.convert(dataset, tmp_path / "b.bzna", crf=30, codec="h264", tile=TILE)
    assert found == bp.Conversion("benzina", 4, 4, 0, lossless=False, left_out=(UNTEXTUAL,))
    assert rows(tmp_path / "b.bzna")[:3] == rows(dataset)[:3]
    for number, one in enumerate(pixels(tmp_path / "b.bzna")):
        assert one.shape == picture(number % 3).shape
        assert 20 < psnr(one, picture(number % 3)) < 60


def test_folder_to_dataset(photos: Path, tmp_path: Path) -> None:
    (photos / "notes.txt").write_text("passed over")
    found = bp.convert(photos, tmp_path / "a.bzna", tile=TILE)
    left_out = ("file 'notes.txt'", "EXIF data of a picture", "metadata 'dpi' of a picture")
    assert found == bp.Conversion("benzina", 4, 4, 0, left_out=left_out)
    assert rows(tmp_path / "a.bzna") == [
        (b"top.png", -1),
        (b"cat/0.jpg", 0),
        (b"cat/turned.jpg", 0),
        (b"dog/deep/2.png", 1),
    ]
    grey, jpeg, turned, png = pixels(tmp_path / "a.bzna")
    assert np.array_equal(grey, np.repeat(photo(9, 8, 3)[..., :1], 3, axis=2))
    assert psnr(jpeg, photo(20, 30, 0)) > 25
    assert turned.shape == (40, 30, 3)
    assert np.array_equal(png, photo(20, 31, 2))


def test_folder_to_store_keeps_the_files(photos: Path, tmp_path: Path) -> None:
    found = bp.convert(photos, tmp_path / "s.blp")
    assert found == bp.Conversion("frames", 4, 4, 4)
    with bp.frames.open(tmp_path / "s.blp") as store:
        assert list(store) == ["top.png", "cat/0.jpg", "cat/turned.jpg", "dog/deep/2.png"]
        for id_ in store:
            assert store[id_].read_images() == [(photos / id_).read_bytes()]
        assert store["dog/deep/2.png"].meta == {"name": "dog/deep/2.png", "target": 1}
        assert store["top.png"].meta["target"] == -1
    # A dataset has the pixels that the store reads: rotated by their EXIF orientation.
    bp.convert(tmp_path / "s.blp", tmp_path / "a.bzna", tile=TILE)
    with bp.frames.open(tmp_path / "s.blp") as store:
        for found_pixels, clip in zip(pixels(tmp_path / "a.bzna"), store.values(), strict=True):
            frame = clip[0] if clip.shape[3:] else np.repeat(clip[0][..., None], 3, axis=2)
            assert np.array_equal(found_pixels, frame)
    # And back to the same files.
    back = bp.convert(tmp_path / "s.blp", tmp_path / "back", to="images")
    assert back == bp.Conversion("images", 4, 4, 4)
    assert files(tmp_path / "back") == sorted([*files(photos), "samples.json"])
    for name in files(photos):
        assert (tmp_path / "back" / name).read_bytes() == (photos / name).read_bytes()


def test_dataset_to_folder(dataset: Path, tmp_path: Path) -> None:
    found = bp.convert(dataset, tmp_path / "out", to="images", nthreads=2)
    assert found == bp.Conversion("images", 4, 4, 0, left_out=(UNTEXTUAL,))
    listed = json.loads((tmp_path / "out" / "samples.json").read_text("ascii"))
    assert [each["file"] for each in listed] == ["a/0.png", "same.png", "same-2.png", "__/_xff.png"]
    assert files(tmp_path / "out") == sorted([*(each["file"] for each in listed), "samples.json"])
    for number, each in enumerate(listed):
        content = (tmp_path / "out" / each["file"]).read_bytes()
        assert np.array_equal(image.decode(content), picture(number % 3))
        assert each["meta"]["target"] == number
    assert [each["clip"] for each in listed] == ["a/0.png", "same#1", "same#2", "../\\xff"]


def clips(**arrays: Any) -> MemorySourceOfClips:
    return MemorySourceOfClips(arrays, {name: {"label": 7} for name in arrays})


def test_clips_of_several_frames(tmp_path: Path) -> None:
    frames = np.stack([photo(12, 10, k) for k in range(3)])
    depth = np.arange(80, dtype="u2").reshape(1, 8, 10)
    bp.convert(clips(walk=frames), tmp_path / "a.bzna", tile=16)
    names = [b"walk/%06d" % k for k in range(3)]
    assert rows(tmp_path / "a.bzna") == [(name, 7) for name in names]
    assert np.array_equal(np.stack(pixels(tmp_path / "a.bzna")), frames)
    source = clips(walk=frames, grey=frames[..., :1], depth=depth, mask=depth > 3)
    bp.convert(source, tmp_path / "out", to="images")
    found = files(tmp_path / "out")
    assert found[:2] == ["depth.png", "grey/000000.png"]
    assert np.array_equal(image.decode((tmp_path / "out/depth.png").read_bytes()), depth[0])
    assert np.array_equal(image.decode((tmp_path / "out/mask.png").read_bytes()), depth[0] > 3)
    grey = image.decode((tmp_path / "out/grey/000002.png").read_bytes())
    assert np.array_equal(grey, frames[2, ..., 0])


@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((1, 8, 8), "u2"),
        np.zeros((1, 8, 8, 4), "u1"),
        np.zeros((1, 8, 8), "?"),
        np.zeros((2, 8), "u1"),
    ],
    ids=lambda frames: f"{frames.dtype}{frames.shape}",
)
def test_frames_that_a_dataset_cannot_store_are_refused(tmp_path: Path, frames: Any) -> None:
    with pytest.raises(ValueError, match="clip 'x': a dataset stores uint8"):
        bp.convert(clips(x=frames), tmp_path / "a.bzna")
    assert os.listdir(tmp_path) == []


def test_images_that_a_dataset_cannot_store_are_refused(tmp_path: Path) -> None:
    for mode, pixel in (("RGBA", (1, 2, 3, 4)), ("I;16", 9)):
        from PIL import Image

        save(tmp_path / "photos" / "x.png", Image.new(mode, (8, 8), pixel))
        bp.convert(tmp_path / "photos", tmp_path / "s.blp", overwrite=True)
        with pytest.raises(ValueError, match="a dataset stores uint8"):
            bp.convert(tmp_path / "s.blp", tmp_path / "a.bzna")
        bp.convert(tmp_path / "s.blp", tmp_path / "b.bzna", crf=20, tile=16, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["b.bzna", "photos", "s.blp"]


def test_lost_metadata_are_reported(tmp_path: Path, warned: Warned) -> None:
    frame = photo(8, 8)[np.newaxis]
    source = MemorySourceOfClips(
        {"x": frame, "none": frame[:0]}, {"x": {"speed": 3, "name": "y"}, "none": {}}
    )
    bp.convert(source, tmp_path / "a.bzna", tile=16)
    assert "left out: attribute 'speed' of clip 'x'" in warned.text
    assert "left out: clip 'none', which has no frames" in warned.text
    assert rows(tmp_path / "a.bzna") == [(b"y", -1)]


@pytest.mark.parametrize("to", ["frames", "images"])
def test_options_of_datasets_are_for_datasets(dataset: Path, tmp_path: Path, to: str) -> None:
    with pytest.raises(ValueError, match=f"crf is for a copy .*, not of type {to!r}"):
        bp.convert(dataset, tmp_path / "x", to=to, crf=20)


@pytest.mark.parametrize("tile", [0, 64])
def test_tile_is_not_for_an_array(tmp_path: Path, tile: int) -> None:
    np.save(tmp_path / "a.npy", np.arange(8.0))
    with pytest.raises(ValueError, match="tile is for a copy of type 'benzina', not"):
        bp.convert(tmp_path / "a.npy", tmp_path / "b.blp", tile=tile)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_wrong_options(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"one of .*benzina.* not .zip"):
        bp.convert(dataset, tmp_path / "x", to="zip")
    with pytest.raises(ValueError, match="no lossless RGB"):
        bp.convert(dataset, tmp_path / "x.bzna", codec="av1")
    (tmp_path / "x.bzna").write_text("mine")
    with pytest.raises(FileExistsError):
        bp.convert(dataset, tmp_path / "x.bzna")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(FileExistsError):
        bp.convert(dataset, tmp_path / "out", to="images", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["a.bzna", "out", "x.bzna"]
    bp.convert(dataset, tmp_path / "x.bzna", overwrite=True)
    assert len(rows(tmp_path / "x.bzna")) == 4


def test_a_damaged_sample_leaves_nothing(dataset: Path, tmp_path: Path) -> None:
    with benzina.open(dataset) as opened:
        at = opened[2].location + opened[2].layout.tracks["bzna_input"].offset
    content = bytearray(dataset.read_bytes())
    content[at : at + 4] = b"\x7f\xff\xff\xff"
    dataset.write_bytes(content)
    for name, to in (("s.blp", None), ("out", "images")):
        with pytest.raises((FormatError, CodecError), match="sample 2"):
            bp.convert(dataset, tmp_path / name, to=to)
    assert os.listdir(tmp_path) == ["a.bzna"]


class Altering:
    """Changes one thing between writing and comparing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, maker: type, change: Any) -> None:
        write = maker.write  # type: ignore[attr-defined]

        def changed(this: Any, path: str, tally: Any) -> None:
            write(this, path, tally)
            change(Path(path))

        monkeypatch.setattr(maker, "write", changed)


def other_bytes(path: Path) -> None:
    content = bytearray(path.read_bytes())
    at = content.index(b"mdat", 60)
    content[at + 200] ^= 1
    path.write_bytes(content)


def other_name(path: Path) -> None:
    content = path.read_bytes()
    at = content.rindex(b"same\0")
    path.write_bytes(content[:at] + b"samE\0" + content[at + 5 :])


def other_target(path: Path) -> None:
    with benzina.open(path) as opened:
        at = opened.tracks["bzna_target"][1].offset
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("change", [other_bytes, other_name, other_target])
def test_copied_samples_are_compared(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    Altering(monkeypatch, benzinacopy.SampleCopier, change)
    with pytest.raises(FormatError, match="the copy differs from its source"):
        bp.convert(dataset, tmp_path / "b.bzna")
    assert os.listdir(tmp_path) == ["a.bzna"]
    bp.convert(dataset, tmp_path / "b.bzna", verify=False)


def other_pixels(path: Path) -> None:
    with benzina.open(path) as opened:
        items = [(each.decode("bzna_input"), each.target, each.name) for each in opened.samples()]
    items[3][0][5, 6, 1] ^= 1
    benzina.pack(items, path, lossless=True, tile=TILE, overwrite=True)


@pytest.mark.parametrize("change", [other_pixels, other_name, other_target])
def test_encoded_pictures_are_compared(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    bp.convert(dataset, tmp_path / "s.blp")
    Altering(monkeypatch, benzinacopy.PictureEncoder, change)
    with pytest.raises(FormatError, match="the copy differs from its source"):
        bp.convert(tmp_path / "s.blp", tmp_path / "b.bzna", tile=TILE)
    assert sorted(os.listdir(tmp_path)) == ["a.bzna", "s.blp"]


def test_written_pictures_are_compared(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(path: Path) -> None:
        found = image.decode((path / "same.png").read_bytes())
        found[3, 4, 1] ^= 1
        (path / "same.png").write_bytes(image.encode_png(found))

    Altering(monkeypatch, picturecopy.PictureWriter, change)
    with pytest.raises(FormatError, match="clip 'same#1': frame 0"):
        bp.convert(dataset, tmp_path / "out", to="images")
    assert os.listdir(tmp_path) == ["a.bzna"]


def test_a_clip_of_a_folder_reads_its_file_once(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, files = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: files.append(path) or read(path))
    with FolderSource(photos) as source:
        clip = source[next(iter(source))]
        assert clip[0].shape == clip.shape[1:]
    assert len(files) == 1


def test_a_folder_as_a_source(photos: Path) -> None:
    with FolderSource(photos) as source:
        assert len(source) == len(source.keys()) == 4
        check_source(source)
        check_clip(source["cat/0.jpg"])
        assert "cat/0.jpg" in source
        assert source["top.png"].shape == (1, 8, 9)
        assert np.array_equal(source["dog/deep/2.png"][0], photo(20, 31, 2))
        assert source["dog/deep/2.png"][[0, 0]].shape == (2, 31, 20, 3)
        assert source["top.png"].read_images([]) == []
        assert len(source.read([("top.png", 0), ("top.png", 0)])) == 2
        with pytest.raises(NotFoundError, match="no picture 'x'"):
            source["x"]
    save(photos / "cat" / "x.bmp", photo(8, 8))
    with pytest.raises(FormatError, match=r"x\.bmp"), FolderSource(photos) as source:
        source["cat/x.bmp"].shape  # noqa: B018


def test_names_that_are_equal_as_text_are_refused(tmp_path: Path) -> None:
    content = save(tmp_path / "x.png", photo(8, 8)).read_bytes()
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in (b"\xff.png", b"\\xff.png"):
        with open(os.fsencode(folder) + b"/" + name, "wb") as stream:
            stream.write(content)
    with pytest.raises(ValueError, match="not UTF-8"):
        FolderSource(folder)
