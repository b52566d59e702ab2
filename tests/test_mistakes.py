"""Mistakes that users of numpy, h5py and Zarr make: each error says what to do instead."""

from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import bloscpack as bp

ROWS = np.arange(60.0).reshape(20, 3)


class Case(NamedTuple):
    """Open files, and an empty folder to write to."""

    array: Any
    closed: Any
    archive: Any
    store: Any


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.chdir(tmp_path)
    bp.save("a.blp", ROWS, chunks=5)
    bp.savez("z.blp", x=ROWS, mask=ROWS > 3)
    np.savez("n.npz", x=ROWS)
    np.save("n.npy", ROWS)
    Path("folder").mkdir()
    with bp.frames.create("s.blp") as store:
        store.append("walk", np.zeros((4, 5, 6), "u1"))
    closed = bp.open("a.blp")
    closed.close()
    with (
        bp.open("a.blp") as array,
        bp.Archive("z.blp") as archive,
        bp.frames.open("s.blp") as clips,
    ):
        yield Case(array, closed, archive, clips)


def append(rows: Any) -> None:
    with bp.open("a.blp", "a") as array:
        array.append(rows)


def resize(shape: Any) -> None:
    with bp.open("a.blp", "r+") as array:
        array.resize(shape)


def change_attrs(attrs: Any) -> None:
    with bp.open("a.blp", "a") as array:
        array.attrs = attrs


def add_clip(frames: Any) -> None:
    with bp.frames.open("s.blp", "a") as store:
        store.append("run", frames)


