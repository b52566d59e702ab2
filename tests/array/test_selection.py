"""Parsing of indices, compared with numpy."""

import io
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.array.selection import Picked, parse_selection

from ..reference.selection import outer, side_lists
from ..strategies import outer_selections, picking_selections, selections, shapes


class NoIndex:
    pass


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = draw(shapes)
    if shape and draw(st.booleans()):
        return shape, draw(picking_selections(shape))
    return shape, draw(selections(shape))


outer_cases = shapes.flatmap(lambda shape: st.tuples(st.just(shape), outer_selections(shape)))


@given(cases())
def test_shape_and_scalarness_are_numpys(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    expected = np.zeros(shape, "i4")[index]
    found = parse_selection(index, shape)
    assert found.shape == expected.shape
    assert found.is_scalar == (not isinstance(expected, np.ndarray))
    assert prod(found.lengths) == expected.size


@given(cases())
def test_sides_select_the_same_items(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    numbers = np.arange(prod(shape)).reshape(shape)
    found = parse_selection(index, shape)
    assert len(found.sides) == len(shape)
    picked = numbers[np.ix_(*side_lists(found.sides))] if shape else numbers
    assert picked.shape == found.lengths
    assert np.array_equal(found.arrange(picked), numbers[index])
    assert found.ndistinct == len(set(picked.flat))


@given(cases(), st.sampled_from(["C", "F", "strided"]))
def test_spread_inverts_arrange(case: tuple[tuple[int, ...], Any], layout: str) -> None:
    shape, index = case
    chosen = parse_selection(index, shape)
    result = np.zeros(chosen.shape, "i4", order="F" if layout == "F" else "C")
    if layout == "strided" and chosen.shape:
        result = np.zeros((*chosen.shape[:-1], 2 * chosen.shape[-1]), "i4")[..., ::2]
    target = chosen.spread(result)
    if target is None:
        # Only a list of several dimensions may not fit the strides of one axis.
        assert len(chosen.shape) > len(np.squeeze(result).shape) or layout != "C"
        return
    assert target.shape == chosen.lengths
    target[...] = numbers = np.arange(target.size).reshape(target.shape)
    assert np.array_equal(result, chosen.arrange(numbers))


@given(cases())
def test_first_is_the_axis_of_the_first_axis(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    chosen = parse_selection(index, shape)
    if not chosen.shape:
        assert chosen.first == -1
        return
    # Values that vary along one array axis vary along the result's first axis only for `first`.
    for axis, length in enumerate(shape):
        ramp = np.arange(length).reshape(-1, *(1,) * (len(shape) - axis - 1))
        along = np.broadcast_to(ramp, shape)[index]
        if along.size and (along != along[:1]).any():
            assert axis == chosen.first


@pytest.mark.parametrize(
    ("index", "first", "moved"),
    [
        ((slice(None), [2, 0], None, 0), 1, 1),
        ((0, slice(None), [2, 0, 0]), 2, 2),
        ((slice(None), [2, 0], 0), 0, -1),
        ((None, [2, 0], slice(None), 0), 0, 0),
        ((None, [2, 0]), -1, -1),
        ((0, ..., 0), 1, -1),
        ((0, 0, 0), -1, -1),
        ((0, 0, 0, None), -1, -1),
    ],
    ids=str,
)
def test_the_place_of_a_list(index: Any, first: int, moved: int) -> None:
    found = parse_selection(index, (3, 3, 3))
    assert (found.first, found.moved) == (first, moved)
    assert found.shape == np.zeros((3, 3, 3))[index].shape


def test_a_list_of_lists_spreads_only_where_strides_allow() -> None:
    chosen = parse_selection([[4, 1, 0], [2, 2, 9]], (10, 6))
    assert chosen.shape == (2, 3, 6)
    assert chosen.spread(np.zeros((2, 5, 6))[:, :3]) is None
    whole = np.zeros((2, 6, 6))[:, ::2]
    assert np.shares_memory(chosen.spread(whole), whole)


@given(outer_cases)
def test_outer_selects_along_each_axis(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    numbers = np.arange(prod(shape)).reshape(shape)
    found = parse_selection(index, shape, outer=True)
    picked = numbers[np.ix_(*side_lists(found.sides))] if shape else numbers
    assert np.array_equal(found.arrange(picked), outer(numbers, index))


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([4], range(4, 5)),
        ([-1], range(9, 10)),
        ([2, 4, 6], range(2, 8, 2)),
        ([3, 2, 1, 0], range(3, -1, -1)),
        ([-3, -2], range(7, 9)),
        ([], range(0)),
        ([True] * 10, range(10)),
        ([False] * 5 + [True] * 5, range(5, 10)),
    ],
)
def test_lists_with_a_fixed_step_are_ranges(indices: list[int], expected: range) -> None:
    assert parse_selection(indices, (10,)).sides == (expected,)


def test_lists_without_one_are_sorted() -> None:
    (side,) = parse_selection([7, -10, 7, 2], (10,)).sides
    assert isinstance(side, Picked)
    assert side.sorted.tolist() == [0, 2, 7, 7]
    assert side.order is not None
    assert side.order.tolist() == [1, 3, 0, 2]
    assert (len(side), side.ndistinct, side.tolist()) == (4, 3, [7, 0, 7, 2])
    with pytest.raises(TypeError, match="not a range"):
        parse_selection([7, -10, 7, 2], (10,)).ranges  # noqa: B018


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
        ([0, 3], (3,), "index 3 is out of bounds for axis 0 with size 3"),
        ([0, -4], (3,), "index -4 is out of bounds"),
        (([0], [3]), (3,), "too many indices"),
        ((0, [0, 5]), (3, 5), "axis 1 with size 5"),
        ([5], (3, 0), "index 5"),
        ([0], (0,), "index 0"),
        ([True, False], (3,), "length 2 does not match axis 0 with size 3"),
        (np.zeros(4, bool), (3,), "length 4"),
        (1.0, (3,), "not 'float'"),
        ("a", (3,), "not 'str'"),
        (b"a", (3,), "not 'bytes'"),
        ({}, (3,), "not 'dict'"),
        (NoIndex(), (3,), "not 'NoIndex'"),
        ([1.0], (3,), "'list' of dtype float64"),
        (np.array([]), (3,), "'ndarray' of dtype float64"),
        (np.array(1.5), (3,), "of dtype float64"),
        (["a"], (3,), "'list' of dtype <U1"),
        ([slice(1)], (3,), "'list' of dtype object"),
        ((None,) * 64, (3,), "65 dimensions"),
    ],
)
def test_index_errors(index: Any, shape: tuple[int, ...], message: str) -> None:
    # NumPy 1.26 only warns of one that is out of bounds where nothing is selected.
    with pytest.raises((IndexError, DeprecationWarning)):
        np.zeros(shape)[index]
    with pytest.raises(IndexError, match=message):
        parse_selection(index, shape)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.ones((3, 3), bool), "2 dimensions"),
        ([[True, False, True]] * 3, "2 dimensions"),
        (([0, 1], [0, 1]), "oindex"),
        ((np.array([0]), slice(None), [True] * 3), "oindex"),
    ],
    ids=repr,
)
def test_indices_that_only_numpy_supports_raise_type_error(index: Any, message: str) -> None:
    np.zeros((3, 3, 3))[index]
    with pytest.raises(TypeError, match=message):
        parse_selection(index, (3, 3, 3))


