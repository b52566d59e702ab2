"""Selections as arithmetic, beside numpy and a count of every item."""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bloscpack.grid import boxes, pieces, runs
from bloscpack.selection import parse_selection

from .reference.selection import items
from .strategies import selections, shapes


class NoIndex:
    pass


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = draw(shapes)
    return shape, draw(selections(shape))


@given(cases())
def test_shape_and_scalarness_are_numpys(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    expected = np.zeros(shape, "i4")[index]
    found = parse_selection(index, shape)
    assert found.shape == expected.shape
    assert found.is_scalar == (not isinstance(expected, np.ndarray))
    assert prod(found.lengths) == expected.size


@given(cases())
def test_ranges_select_the_same_items(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    numbers = np.arange(prod(shape)).reshape(shape)
    found = parse_selection(index, shape)
    assert len(found.ranges) == len(shape)
    picked = numbers[np.ix_(*found.ranges)] if shape else numbers
    assert np.array_equal(picked.reshape(found.shape), numbers[index])


@pytest.mark.parametrize(
    ("index", "shape", "message"),
    [
        (0, (), "too many indices"),
        ((0, 0), (3,), "too many indices"),
        ((0, None, 0, ...), (3,), "too many indices"),
        ((..., ...), (3, 3), "single ellipsis"),
        (3, (3,), "out of bounds for axis 0 with size 3"),
        (-4, (3,), "index -4 is out of bounds"),
        ((0, 5), (3, 5), "axis 1 with size 5"),
        (0, (0,), "out of bounds"),
        (2**70, (3,), "out of bounds"),
    ],
)
def test_index_errors(index: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(IndexError):
        np.zeros(shape)[index]
    with pytest.raises(IndexError, match=message):
        parse_selection(index, shape)


@pytest.mark.parametrize(
    "index",
    [
        True,
        np.True_,
        (0, False),
        1.0,
        "a",
        b"a",
        NoIndex(),
        [0, 1],
        np.array([0, 1]),
        np.array([True, False, True]),
        np.array(1.5),
        slice(0.5),
        slice("a", None),
        {},
    ],
    ids=repr,
)
def test_other_kinds_of_index_are_type_errors(index: Any) -> None:
    with pytest.raises(TypeError):
        parse_selection(index, (3, 3))


def test_a_mask_is_never_taken_for_a_number() -> None:
    # True is 1 to Python; numpy makes a new axis of it.
    with pytest.raises(TypeError, match="bool"):
        parse_selection(True, (3,))


def test_step_of_zero() -> None:
    with pytest.raises(ValueError, match="zero"):
        parse_selection(slice(None, None, 0), (3,))


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
    chosen = parse_selection(index, shape)
    expected = items(start, stop, shape, chosen.ranges)
    result = np.full(chosen.lengths, -1)
    for piece in pieces(start, stop, shape, chosen.ranges):
        view = np.full(piece.lengths, piece.origin)
        for axis, (length, step) in enumerate(zip(piece.lengths, piece.steps, strict=True)):
            view += (np.arange(length) * step).reshape(-1, *(1,) * (len(shape) - axis - 1))
        assert (view.min(), view.max()) == (piece.first, piece.last)
        assert start <= piece.first <= piece.last < stop
        assert np.all(result[piece.target] == -1), "a place is filled twice"
        result[piece.target] = view
    filled = {place: int(result[place]) for place in np.ndindex(result.shape) if result[place] >= 0}
    assert filled == expected


@given(cases(), st.integers(1, 50))
def test_runs_are_the_chunks_that_are_needed(case: tuple[tuple[int, ...], Any], size: int) -> None:
    shape, index = case
    chosen = parse_selection(index, shape)
    found = list(runs(shape, chosen.ranges, size))
    needed = {item // size for item in items(0, prod(shape), shape, chosen.ranges).values()}
    assert found == sorted(set(found))
    assert needed <= set(found)
    assert all(0 <= run * size < max(1, prod(shape)) for run in found)


@given(st.integers(1, 200), st.integers(1, 20), st.data())
def test_runs_are_exact_along_the_first_axis(length: int, size: int, data: st.DataObject) -> None:
    chosen = range(length)[
        data.draw(st.integers(0, length)) : data.draw(st.integers(0, length)) : data.draw(
            st.integers(1, 40)
        )
    ]
    assume(len(chosen))
    assert list(runs((length,), (chosen,), size)) == sorted({item // size for item in chosen})
