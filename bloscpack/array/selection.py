"""Parsing of indices into selections.

Along every axis a selection is a `range` or, where a list or a mask picks indices without a fixed
step, a `Picked`. The selected items are all combinations (an outer product). numpy's indexing by
one list is the same with the axes in another order, which `Selection` records.

Pure: shapes and indices in, selections out.
"""

import operator
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..format.metadata import MAX_NDIM
from ..types import IntArray

Box: TypeAlias = tuple[range, ...]


class Picked:
    """Indices along one axis, in any order and possibly repeated.

    Attributes
    ----------
    sorted : ndarray of int64
        The indices, ascending.
    order : ndarray of int64 or None
        Position in the selection of each sorted index; None if they were given in ascending order.
    """

    __slots__ = ("order", "sorted")

    def __init__(self, indices: IntArray) -> None:
        self.order: IntArray | None = None
        self.sorted = indices
        if (indices[1:] < indices[:-1]).any():
            self.order = order = np.argsort(indices, kind="stable")
            self.sorted = indices[order]

    def __len__(self) -> int:
        return len(self.sorted)

    @property
    def ndistinct(self) -> int:
        """Number of distinct indices."""
        return 1 + int(np.count_nonzero(np.diff(self.sorted)))

    def tolist(self) -> list[int]:
        """Return the indices in the order of the selection."""
        indices = np.empty_like(self.sorted)
        indices[slice(None) if self.order is None else self.order] = self.sorted
        return [int(index) for index in indices]


Sides: TypeAlias = tuple[range | Picked, ...]


