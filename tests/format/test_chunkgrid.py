"""Geometry of the chunk grid, compared with counting the items of a numpy array."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError
from bloscpack.format.chunkgrid import ChunkGrid


@st.composite
def grids(draw: st.DrawFn, *, is_empty: bool = True) -> ChunkGrid:
    least = 0 if is_empty else 1
    shape = tuple(draw(st.lists(st.integers(least, 7), min_size=1, max_size=4)))
    first = draw(st.integers(1, 9))
    chunks = (first, *(draw(st.integers(1, max(length, 1))) for length in shape[1:]))
    return ChunkGrid(shape, chunks, draw(st.sampled_from([1, 2, 8, 13])), draw(st.booleans()))


def numbered(grid: ChunkGrid) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return an array whose items are the index of the chunk that holds them."""
    owner = np.zeros(grid.shape, np.int64)
    for place in np.ndindex(grid.shape):
        at = [index // step for index, step in zip(place, grid.chunks, strict=True)]
        owner[place] = np.ravel_multi_index(
            at, [-(-n // c) for n, c in zip(grid.shape, grid.chunks, strict=True)]
        )
    return owner


@given(grids())
def test_every_item_is_in_the_box_of_one_chunk(grid: ChunkGrid) -> None:
    owner = numbered(grid)
    assert grid.nchunks == max(1, len(np.unique(owner)))
    seen = np.zeros(grid.shape, int)
    for index in range(grid.nchunks):
        box = tuple(slice(side.start, side.stop) for side in grid.box(index))
        seen[box] += 1
        assert (owner[box] == index).all()
        assert grid.lengths(index) == owner[box].shape
        assert grid.size(index) == owner[box].size * grid.itemsize
        region = grid.region(index)
        assert region == (box[::-1] if grid.is_fortran else box)
    assert (seen == 1).all()


@given(grids())
def test_positions_of_decoded_bytes(grid: ChunkGrid) -> None:
    start = 0
    for index in range(grid.nchunks):
        size = grid.size(index)
        assert grid.start(index) == start
        if size:
            assert grid.at(start) == grid.at(start + size - 1) == index
        start += size
    assert start == grid.nbytes


@given(grids(is_empty=False))
def test_sizes_are_those_that_occur(grid: ChunkGrid) -> None:
    expected = {grid.size(index) for index in range(grid.nchunks)}
    assert grid.sizes(100) == expected
    assert grid.sizes(1) <= expected


@given(grids(is_empty=False), st.integers(0, 9))
def test_appending_rows_keeps_the_chunks_of_full_rows(grid: ChunkGrid, more: int) -> None:
    later = grid.with_rows(grid.shape[0] + more)
    assert later.continues(grid)
    assert grid.continues(later) == (more == 0)
    same = [index for index in range(grid.nchunks) if grid.box(index) == later.box(index)]
    assert set(range(grid.nstable)) <= set(same)
    far = grid.with_rows(grid.shape[0] + grid.chunks[0])
    assert all(grid.box(index) != far.box(index) for index in range(grid.nstable, grid.nchunks))


@given(grids())
def test_metadata_describe_the_grid(grid: ChunkGrid) -> None:
    step = -1 if grid.is_fortran else 1
    metadata = {
        "shape": list(grid.shape)[::step],
        "chunks": list(grid.chunks)[::step],
        "order": "F" if grid.is_fortran else "C",
        "container": "numpy",
    }
    last = grid.size(grid.nchunks - 1)
    found = ChunkGrid.of_metadata(metadata, last)
    assert found == (grid if prod(grid.shape) else replace(grid, itemsize=0))


def described(**changes: Any) -> dict[str, Any]:
    return {"shape": [5, 4], "chunks": [2, 2], "order": "C", "container": "numpy", **changes}


@pytest.mark.parametrize(
    ("metadata", "last_chunk", "match"),
    [
        (None, 4, "describe an array"),
        (described(container="x"), 4, "describe an array"),
        (described(shape=None), 4, "shape"),
        (described(shape=[]), 4, "shape"),
        (described(shape=[5, -4]), 4, "shape"),
        (described(shape=[5, True]), 4, "shape"),
        (described(chunks=None), 4, "chunks is not a list of 2"),
        (described(chunks=[2]), 4, "chunks is not a list of 2"),
        (described(chunks=[2, 0]), 4, "at least 1"),
        (described(chunks=[2, 1.0]), 4, "at least 1"),
        (described(chunks=[2, 2**64]), 4, "at least 1"),
        (described(chunks=[2, 5]), 4, "5 for an axis of 4"),
        (described(order="A"), 4, "order"),
        (described(), 3, "last chunk has 2 items"),
        (described(), 0, "last chunk has 2 items"),
        (described(shape=[0, 4]), 2, "last chunk has 0 items"),
        (described(chunks=[2**30, 2]), 40, "exceeds"),
        (described(shape=[2**60, 2**60], chunks=[1, 1]), 1, "2\\^63"),
        (described(shape=[2] * 64, chunks=[1] * 64), 1, "2\\^63"),
        (described(shape=[2] * 65, chunks=[1] * 65), 1, "shape"),
    ],
)
def test_bad_metadata(metadata: Any, last_chunk: int, match: str) -> None:
    with pytest.raises(FormatError, match=match):
        ChunkGrid.of_metadata(metadata, last_chunk)


def test_a_chunk_may_be_longer_than_the_axis_that_grows() -> None:
    grid = ChunkGrid.of_metadata(described(chunks=[100, 2]), 80)
    assert (grid.itemsize, grid.nchunks, grid.nstable) == (8, 2, 0)


def test_sizes_are_bounded_for_many_axes() -> None:
    grid = ChunkGrid((3,) * 64, (2,) * 64, 1)
    assert len(grid.sizes(64)) <= 64
