"""Iterating over the rows of an array: each chunk is read and decoded once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import FormatError

from ..arrayfiles import NotingFile, array_file, bytes_read_per_chunk, content_file
from ..strategies import assert_same, fill


@given(
    st.sampled_from([(40,), (13, 5), (7, 3, 4)]),
    st.sampled_from("CF"),
    st.integers(1, 60_000),
    st.sampled_from([1, 3]),
)
def test_each_chunk_is_read_once(
    shape: tuple[int, ...], order: Any, chunk_nbytes: int, nthreads: int
) -> None:
    # Random bytes, which do not compress.
    array = fill(np.dtype("V701"), shape, 5).copy(order)
    stream = NotingFile(array_file(array, chunk_nbytes=max(chunk_nbytes, 350)))
    with bp.open(stream, nthreads=nthreads) as opened:
        rows = []
        stream.reads.clear()
        for row in opened:
            rows.append(row)
        read = bytes_read_per_chunk(stream)
        stream.reads[:] = [(0, len(stream.getvalue()))]
        sizes = bytes_read_per_chunk(stream)
    assert len(rows) == len(array)
    for row, expected in zip(rows, array, strict=True):
        assert_same(row, expected)
    # Besides the chunk itself, only headers are read, and the first bytes of the last chunk once.
    last = max(sizes)
    assert all(read[chunk] <= sizes[chunk] + 64 + 4096 * (chunk == last) for chunk in sizes)


def test_no_more_rows_are_read_than_requested() -> None:
    array = fill(np.dtype("<i4"), (1000, 50), 1)
    stream = NotingFile(array_file(array, chunk_nbytes=10 * 200))
    with bp.open(stream) as opened:
        stream.reads.clear()
        rows = iter(opened)
        assert_same(next(rows), array[0])
        assert {n for n, count in bytes_read_per_chunk(stream).items() if count > 64} == {0}


def test_an_array_without_dimensions() -> None:
    with (
        bp.open(array_file(np.array(5))) as opened,
        pytest.raises(TypeError, match="without dimensions"),
    ):
        iter(opened)


def test_closed_while_iterating() -> None:
    array = np.arange(10)
    opened = bp.open(array_file(array, chunk_nbytes=16))
    rows = iter(opened)
    next(rows)
    opened.close()
    with pytest.raises(ValueError, match="closed"):
        next(rows)
    with pytest.raises(ValueError, match="closed"):
        iter(opened)


@pytest.mark.parametrize("dtype", ["S0", "<U0", "V0"])
def test_items_of_zero_bytes(dtype: str) -> None:
    metadata = {"dtype": f"'|{dtype.strip('<')}'", "shape": [3], "order": "C", "container": "numpy"}
    if dtype == "<U0":
        metadata["dtype"] = "'<U0'"
    with bp.open(content_file(b"", metadata)) as opened:
        assert len(list(opened)) == 3


def test_text_beyond_unicode() -> None:
    # numpy would make an invalid Python str.
    data = np.array([65, 0x110000, 66], "<u4").view("<U1")
    with bp.open(array_file(data, chunk_nbytes=4)) as opened:
        rows = iter(opened)
        assert next(rows) == "A"
        with pytest.raises(FormatError, match="Unicode"):
            next(rows)
        with pytest.raises(FormatError, match="Unicode"):
            opened[1]
        assert opened[:2].nbytes == 8
