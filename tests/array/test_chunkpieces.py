"""Pieces of a selection, compared with counting every item."""

from math import prod
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from bloscpack.array.chunkpieces import GridPieces, boxes, contiguous_run, cross, pieces, runs
from bloscpack.array.selection import parse_selection
from bloscpack.format.chunkgrid import ChunkGrid

from ..reference.selection import items
from ..strategies import outer_selections, selections, shapes


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = draw(shapes)
    return shape, draw(selections(shape) if draw(st.booleans()) else outer_selections(shape))


@given(shapes, st.data())
def test_boxes_are_the_run(shape: tuple[int, ...], data: st.DataObject) -> None:
    size = prod(shape)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    numbers = np.arange(size).reshape(shape)
    found: list[int] = []
    for box in boxes(start, stop, shape):
        assert len(box) == len(shape)
        found += (numbers[np.ix_(*box)] if shape else numbers).reshape(-1).tolist()
    assert found == list(range(start, stop))


@given(cases(), st.data())
def test_pieces_fill_their_places_with_their_items(
    case: tuple[tuple[int, ...], Any], data: st.DataObject
) -> None:
    shape, index = case
    size = prod(shape)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    chosen = parse_selection(index, shape, outer=True)
    expected = items(start, stop, shape, chosen.sides)
    result = np.full(chosen.lengths, -1)
    for piece in pieces(start, stop, shape, chosen.sides):
        view = np.full(piece.lengths, piece.origin)
        for axis, (length, step) in enumerate(zip(piece.lengths, piece.steps, strict=True)):
            view += (np.arange(length) * step).reshape(-1, *(1,) * (len(shape) - axis - 1))
        assert (view.min(), view.max()) == (piece.first, piece.last)
        assert 0 <= piece.first <= piece.last < stop - start
        if piece.source is not None:
            view = view[cross(piece.source, piece.lengths)]
        target = cross(piece.target, result.shape)
        assert np.all(result[target] == -1), "a place is filled twice"
        result[target] = view + start
    filled = {place: int(result[place]) for place in np.ndindex(result.shape) if result[place] >= 0}
    assert filled == expected


@given(cases(), st.data())
def test_pieces_of_a_grid(case: tuple[tuple[int, ...], Any], data: st.DataObject) -> None:
    shape, index = case
    assume(shape)
    chunks = tuple(data.draw(st.integers(1, max(length, 1))) for length in shape)
    grid = ChunkGrid(shape, chunks, 1)
    chosen = parse_selection(index, shape, outer=True)
    found = GridPieces(shape, chunks, chosen.sides)
    numbers = np.arange(prod(shape)).reshape(shape)
    result = np.full(chosen.lengths, -1)
    needed = []
    for chunk in range(grid.nchunks):
        piece = found.piece(chunk)
        if piece is None:
            continue
        needed.append(chunk)
        content = numbers[grid.region(chunk)].reshape(-1)
        assert 0 <= piece.first <= piece.last < content.size
        view = np.ndarray(
            piece.lengths, np.int64, content.copy(), 8 * piece.origin, [8 * n for n in piece.steps]
        )
        if piece.source is not None:
            view = view[cross(piece.source, piece.lengths)]
        target = cross(piece.target, result.shape)
        assert np.all(result[target] == -1), "a place is filled twice"
        result[target] = view
    assert found.chunks() == needed
    filled = {place: int(result[place]) for place in np.ndindex(result.shape)}
    assert filled == items(0, prod(shape), shape, chosen.sides)


@given(cases(), st.integers(1, 50))
def test_runs_are_the_chunks_that_are_needed(case: tuple[tuple[int, ...], Any], size: int) -> None:
    shape, index = case
    chosen = parse_selection(index, shape, outer=True)
    found = runs(shape, chosen.sides, size)
    needed = {item // size for item in items(0, prod(shape), shape, chosen.sides).values()}
    assert found == sorted(set(found))
    assert needed <= set(found)
    assert all(0 <= run * size < max(1, prod(shape)) for run in found)


@given(st.integers(1, 200), st.integers(1, 20), st.booleans(), st.data())
def test_runs_are_exact_along_the_first_axis(
    length: int, size: int, is_list: bool, data: st.DataObject
) -> None:
    place = st.integers(-length, length - 1)
    index: Any = (
        data.draw(st.lists(place, min_size=1))
        if is_list
        else slice(
            data.draw(place),
            data.draw(place),
            data.draw(st.integers(-40, 40).filter(bool)),
        )
    )
    chosen = np.arange(length)[index]
    assume(len(chosen))
    found = runs((length,), parse_selection(index, (length,)).sides, size)
    assert found == sorted({int(item) // size for item in chosen})


@given(cases())
def test_contiguous_runs(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    chosen = parse_selection(index, shape, outer=True)
    wanted = list(items(0, prod(shape), shape, chosen.sides).values())
    assume(wanted)
    is_run = wanted == list(range(wanted[0], wanted[0] + len(wanted)))
    expected = (wanted[0], len(wanted)) if is_run else None
    assert contiguous_run(shape, chosen.sides) == expected