@pytest.mark.parametrize("index", [slice(0.5), slice("a", None)])
def test_slices_of_no_integers(index: Any) -> None:
    with pytest.raises(TypeError):
        parse_selection(index, (3, 3))


def test_ragged_lists_are_numpys_error() -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        parse_selection([1, [2]], (3,))


def test_large_unsigned_indices_are_out_of_bounds() -> None:
    # numpy wraps this one to -1.
    with pytest.raises(IndexError, match="18446744073709551615"):
        parse_selection(np.array([2**64 - 1], "u8"), (3,))


def test_outer_takes_flat_lists() -> None:
    with pytest.raises(IndexError, match="one dimension"):
        parse_selection([[0, 1]], (3,), outer=True)


def test_step_of_zero() -> None:
    with pytest.raises(ValueError, match="zero"):
        parse_selection(slice(None, None, 0), (3,))


TRUTHS = [
    *(True, False, np.True_, np.array(False), (True,), (True, True), (True, False), (True, None)),
    *((None, True), (..., True), (True, ...), (True, 0), (0, True), (-1, ..., False)),
    *((slice(0, 1), True), (slice(None), True, 0), (0, slice(None), True), (False, slice(None), 1)),
    *((True, slice(None), True), (slice(None, None, 2), False)),
]


@pytest.mark.parametrize("index", TRUTHS, ids=repr)
@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (0, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_true_and_false_add_an_axis(index: Any, shape: tuple[int, ...], order: Any) -> None:
    numbers = np.asarray(np.arange(prod(shape)).reshape(shape), order=order)
    stream = io.BytesIO()
    bp.save(stream, numbers)
    with bp.open(stream.getvalue()) as array:
        try:
            expected = numbers[index]
        except IndexError:
            with pytest.raises(IndexError):
                array[index]
            return
        assert array[index].shape == expected.shape
        assert np.array_equal(array[index], expected)
        for on_error in ("raise", "fill", "skip"):
            read = array.read(index, on_error=on_error)
            assert np.array_equal(read, expected)
        out = np.full_like(expected, 9)
        assert array.read(index, out=out) is out
        assert np.array_equal(out, expected)


def test_truths_with_lists_and_in_outer_indices_are_refused() -> None:
    with pytest.raises(TypeError, match="only one list"):
        parse_selection(([0], True), (2, 3))
    with pytest.raises(TypeError, match="only one list"):
        parse_selection((True, [0]), (2, 3))
    with pytest.raises(IndexError, match="one dimension only"):
        parse_selection((True, 0), (2, 3), outer=True)
