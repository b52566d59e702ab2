"""Items of each kind: what they read, and what they refuse."""

import os
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import FormatError, UnsupportedError
from bloscpack.frames.ingest.items import (
    ArrayFile,
    ArrayItem,
    BadItem,
    ImageFiles,
    ImageFolder,
    Item,
    ReadOptions,
    VideoFile,
    natural_key,
)
from bloscpack.media import image
from bloscpack.media.video import read_video

from ..videofiles import moving, set_matrix, write_video
from .imagefiles import image_folders, picture, write_jpeg, write_png

KEEP = ReadOptions()
DECODE = ReadOptions(keep=False)


def frames_of(item: Item, options: ReadOptions = KEEP) -> list[Any]:
    return list(item.read(options).frames)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["f10", "f9", "f1"], ["f1", "f9", "f10"]),
        (["2b", "10a", "2a", "b", "1"], ["1", "2a", "2b", "10a", "b"]),
        (["x007", "x7", "x07"], ["x007", "x07", "x7"]),
        (["a", "a1", "1a", ""], ["", "1a", "a", "a1"]),
        (["n" + "9" * 5000, "n" + "1" * 5001], ["n" + "9" * 5000, "n" + "1" * 5001]),
    ],
)
def test_names_are_sorted_as_people_do(names: list[str], expected: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(names, key=natural_key) == expected
    assert sorted(backwards, key=natural_key) == expected


class TestImages:
    def test_kept_as_they_are(self, tmp_path: Path) -> None:
        images = image_folders(tmp_path, 1, 12)["clip0"]
        assert frames_of(ImageFolder(id="x", path=str(tmp_path / "clip0"))) == images
        paths = tuple(str(tmp_path / "clip0" / f"f{k}.jpg") for k in (3, 11, 3))
        assert frames_of(ImageFiles(id="x", paths=paths)) == [images[3], images[11], images[3]]

    def test_decoded(self, tmp_path: Path) -> None:
        images = image_folders(tmp_path, 1, 3)["clip0"]
        found = frames_of(ImageFolder(id="x", path=str(tmp_path / "clip0")), DECODE)
        np.testing.assert_array_equal(found, [image.decode(data) for data in images])

    @pytest.mark.parametrize(
        "options", [ReadOptions(short_edge=6), ReadOptions(keep=False, short_edge=6)]
    )
    def test_resized(self, tmp_path: Path, options: ReadOptions) -> None:
        write_jpeg(tmp_path / "wide.jpg", 1, height=12, width=25)
        write_png(tmp_path / "z_high.png", picture(1, 25, 12)[..., 0])
        found = frames_of(ImageFolder(id="x", path=str(tmp_path)), options)
        assert [frame.shape for frame in found] == [(6, 12, 3), (12, 6)]

    def test_16_bits_are_not_resized(self, tmp_path: Path) -> None:
        write_png(tmp_path / "depth.png", np.full((20, 20), 40_000, "u2"))
        item = ImageFiles(id="x", paths=(str(tmp_path / "depth.png"),))
        assert frames_of(item, DECODE)[0].max() == 40_000
        with pytest.raises(ValueError, match="only uint8"):
            frames_of(item, ReadOptions(short_edge=10))

    @pytest.mark.parametrize("check", [False, True])
    @pytest.mark.parametrize("kind", ["jpg", "png"])
    def test_cut_ones_are_refused(self, tmp_path: Path, kind: str, check: bool) -> None:
        path = tmp_path / f"cut.{kind}"
        data = write_jpeg(path, 1) if kind == "jpg" else write_png(path, picture(1))
        item = ImageFiles(id="x", paths=(str(path),))
        assert frames_of(item, ReadOptions(check=check)) == [data]
        path.write_bytes(data[: len(data) * 3 // 4])
        with pytest.raises(FormatError, match=rf"^cut\.{kind}: "):
            frames_of(item, ReadOptions(check=check))

    def test_end_marker_of_a_thumbnail_does_not_count(self, tmp_path: Path) -> None:
        data, small = image.encode_jpeg(picture(1)), image.encode_jpeg(picture(2, 4, 4))
        marked = data[:2] + b"\xff\xe1" + (len(small) + 2).to_bytes(2, "big") + small + data[2:]
        path = tmp_path / "exif.jpg"
        item = ImageFiles(id="x", paths=(str(path),))
        path.write_bytes(marked + b"\0\0maker notes")
        assert frames_of(item, ReadOptions(check=True)) == frames_of(item)
        path.write_bytes(marked[:-20])
        with pytest.raises(FormatError, match="truncated"):
            frames_of(item)

    def test_damage_within_is_found_by_checking(self, tmp_path: Path) -> None:
        data = write_png(tmp_path / "a.png", picture(1))
        (tmp_path / "a.png").write_bytes(data[:60] + b"\0" + data[61:])
        item = ImageFiles(id="x", paths=(str(tmp_path / "a.png"),))
        for check in (False, True):
            with pytest.raises(FormatError, match=r"a\.png: PNG: wrong checksum"):
                frames_of(item, ReadOptions(check=check))
        data = image.encode_jpeg(picture(1))
        (tmp_path / "a.jpg").write_bytes(data[:-40] + bytes(38) + data[-2:])
        item = ImageFiles(id="x", paths=(str(tmp_path / "a.jpg"),))
        assert len(frames_of(item)) == 1
        with pytest.raises(FormatError, match=r"a\.jpg: JPEG: "):
            frames_of(item, ReadOptions(check=True))

    def test_no_image(self, tmp_path: Path) -> None:
        (tmp_path / "a.jpg").write_bytes(b"GIF89a")
        with pytest.raises(FormatError, match=r"a\.jpg: neither a JPEG nor a PNG"):
            frames_of(ImageFiles(id="x", paths=(str(tmp_path / "a.jpg"),)))
        (tmp_path / "a.jpg").write_bytes(b"")
        with pytest.raises(FormatError, match=r"a\.jpg: neither"):
            frames_of(ImageFiles(id="x", paths=(str(tmp_path / "a.jpg"),)), DECODE)

    def test_folder_without_images(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").touch()
        write_jpeg(tmp_path / ".hidden.jpg", 1)
        with pytest.raises(FormatError, match="no JPEG or PNG file"):
            frames_of(ImageFolder(id="x", path=str(tmp_path)))
        with pytest.raises(FileNotFoundError):
            frames_of(ImageFolder(id="x", path=str(tmp_path / "none")))

    def test_images_that_are_not_read_are_not_left_out(self, tmp_path: Path) -> None:
        write_jpeg(tmp_path / "f1.jpg", 1)
        (tmp_path / "f2.webp").touch()
        with pytest.raises(UnsupportedError, match=r"f2\.webp"):
            frames_of(ImageFolder(id="x", path=str(tmp_path)))

    def test_links_out_of_the_root(self, tmp_path: Path) -> None:
        write_jpeg(tmp_path / "secret.jpg", 1)
        folder = tmp_path / "root" / "clip"
        write_jpeg(folder / "f1.jpg", 1)
        (folder / "f2.jpg").symlink_to(folder / "f1.jpg")
        root = str(tmp_path / "root")
        assert len(frames_of(ImageFolder(id="x", path=str(folder), root=root))) == 2
        (folder / "f3.jpg").symlink_to(tmp_path / "secret.jpg")
        with pytest.raises(FormatError, match="leads out of"):
            frames_of(ImageFolder(id="x", path=str(folder), root=root))
        assert len(frames_of(ImageFolder(id="x", path=str(folder)))) == 3


class TestArrays:
    def test_file(self, tmp_path: Path) -> None:
        array = np.arange(60, dtype=">u2").reshape(5, 3, 4)
        np.save(tmp_path / "a.npy", array)
        item = ArrayFile(id="x", path=str(tmp_path / "a.npy"))
        found = item.read(KEEP).frames
        assert isinstance(found, np.memmap)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype

    def test_hostile_files(self, tmp_path: Path) -> None:
        path = tmp_path / "a.npy"
        item = ArrayFile(id="x", path=str(path))
        path.touch()
        with pytest.raises(FormatError, match="empty"):
            item.read(KEEP)
        np.savez(tmp_path / "a.npz", a=np.zeros(3))
        path.write_bytes((tmp_path / "a.npz").read_bytes())
        with pytest.raises(FormatError, match=r"not a \.npy file"):
            item.read(KEEP)
        np.save(path, np.array([{}], dtype=object))
        with pytest.raises(ValueError, match=r"[Oo]bject"):
            item.read(KEEP)
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776, 1024), }"
        header = header.ljust(117) + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        with pytest.raises(ValueError, match="mmap length"):
            item.read(KEEP)

    def test_in_memory(self) -> None:
        array = np.zeros((2, 3), "u1")
        assert ArrayItem(id="x", frames=array).read(KEEP).frames is array
        images = [image.encode_jpeg(array), image.encode_jpeg(array + 1)]
        assert frames_of(ArrayItem(id="x", frames=images)) == images


class TestVideos:
    def test_frames_upright(self, tmp_path: Path) -> None:
        frames = moving(5)
        path = write_video(tmp_path / "a.mov", frames, rate=25)
        reading = VideoFile(id="x", path=str(path)).read(KEEP)
        np.testing.assert_array_equal(list(reading.frames), frames)
        assert (reading.meta, reading.notes) == ({"fps": 25.0}, [])

    def test_turned(self, tmp_path: Path) -> None:
        path = write_video(tmp_path / "a.mov", moving(3))
        set_matrix(path, "clockwise")
        reading = VideoFile(id="x", path=str(path)).read(KEEP)
        assert [frame.shape for frame in reading.frames] == [(64, 48, 3)] * 3
        assert reading.notes == ["turned by 90 degrees"]

    def test_frame_rate_and_size(self, tmp_path: Path) -> None:
        path = write_video(tmp_path / "a.mov", moving(30))
        reading = VideoFile(id="x", path=str(path), frame_rate=10).read(ReadOptions(short_edge=24))
        expected = len(list(read_video(path, frame_rate=10)))
        assert [frame.shape for frame in reading.frames] == [(24, 32, 3)] * expected
        assert reading.meta == {"fps": 10}

    def test_cut(self, tmp_path: Path) -> None:
        path = write_video(tmp_path / "a.mp4", moving(30), codec="mpeg4", faststart=True)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3])
        item = VideoFile(id="x", path=str(path))
        with pytest.raises(FormatError, match=r"^cut short|^\d+ damaged"):
            frames_of(item)
        reading = item.read(ReadOptions(keep_damaged=True))
        assert 0 < len(list(reading.frames)) < 30
        assert reading.notes == [reading.meta["damaged"]]

    def test_no_video(self, tmp_path: Path) -> None:
        (tmp_path / "a.mp4").write_bytes(b"no video at all" * 100)
        with pytest.raises(FormatError, match="not a video"):
            frames_of(VideoFile(id="x", path=str(tmp_path / "a.mp4")))


def test_bad_item() -> None:
    with pytest.raises(FormatError, match="no such row"):
        BadItem(id="x", name="row 3", reason="no such row").read(KEEP)


def test_items_travel() -> None:
    for item in (
        ImageFolder(id="x", meta={"a": [1, None]}, path="p", root="r"),
        VideoFile(id="x", path="p", frame_rate=float(Fraction(25))),
        ImageFiles(id="\udc80", paths=("a", os.fsdecode(b"\xff"))),
    ):
        assert pickle.loads(pickle.dumps(item)) == item


def test_items_that_stay_in_this_process(tmp_path: Path) -> None:
    folder = ImageFolder(id="x", path=str(tmp_path))
    assert folder.stays_here(KEEP)
    assert ImageFiles(id="x", paths=()).stays_here(KEEP)
    for options in (DECODE, ReadOptions(check=True), ReadOptions(short_edge=3)):
        assert not folder.stays_here(options)
        assert not VideoFile(id="x", path="").stays_here(options)
        assert ArrayItem(id="x", frames=[]).stays_here(options)
