"""Packing folders and iterables: order, classes, threads, progress, bad pictures."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.packing import SkippedPicture
from bloscpack.exceptions import CodecError
from bloscpack.media.pictureitems import PictureFolder

from .pictures import photo, save
from .test_writer import pixels

SMALL: Any = {"tile": 16, "lossless": True, "preset": "ultrafast"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for number, name in enumerate(
        [
            "dog/b.PNG",
            "dog/a.png",
            "cat/deep/er/x.png",
            "cat/deep.png",
            "cat/10.png",
            "cat/9.bmp",
            "top.png",
            "Bird/ü.webp",
        ]
    ):
        options = {"lossless": True} if name.endswith("webp") else {}
        save(root / name, photo(9 + number, 7, number), **options)
    (root / "empty").mkdir()
    (root / "dog" / "notes.txt").write_text("no picture")
    save(root / ".hidden" / "x.png", photo(3, 3))
    save(root / "dog" / "._b.png", photo(3, 3))
    return root


NAMES = [
    "top.png",
    "Bird/ü.webp",
    "cat/10.png",
    "cat/9.bmp",
    "cat/deep.png",
    "cat/deep/er/x.png",
    "dog/a.png",
    "dog/b.PNG",
]
TARGETS = [-1, 0, 1, 1, 1, 1, 2, 2]
WIDTHS = [15, 16, 13, 14, 12, 11, 10, 9]


def test_a_folder(folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = benzina.pack(
        folder, tmp_path / "a.bzna", progress=lambda *done: seen.append(done), **SMALL
    )
    assert (report.nsamples, report.ok, report.path) == (8, True, tmp_path / "a.bzna")
    assert report.classes == ["Bird", "cat", "dog", "empty"]
    assert seen == [(done, 8) for done in range(1, 9)]
    with benzina.open(tmp_path / "a.bzna") as found:
        assert list(found.names) == NAMES
        assert found.targets.tolist() == TARGETS
        for width, sample in zip(WIDTHS, found.samples(), strict=True):
            assert np.array_equal(pixels(sample), photo(width, 7, width - 9))


def test_bytes_do_not_depend_on_threads(folder: Path, tmp_path: Path) -> None:
    for codec in ("hevc", "h264", "av1"):
        written = []
        for nthreads in (1, 2, 5):
            path = tmp_path / f"{codec}{nthreads}"
            benzina.pack(folder, path, nthreads=nthreads, codec=codec, tile=16)
            written.append(path.read_bytes())
        assert written[0] == written[1] == written[2]


def test_a_folder_of_pictures_has_no_classes(tmp_path: Path) -> None:
    for name in ("b.png", "a.png"):
        save(tmp_path / "flat" / name, photo(5, 5))
    report = benzina.pack(str(tmp_path / "flat"), tmp_path / "a.bzna", **SMALL)
    assert (report.classes, report.nsamples) == ([], 2)
    with benzina.open(tmp_path / "a.bzna") as found:
        assert list(found.names) == ["a.png", "b.png"]
        assert "bzna_target" not in found.tracks


def test_an_empty_folder_and_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "empty", [], iter(())):
        with pytest.raises(ValueError, match=r"no pictures to pack.*allow_empty=True"):
            benzina.pack(source, tmp_path / "a.bzna")
        assert not (tmp_path / "a.bzna").exists()
    assert benzina.pack(tmp_path / "empty", tmp_path / "a.bzna", allow_empty=True).nsamples == 0
    assert len(benzina.open(tmp_path / "a.bzna")) == 0
    with pytest.raises(FileNotFoundError):
        benzina.pack(tmp_path / "none", tmp_path / "b.bzna")
    assert not (tmp_path / "b.bzna").exists()


def test_links(folder: Path, tmp_path: Path) -> None:
    (folder / "cat" / "up").symlink_to(folder)
    (folder / "cat" / "itself").symlink_to(folder / "cat")
    (folder / "fox").symlink_to(folder / "dog")
    (folder / "dog" / "c.png").symlink_to(folder / "top.png")
    (folder / "dog" / "lost.png").symlink_to(folder / "nothing")
    os.mkfifo(folder / "dog" / "pipe.png")
    names = [os.fsdecode(item.name or b"") for item in PictureFolder(folder)]
    more = ["dog/c.png", "dog/lost.png"]
    assert names == [*NAMES, *more, *(name.replace("dog", "fox") for name in NAMES[6:] + more)]


def test_names_that_are_not_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "flat") + b"/\xff.png"
    save(tmp_path / "flat" / "a.png", photo(4, 4)).rename(os.fsdecode(path))
    benzina.pack(tmp_path / "flat", tmp_path / "a.bzna", **SMALL)
    with benzina.open(tmp_path / "a.bzna") as found:
        assert found[0].name_bytes == b"\xff.png"


def test_what_gives_pictures(tmp_path: Path) -> None:
    seen = []

    def give() -> Iterator[Any]:
        yield photo(5, 5, 0)
        yield photo(5, 5, 1), 7
        yield photo(5, 5, 2), None, "two"
        yield save(tmp_path / "x.png", photo(5, 5, 3)), 9, b"three"
        yield ((tmp_path / "x.png").read_bytes(),)

    benzina.pack(give(), tmp_path / "a.bzna", progress=lambda *d: seen.append(d), **SMALL)
    with benzina.open(tmp_path / "a.bzna") as found:
        assert found.targets.tolist() == [-1, 7, -1, 9, -1]
        assert list(found.names) == ["", "", "two", "three", ""]
        for seed, sample in zip((0, 1, 2, 3, 3), found.samples(), strict=True):
            assert np.array_equal(pixels(sample), photo(5, 5, seed))
    assert seen == [(done, -1) for done in range(1, 6)]


def test_few_pictures_are_held_at_a_time(tmp_path: Path) -> None:
    given, done, ahead = 0, 0, []
    lock = threading.Lock()

    def give() -> Iterator[Any]:
        nonlocal given
        for _ in range(40):
            with lock:
                given += 1
                ahead.append(given - done)
            yield np.zeros((4, 4), "u1")

    def count(number: int, _: int) -> None:
        nonlocal done
        done = number

    benzina.pack(give(), tmp_path / "a.bzna", nthreads=3, progress=count, **SMALL)
    assert given == 40
    assert max(ahead) <= 2 * 3 + 1


def bad_items(folder: Path) -> list[Any]:
    """Return items, three of which cannot be packed."""
    (folder / "dog" / "bad.png").write_bytes(b"no picture")
    return [
        photo(5, 5),
        (folder / "dog" / "bad.png", 1, "bad"),
        (np.zeros((2, 2)), None, "floats"),
        (b"\xff\xd8\xff", 3),
        (folder / "gone.png",),
        (photo(5, 5), 5, "last"),
    ]


def test_bad_pictures_are_reported(folder: Path, tmp_path: Path) -> None:
    logged: list[SkippedPicture] = []
    report = benzina.pack(
        bad_items(folder), tmp_path / "a.bzna", on_error="skip", log=logged.append, **SMALL
    )
    assert report.skipped == logged
    assert (report.ok, report.nsamples) == (False, 2)
    assert [found.position for found in logged] == [1, 2, 3, 4]
    lines = [str(found) for found in logged]
    assert lines[0].startswith(f"{folder}/dog/bad.png: picture: cannot identify image file")
    assert (
        lines[1]
        == "floats: a picture must be uint8, uint16 or bool, not float64: scale it to uint8"
    )
    assert lines[2].startswith("picture 3: picture: ")
    assert lines[3] == f"{folder}/gone.png: No such file or directory"
    with benzina.open(tmp_path / "a.bzna") as found:
        assert found.targets.tolist() == [-1, 5]
        assert list(found.names) == ["", "last"]


def test_a_dataset_is_not_empty_unless_allowed(folder: Path, tmp_path: Path) -> None:
    path, items = tmp_path / "a.bzna", bad_items(folder)[1:5]
    with pytest.raises(ValueError, match=r"4 skipped, the first: .*bad\.png.*allow_empty=True"):
        benzina.pack(items, path, on_error="skip", **SMALL)
    assert not path.exists()
    report = benzina.pack(items, path, on_error="skip", allow_empty=True, **SMALL)
    assert (report.nsamples, len(report.skipped)) == (0, 4)
    assert len(benzina.open(path)) == 0


@pytest.mark.parametrize("nthreads", [1, 3])
def test_a_bad_picture_stops_it(nthreads: int, folder: Path, tmp_path: Path) -> None:
    items = bad_items(folder)
    path = tmp_path / "a.bzna"
    path.write_text("old")
    with pytest.raises(CodecError, match=r"dog/bad\.png: picture: cannot identify"):
        benzina.pack(items, path, nthreads=nthreads, overwrite=True, **SMALL)
    with pytest.raises(ValueError, match="float64") as failure:
        benzina.pack(items[2:], path, nthreads=nthreads, overwrite=True, **SMALL)
    assert failure.value.__notes__ == ["This was picture 0, 'floats'."]
    with pytest.raises(FileNotFoundError, match=r"gone\.png"):
        benzina.pack(items[4:], path, nthreads=nthreads, overwrite=True, **SMALL)
    assert path.read_text() == "old"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.bzna", "photos"]


def test_a_source_that_fails(tmp_path: Path) -> None:
    def give() -> Iterator[Any]:
        yield photo(5, 5)
        raise RuntimeError("no more")

    for source, error in (
        (give(), RuntimeError),
        ([(photo(5, 5), 1, "a", 4)], ValueError),
        (7, TypeError),
    ):
        with pytest.raises(error):
            benzina.pack(source, tmp_path / "a.bzna", on_error="skip", **SMALL)
    assert not list(tmp_path.iterdir())


def test_options_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="on_error must be"):
        benzina.pack([], tmp_path / "a.bzna", on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nthreads must be"):
        benzina.pack([], tmp_path / "a.bzna", nthreads=0)
    with pytest.raises(TypeError, match="quality"):
        benzina.pack([], tmp_path / "a.bzna", quality=3)  # type: ignore[call-arg]
    assert not list(tmp_path.iterdir())


def test_a_program_that_is_stopped(tmp_path: Path) -> None:
    def stop(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    pictures = [photo(5, 5)] * 20
    with pytest.raises(KeyboardInterrupt):
        benzina.pack(pictures, tmp_path / "a.bzna", nthreads=3, progress=stop, **SMALL)
    assert not list(tmp_path.iterdir())
    assert not [t for t in threading.enumerate() if t.name == "bloscpack"]
