"""Comparison of an array with its copy: every bit of every item."""

from typing import Any

import numpy as np
import pytest

from bloscpack.filetypes import arraysource
from bloscpack.filetypes.arraysource import ArraySource, Rows

RECORD = [("a", "i4"), ("b", "f4")]
NAN = np.array([0x7FF8000000000000, 0x7FF8000000000001], "u8").view("f8")


def source(array: Any, **options: Any) -> ArraySource:
    rows = Rows(array.shape, array.dtype, lambda place: array[place])
    return ArraySource(rows, **options)


def difference(one: Any, two: Any) -> str | None:
    return source(np.asarray(one)).difference(source(np.asarray(two)), lambda nbytes: None)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([0.0], [-0.0]),
        (NAN[:1], NAN[1:]),
        ([complex(0.0, 0)], [complex(0.0, -0.0)]),
        (["a"], ["b"]),
        (np.array([b"a"]), np.array([b"b"])),
        (np.array([(1, 2)], RECORD), np.array([(1, 3)], RECORD)),
        (np.array([1], "i4"), np.array([1], "i8")),
        (np.array([1], "<i4"), np.array([1], ">i4")),
        (np.array([1], "M8[s]"), np.array([1], "M8[ms]")),
        ([1, 2], [[1, 2]]),
        ([1, 2], [1]),
    ],
)
def test_what_differs(one: Any, two: Any) -> None:
    assert difference(one, two) is not None
    assert difference(one, one) is None
    assert difference(two, two) is None


def test_what_is_equal() -> None:
    assert difference(["a", "bb"], np.array(["a", "bb"], "U9")) is None
    padded = np.zeros(2, np.dtype(RECORD, align=True)[["b"]])
    padded.view("u1")[:4] = 1  # between the fields
    assert difference(padded, np.zeros(2, padded.dtype)) is None


@pytest.mark.parametrize("place", [(0, 0), (57, 0), (130, 3), (255, 6)])
@pytest.mark.parametrize("chunks", [None, 10, (16, 2)])
def test_every_part_is_compared(place: Any, chunks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 1000)
    one = np.arange(256 * 7).reshape(256, 7)
    two = one.copy()
    two[place] += 1
    seen: list[int] = []
    assert source(one, chunks=chunks).difference(source(one), seen.append) is None
    assert sum(seen) == one.nbytes
    assert source(one, chunks=chunks).difference(source(two), seen.append) is not None
