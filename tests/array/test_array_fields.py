"""Fields of structured arrays by name: equal to numpy's, read a few chunks at a time."""

from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array import gather
from bloscpack.exceptions import ChecksumMismatch

from ..arrayfiles import array_file

DTYPE = np.dtype(
    [("x", "<f4"), ("y", "<i8", (3,)), ("z", [("deep", "u1"), ("text", "S5")]), (("t", "n"), "?")],
    align=True,
)


def records(*shape: int) -> Any:
    found = np.zeros(shape, DTYPE)
    found["x"] = np.arange(found.size).reshape(shape)
    found["y"] = np.arange(3 * found.size).reshape(*shape, 3)
    found["z"]["text"] = found["x"].astype("S5")
    found["n"] = found["x"] % 2
    return found


INDICES: list[Any] = ["x", "y", "z", "n", "t", ["x"], ["z", "x"], ["n", "y"]]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (0,), (50,), (20, 3), (4, 0)])
def test_fields_are_those_of_numpy(
    index: Any, order: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "_BLOCK_NBYTES", 300)
    array = records(*shape).copy(order)
    with bp.open(array_file(array, chunk_nbytes=DTYPE.itemsize * 6)) as opened:
        expected = array[index]
        for found in (opened[index], opened.read(index)):
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)
        into = np.zeros(expected.shape, expected.dtype)
        assert opened.read(index, out=into) is into
        np.testing.assert_array_equal(into, expected)


def test_fields_of_a_selection_and_of_a_row() -> None:
    array = records(50)
    with bp.open(array_file(array, chunk_nbytes=DTYPE.itemsize * 6)) as opened:
        assert np.array_equal(opened[7:20:3]["x"], array[7:20:3]["x"])
        assert opened[4]["x"] == array[4]["x"]


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ("w", ValueError, "no field named 'w'; the fields are x, y, z, n"),
        (["x", "w"], KeyError, "no field named 'w'; the fields are x, y, z, n"),
        (["x", "x"], ValueError, "a field is listed twice"),
        (("x", 0), IndexError, None),
    ],
)
def test_missing_fields(index: Any, error: type[Exception], message: Any) -> None:
    array = records(5)
    with bp.open(array_file(array)) as opened:
        for read in (lambda: opened[index], lambda: opened.read(index)):
            with pytest.raises(error, match=message):
                read()
    with pytest.raises(error):
        array[index]


def test_arrays_without_fields_refuse_names_as_before() -> None:
    with bp.open(array_file(np.arange(3))) as opened, pytest.raises(IndexError):
        opened["x"]


def test_the_whole_array_is_never_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    array = records(100)
    monkeypatch.setattr(gather, "_BLOCK_NBYTES", 20 * DTYPE.itemsize)
    largest = 0
    inner = gather.gather

    def noting(*args: Any, **options: Any) -> Any:
        nonlocal largest
        found = inner(*args, **options)
        largest = max(largest, len(found))
        return found

    monkeypatch.setattr(gather, "gather", noting)
    with bp.open(array_file(array, chunk_nbytes=DTYPE.itemsize * 6)) as opened:
        assert np.array_equal(opened["x"], array["x"])
    assert largest == 18


def test_fields_of_a_damaged_file() -> None:
    array = records(50)
    data = bytearray(array_file(array, chunk_nbytes=DTYPE.itemsize * 10))
    with bp.open(bytes(data)) as opened:
        data[opened.chunk_offset(2) + 30] ^= 1
    with bp.open(bytes(data)) as opened:
        with pytest.raises(ChecksumMismatch):
            opened["x"]
        found = opened.read("x", on_error="fill")
        assert found[:20].tolist() == array["x"][:20].tolist()
        assert not found[20:30].any()
        assert len(opened.read(["x"], on_error="skip")) == 40
        with pytest.raises(ValueError, match="out cannot be used"):
            opened.read("x", out=np.zeros(50, "<f4"), on_error="fill")