class Selection(NamedTuple):
    """Index applied to a shape.

    Attributes
    ----------
    sides : tuple of range or Picked
        The indices selected along each axis of the array; one index for an integer.
    shape : tuple of int
        Shape of the result: axes of integers dropped, new axes inserted.
    is_scalar : bool
        Whether numpy returns a scalar rather than an array without dimensions.
    first : int
        The axis of the array that becomes the first axis of the result; -1 if that is a new axis
        or the result has no axes.
    moved : int
        The axis of the array that numpy moves to the front of the result, or -1. numpy moves the
        axis of a list that is separated from an integer by a slice or a new axis.
    """

    sides: Sides
    shape: tuple[int, ...]
    is_scalar: bool
    first: int
    moved: int = -1

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of indices selected along each axis of the array."""
        return tuple(map(len, self.sides))

    @property
    def ranges(self) -> Box:
        """Indices along each axis, as ranges.

        Raises
        ------
        TypeError
            A list or mask selects indices that are not a range.
        """
        ranges = tuple(side for side in self.sides if isinstance(side, range))
        if len(ranges) < len(self.sides):
            raise TypeError("a list or a mask selects indices that are not a range")
        return ranges

    @property
    def ndistinct(self) -> int:
        """Number of distinct items selected."""
        count = 1
        for side in self.sides:
            count *= side.ndistinct if type(side) is Picked else len(side)
        return count

    def arrange(self, gathered: Any, out: Any = None) -> Any:
        """Return a view of `gathered`, of shape `lengths`, with numpy's shape of the result.

        If `out` is given, return it instead, with the same items.
        """
        if self.moved > 0:
            gathered = np.moveaxis(gathered, self.moved, 0)
        if not self.sides and 0 in self.shape:  # False of an array without dimensions
            gathered = gathered.reshape(1)[:0]
        result = gathered.reshape(self.shape)
        if out is None:
            return result
        # `gathered` is new memory where `spread` found no view of `out`, else it is `out` already.
        if out.dtype.itemsize and not np.may_share_memory(result, out):
            # Copied as void: copying by field would leave out the padding of structured items.
            void = np.dtype((np.void, out.dtype.itemsize))
            out.view(void)[...] = result.view(void)
        return out

    def spread(self, result: Any) -> Any:
        """Return a view of `result`, of shape `shape`, with shape `lengths`; inverts `arrange`.

        None if the memory layout of `result` allows no such view. A list of several dimensions
        becomes one axis, which may need a copy.
        """
        lengths = self.lengths
        if prod(lengths) != result.size:  # False of an array without dimensions
            return None
        if self.moved > 0:
            fronted = (lengths[self.moved], *lengths[: self.moved], *lengths[self.moved + 1 :])
            spread = np.moveaxis(result.reshape(fronted), 0, self.moved)
        else:
            spread = result.reshape(lengths)
        return spread if not spread.size or np.may_share_memory(spread, result) else None


def parse_selection(index: Any, shape: tuple[int, ...], *, outer: bool = False) -> Selection:
    """Apply `index` to an array of `shape` and return the `Selection`.

    Accepts integers, slices of any step, Ellipsis, None (a new axis), and one list, integer array
    or one-dimensional mask, or True or False, with numpy's meaning. With `outer`, each axis may
    have a list, array or mask, applied independently as by ``numpy.ix_``.

    Raises
    ------
    IndexError
        An integer is out of bounds, there are too many indices, or numpy does not support an
        index of this kind.
    TypeError
        numpy supports the index, but this package does not: several lists, or masks that do not
        have one dimension.
    """
    if type(index) is int and shape:
        one = _one_index(index, 0, shape)
        return Selection(
            (range(one, one + 1), *map(range, shape[1:])),
            shape[1:],
            len(shape) == 1,
            1 if len(shape) > 1 else -1,
        )
    entries = index if isinstance(index, tuple) else (index,)
    nellipsis = sum(entry is Ellipsis for entry in entries)
    if nellipsis > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    nindices = sum(
        entry is not None and entry is not Ellipsis and not _is_truth(entry) for entry in entries
    )
    if nindices > len(shape):
        raise IndexError(
            f"too many indices: the array has {len(shape)} dimensions, {nindices} were indexed"
        )
    parser = _Parser(shape, outer)
    for place, entry in enumerate(entries):
        if entry is Ellipsis:
            parser.take_whole(len(shape) - nindices)
        else:
            parser.take(entry, place)
    parser.take_whole(len(shape) - len(parser.sides))
    return parser.selection(may_be_scalar=not nellipsis and nindices == len(shape))


class _Parser:
    """Builder of a selection, fed with one entry of the index at a time."""

    def __init__(self, shape: tuple[int, ...], outer: bool) -> None:
        self._shape = shape
        self._outer = outer
        self.sides: list[range | Picked] = []
        # Shape of the result, and the array axis that each of its axes comes from.
        self._result: list[int] = []
        self._axes: list[int] = []
        # The list or mask: its axis in the array, its position in the result, its shape.
        self._picks: tuple[int, int, tuple[int, ...]] | None = None
        # Positions of integers, lists and truth values in the index.
        self._advanced: list[int] = []
        self._is_empty = False  # whether one of them is False

    def take(self, entry: Any, place: int) -> None:
        """Add one entry of the index, except Ellipsis."""
        axis = len(self.sides)
        if entry is None:
            self._result.append(1)
            self._axes.append(-1)
            return
        if isinstance(entry, slice):
            self._take_side(range(self._shape[axis])[entry])
            return
        self._advanced.append(place)
        if _is_truth(entry):
            self._take_truth(bool(entry))
            return
        side, dims = _advanced(entry, axis, self._shape)
        if dims is not None:
            self._check_list(dims)
            self._picks = axis, len(self._result), dims
            self._result += dims
            self._axes += [axis] * len(dims)
        self.sides.append(side)

    def take_whole(self, count: int) -> None:
        """Select the next `count` axes completely."""
        for length in self._shape[len(self.sides) : len(self.sides) + count]:
            self._take_side(range(length))

    def _take_side(self, side: range) -> None:
        self._result.append(len(side))
        self._axes.append(len(self.sides))
        self.sides.append(side)

    def _take_truth(self, value: bool) -> None:
        """Add the axis of True or False, of length 1 or 0; several have one."""
        if self._picks is None or self._outer or self._picks[0] >= 0:
            self._check_list(())
            self._picks = -1, len(self._result), (1,)
            self._result.append(1)
            self._axes.append(-1)
        self._is_empty |= not value

    def _check_list(self, dims: tuple[int, ...]) -> None:
        if self._outer:
            if len(dims) != 1:
                raise IndexError("oindex accepts lists and arrays of one dimension only")
        elif self._picks is not None:
            raise TypeError(
                "only one list, array or mask is allowed in an index; use a.oindex[...] to "
                "select along several axes independently, or read a larger slice and index that "
                "with numpy"
            )

    def selection(self, *, may_be_scalar: bool) -> Selection:
        """Return the selection of all entries added."""
        result, axes, advanced = self._result, self._axes, self._advanced
        moved = -1
        if self._is_empty and self._picks is not None:
            result[self._picks[1]] = 0
            self._picks = -1, self._picks[1], (0,)
            self.sides[:1] = [range(0)] * bool(self.sides)
        if self._picks is not None and not self._outer:
            moved_axis, start, dims = self._picks
            if advanced[-1] - advanced[0] >= len(advanced):
                # The place is ambiguous, so numpy puts the list's axes first.
                moved = moved_axis
                stop = start + len(dims)
                result = [*dims, *result[:start], *result[stop:]]
                axes = [*axes[start:stop], *axes[:start], *axes[stop:]]
        if len(result) > MAX_NDIM:
            raise IndexError(
                f"the result would have {len(result)} dimensions; numpy allows {MAX_NDIM}"
            )
        is_scalar = may_be_scalar and not result and self._picks is None
        first = axes[0] if axes else -1
        return Selection(tuple(self.sides), tuple(result), is_scalar, first, moved)


def _is_truth(entry: Any) -> bool:
    """Return whether an entry of an index is True or False, which is a mask without dimensions."""
    return isinstance(entry, bool | np.bool_) or (
        isinstance(entry, np.ndarray) and not entry.ndim and entry.dtype == np.bool_
    )


def _advanced(
    entry: Any, axis: int, shape: tuple[int, ...]
) -> tuple[range | Picked, tuple[int, ...] | None]:
    """Return (indices, shape of the list or mask, or None for an integer)."""
    if type(entry) is int:
        one = _one_index(entry, axis, shape)
        return range(one, one + 1), None
    if not isinstance(entry, np.ndarray):  # a one-item array is a list
        try:
            one = _one_index(operator.index(entry), axis, shape)
        except TypeError:
            pass
        else:
            return range(one, one + 1), None
    array = np.asarray(entry)
    if array.dtype.kind == "b":
        array = _indices_of_mask(array, axis, shape)
    elif array.size == 0 and not isinstance(entry, np.ndarray):
        array = array.astype(np.int64)  # numpy makes an empty list float64
    elif array.dtype.kind not in "iu":
        raise IndexError(
            "an index must be an integer, a slice, Ellipsis, None, or a list or array of integers "
            f"or booleans, not {_kind_of(entry, array)}"
        )
    if array.ndim == 0:
        one = _one_index(int(array), axis, shape)
        return range(one, one + 1), None
    return _side_of(array, axis, shape), array.shape


def _kind_of(entry: Any, array: np.ndarray[Any, Any]) -> str:
    if isinstance(entry, np.ndarray | list | tuple):
        return f"{type(entry).__name__!r} of dtype {array.dtype}"
    return repr(type(entry).__name__)


def _one_index(index: int, axis: int, shape: tuple[int, ...]) -> int:
    length = shape[axis]
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {length}")
    return index + length if index < 0 else index


def _indices_of_mask(mask: Any, axis: int, shape: tuple[int, ...]) -> Any:
    if mask.ndim != 1:
        raise TypeError(
            "a boolean index must have one dimension, the length of its axis, not "
            f"{mask.ndim} dimensions; read a larger slice and index that with numpy"
        )
    if len(mask) != shape[axis]:
        raise IndexError(
            f"boolean index of length {len(mask)} does not match axis {axis} with size "
            f"{shape[axis]}"
        )
    return mask.nonzero()[0]


def _side_of(array: Any, axis: int, shape: tuple[int, ...]) -> range | Picked:
    """Return the indices in `array`, in its order, checked and made non-negative."""
    if not array.size:
        return range(0)
    low, high = int(array.min()), int(array.max())
    # Check before the cast, which turns large unsigned indices into negative ones.
    _one_index(high, axis, shape)
    _one_index(low, axis, shape)
    indices: IntArray = array.astype(np.int64).reshape(-1)
    if low < 0:
        indices = np.where(indices < 0, indices + shape[axis], indices)
    start = int(indices[0])
    step = int(indices[1]) - start if len(indices) > 1 else 1
    # Ranges are read in larger pieces, often without an intermediate copy.
    if step and (len(indices) == 1 or (np.diff(indices) == step).all()):
        return range(start, start + step * len(indices), step)
    return Picked(indices)