bp_: Any = bp  # type checkers find most of these by themselves
MISTAKES: list[tuple[str, Callable[[Case], object], type[Exception], str]] = [
    ("mode w", lambda _: bp_.open("a.blp", "w"), ValueError, "bloscpack.Writer make a new file"),
    ("mode x", lambda _: bp_.open("a.blp", "x"), ValueError, r"'r\+' changes an array"),
    ("store", lambda _: bp_.frames.open("s.blp", "w"), ValueError, "frames.create makes a new"),
    ("no file", lambda _: bp.open("no.blp"), FileNotFoundError, "no.blp"),
    ("folder", lambda _: bp.open("folder"), IsADirectoryError, "a folder, not a file"),
    ("npz", lambda _: bp.open("n.npz"), ValueError, "'blpk convert n.npz n.blp' converts it"),
    ("npy", lambda _: bp.load("n.npy"), ValueError, "numpy.load reads it"),
    ("a store", lambda _: bp.open("s.blp"), ValueError, "open it with bloscpack.frames.open"),
    ("an array", lambda _: bp.frames.open("a.blp"), ValueError, "open it with bloscpack.open"),
    ("list of paths", lambda _: bp.open(["a.blp"]), TypeError, "bloscpack.open_many opens several"),
    ("closed", lambda c: c.closed[0], ValueError, "closed bloscpack.Array: open the file again"),
    ("float", lambda c: c.array[1.0], IndexError, "must be an integer, a slice"),
    ("name", lambda c: c.array["x"], IndexError, "must be an integer, a slice"),
    ("too far", lambda c: c.array[20], IndexError, "out of bounds for axis 0 with size 20"),
    ("indices", lambda c: c.array[1, 2, 3], IndexError, "2 dimensions, 3 were indexed"),
    ("two lists", lambda c: c.array[[1], [2]], TypeError, r"a\.oindex"),
    ("mask", lambda c: c.array[ROWS > 3], TypeError, "index that with numpy"),
    ("assignment", lambda c: c.array.__setitem__(0, 1), TypeError, r"open it with mode 'r\+'"),
    ("attrs", lambda c: c.array.attrs.update(x=1), TypeError, "open it with mode 'a'"),
    ("mean", lambda c: c.array.mean(), AttributeError, r"a\[\.\.\.\] is a numpy array"),
    ("append", lambda c: c.array.append(ROWS), ValueError, "open it with mode 'a' to append"),
    ("dtype", lambda _: append(ROWS.astype("c16")), TypeError, "convert them with astype"),
    ("shape", lambda _: append(ROWS[:, :2]), ValueError, r"must have shape \(n, 3\)"),
    ("member", lambda c: c.archive["y"], KeyError, "there are: 'x', 'mask'"),
    ("attribute", lambda c: c.archive.mask, AttributeError, r"use archive\['mask'\]"),
    ("clip", lambda c: c.store[0], TypeError, "an id must be a str"),
    ("frame", lambda c: c.store["walk"][4], IndexError, "frame 4 of a clip of 4"),
    ("File", lambda _: bp_.File("a.blp"), AttributeError, "use bloscpack.open"),
    ("zeros", lambda _: bp_.zeros(3), AttributeError, "use bloscpack.Writer"),
    (
        "mmap",
        lambda _: bp_.load("a.blp", mmap_mode="r"),
        TypeError,
        "bloscpack.open reads the part",
    ),
    ("save dtype", lambda _: bp_.save("b.blp", ROWS, dtype="f4"), TypeError, "by its astype"),
    ("swapped", lambda _: bp_.save(ROWS, "b.blp"), TypeError, r"save\(path, array\)"),
    ("dict", lambda _: bp.save("b.blp", {"x": ROWS}), TypeError, "bloscpack.savez stores all"),
    ("codec", lambda _: bp_.save("b.blp", ROWS, codec="gzip"), ValueError, "choose from"),
    ("level", lambda _: bp.save("b.blp", ROWS, clevel=12), ValueError, "must be 0 to 9"),
    ("chunks", lambda _: bp_.save("b.blp", ROWS, chunks=True), TypeError, "a number of rows"),
    (
        "attrs",
        lambda _: bp_.save("b.blp", ROWS, attrs="unit"),
        TypeError,
        "attrs must be a mapping",
    ),
    ("attrs of all", lambda _: bp_.savez("b.blp", a=ROWS, attrs=[1]), TypeError, "be a mapping"),
    ("resize", lambda _: resize("4"), ValueError, "shape must be a tuple of lengths, not '4'"),
    ("few dims", lambda _: bp.save("b.blp", ROWS, attrs={"dims": ["t"]}), ValueError, "2 names"),
    ("no dims", lambda _: bp.save("b.blp", ROWS, attrs={"dims": 5}), ValueError, "2 names"),
    (
        "dims of a writer",
        lambda _: bp.Writer("b.blp", dtype="f8", attrs={"dims": ["t", "x"]}),
        ValueError,
        "1 names",
    ),
    ("new attrs", lambda _: change_attrs({"dims": ["t"]}), ValueError, "2 names"),
    ("verify", lambda _: bp_.open("a.blp", "r+", verify="bad"), ValueError, "False or 'always'"),
    ("locking", lambda _: bp_.open("a.blp", "a", locking="no"), TypeError, "must be True or False"),
    ("stats", lambda _: bp_.save("b.blp", ROWS, stats="yes"), TypeError, "must be True or False"),
    (
        "changeable",
        lambda _: bp_.save("b.blp", ROWS, changeable="no"),
        TypeError,
        "changeable must be True or False, not 'no'",
    ),
    ("fix", lambda _: bp_.verify("a.blp", fix="no"), TypeError, "must be True or False"),
    (
        "others",
        lambda _: bp_.PartsJob("b.blp", shape=(3,), dtype="u1").abort(others="no"),
        TypeError,
        "must be True or False",
    ),
    ("exact", lambda _: bp_.frames.open("s.blp", exact="no"), TypeError, "must be True or False"),
    ("nthreads", lambda _: bp_.save("b.blp", ROWS, nthreads="4"), TypeError, "an integer, not '4'"),
    ("text to read", lambda _: bp.load(StringIO()), TypeError, "open it in binary mode"),
    ("text to write", lambda _: bp_.save(StringIO(), ROWS), TypeError, "open it in binary mode"),
    (
        "rows",
        lambda _: bp_.Writer("b.blp", dtype="f8", shape=5),
        ValueError,
        "such as .None, 4",
    ),
    ("a number", lambda _: add_clip(5), TypeError, "frames must be an array, or an iterable"),
    (
        "size",
        lambda _: bp_.frames.ingest({"a": ROWS}, "b.blp", max_bytes="1 ton"),
        ValueError,
        "text like '64 MiB'",
    ),
    ("csv", lambda _: bp.convert("a.blp", "b.csv"), ValueError, "text is written by 'blpk cat"),
    ("png", lambda _: bp.convert("s.blp", "b.png"), ValueError, "to='images'"),
    ("pickle", lambda _: bp.convert("z.blp", "b.pkl"), ValueError, "this format is not written"),
]


@pytest.mark.parametrize(
    ("call", "kind", "advice"),
    [each[1:] for each in MISTAKES],
    ids=[each[0] for each in MISTAKES],
)
def test_the_error_says_what_to_do(
    case: Case, call: Callable[[Case], object], kind: type[Exception], advice: str
) -> None:
    before = sorted(Path().iterdir())
    with pytest.raises(kind, match=advice):
        call(case)
    assert sorted(Path().iterdir()) == before
