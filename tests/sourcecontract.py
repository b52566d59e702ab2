"""Checks of the members that every source of frames and every clip has."""

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bloscpack.exceptions import NotFoundError

from .strategies import slices

Array = np.ndarray[Any, np.dtype[Any]]


def check_source(source: Any) -> None:
    """Check the members of a mapping; sources must have at least one clip."""
    ids = list(source.keys())
    assert isinstance(source.attrs, dict)
    assert [id_ for id_, _ in source.items()] == ids
    assert [clip.id for clip in source.values()] == ids
    assert [clip.id for _, clip in source.items()] == ids
    assert len(source.items()) == len(source.values()) == len(ids)
    assert source.get(ids[0]).id == ids[0]
    assert source.get("no such clip") is None
    assert source.get("no such clip", 5) == 5
    with pytest.raises(NotFoundError):
        source["no such clip"]


def check_clip(clip: Any) -> None:
    """Check a clip against numpy's indexing of its frames."""
    whole = clip.read()
    assert clip.shape == whole.shape
    assert (clip.ndim, clip.nbytes) == (whole.ndim, whole.nbytes)
    assert np.array_equal(np.asarray(clip), whole)
    assert np.array_equal(np.stack(list(clip)), whole)
    last, wide = len(clip) - 1, slice(1, 7, 2)
    indices: list[Any] = [
        (), (last,), (0, wide), (-1, wide, ..., -1), (..., 0), (..., wide, slice(None, None, -1)),
        (slice(None), 2), (slice(0, None, 2), ..., 1), ([last, 0], slice(3), -2), (0, 1, ...),
        (np.arange(len(clip)) % 2 == 0, ..., wide), (np.array([0, -1]), ...), (np.int16(0), wide),
        (0, *[1] * (whole.ndim - 1)), (0, *[1] * (whole.ndim - 1), ...),
        (..., 0, *[1] * (whole.ndim - 1)), (slice(0, 0), 1),
    ]  # fmt: skip
    for index in indices:
        check_index(clip, whole, index)
    for index in [(last + 1, 0), (0, 1 << 20), (..., *[0] * (whole.ndim + 1)), (0, ..., ...)]:
        with pytest.raises(IndexError):
            clip[index]
    for index in [(0, [1]), (0, None), (None, 0), (0, True), (0, "x"), ("x", 0), ((0, 1), 0)]:
        with pytest.raises(TypeError):
            clip[index]


def check_index(clip: Any, whole: Array, index: tuple[Any, ...]) -> None:
    found, expected = clip[index], whole[index]
    assert type(found) is type(expected), index
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), index
    assert np.array_equal(found, expected), index
    if isinstance(found, np.ndarray):
        assert found.flags.c_contiguous
        assert found.base is None or found.base.nbytes == found.nbytes  # holds nothing else


@st.composite
def axis_indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw an index that clips of this shape take."""
    length = shape[0]
    lists = st.lists(st.integers(-length, length - 1), min_size=1, max_size=5)
    first = draw(slices(length) | st.integers(-length, length - 1) | lists)
    inside = [draw(slices(n) | st.integers(-n, n - 1)) for n in shape[1:]]
    count = draw(st.integers(0, len(inside)))
    if draw(st.booleans()):  # entries for the last axes
        return (first, ..., *inside[len(inside) - count :])
    return (first, *inside[:count])
