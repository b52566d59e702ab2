"""Basic indexing, as arithmetic: what a selection covers and where its pieces lie in a chunk.

A chunk is a run of items in storage order. The part of an array that such a run covers is a few
boxes (ranges along every axis); each box meets the selection in one strided block, which numpy
copies in one step. Nothing here reads or knows a file.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

Box = tuple[range, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """A basic index, applied to a shape.

    Attributes
    ----------
    ranges : tuple of range
        The indices selected along each axis of the array; one index for an integer.
    shape : tuple of int
        Shape of the result: integers dropped, new axes put in.
    is_scalar : bool
        Whether numpy gives a scalar rather than an array of no dimension.
    """

    ranges: Box
    shape: tuple[int, ...]
    is_scalar: bool

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of indices selected along each axis of the array."""
        return tuple(len(indices) for indices in self.ranges)


def parse_selection(index: Any, shape: tuple[int, ...]) -> Selection:
    """Return the `Selection` that `index` makes on an array of `shape`.

    Takes integers, slices of any step, Ellipsis and None (a new axis), as numpy does.

    Raises
    ------
    IndexError
        An integer is out of bounds, or there are too many indices.
    TypeError
        An index is of another kind.
    """
    entries = index if isinstance(index, tuple) else (index,)
    nellipsis = sum(entry is Ellipsis for entry in entries)
    if nellipsis > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    nindices = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if nindices > len(shape):
        raise IndexError(
            f"too many indices: the array has {len(shape)} dimensions, {nindices} were indexed"
        )
    ranges: list[range] = []
    result: list[int] = []

    def take_whole(count: int) -> None:
        for length in shape[len(ranges) : len(ranges) + count]:
            ranges.append(range(length))
            result.append(length)

    for entry in entries:
        if entry is None:
            result.append(1)
        elif entry is Ellipsis:
            take_whole(len(shape) - nindices)
        elif isinstance(entry, slice):
            length = shape[len(ranges)]
            ranges.append(range(length)[entry])
            result.append(len(ranges[-1]))
        else:
            ranges.append(_one_index(entry, len(ranges), shape))
    is_scalar = not nellipsis and nindices == len(shape)
    take_whole(len(shape) - len(ranges))
    return Selection(tuple(ranges), tuple(result), is_scalar and not result)


def _one_index(entry: Any, axis: int, shape: tuple[int, ...]) -> range:
    # bool is an int, but to numpy a mask: guessing would give wrong data.
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise TypeError(
            "an index must be an integer, a slice, Ellipsis or None, "
            f"not {type(entry).__name__!r}; read a larger slice and index that with numpy"
        )
    index = operator.index(entry)
    length = shape[axis]
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {length}")
    index %= length
    return range(index, index + 1)


def boxes(start: int, stop: int, shape: tuple[int, ...]) -> Iterator[Box]:
    """Yield boxes that together are items `start` to `stop`, in order, of a C-order array."""
    if start >= stop:
        return
    if not shape:
        yield ()
        return
    inner = prod(shape[1:])
    first, head = divmod(start, inner)
    last, tail = divmod(stop, inner)
    if first == last:
        for box in boxes(head, tail, shape[1:]):
            yield (range(first, first + 1), *box)
        return
    if head:
        for box in boxes(head, inner, shape[1:]):
            yield (range(first, first + 1), *box)
        first += 1
    if first < last:
        yield (range(first, last), *(range(length) for length in shape[1:]))
    for box in boxes(0, tail, shape[1:]):
        yield (range(last, last + 1), *box)


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a box meets a selection.

    Attributes
    ----------
    first, last : int
        Lowest and highest item wanted, counted in the whole array.
    origin : int
        The item that goes to the first place; `last` or between if a step is negative.
    lengths, steps : tuple of int
        Number of items wanted along each axis, and the items from one to the next.
    target : tuple of slice
        Their place in the result.
    """

    first: int
    last: int
    origin: int
    lengths: tuple[int, ...]
    steps: tuple[int, ...]
    target: tuple[slice, ...]


def pieces(start: int, stop: int, shape: tuple[int, ...], ranges: Box) -> Iterator[Piece]:
    """Yield what items `start` to `stop` of an array of `shape` hold of the selection `ranges`."""
    scales = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    for box in boxes(start, stop, shape):
        target = []
        steps = []
        first = last = origin = 0
        for side, wanted, scale in zip(box, ranges, scales, strict=True):
            met = _meet(side, wanted)
            if met.start >= met.stop:
                break
            target.append(met)
            steps.append(wanted.step * scale)
            begin, end = wanted[met.start], wanted[met.stop - 1]
            first += min(begin, end) * scale
            last += max(begin, end) * scale
            origin += begin * scale
        else:
            lengths = tuple(met.stop - met.start for met in target)
            yield Piece(first, last, origin, lengths, tuple(steps), tuple(target))


def _meet(side: range, wanted: range) -> slice:
    """Return the positions in `wanted` of the indices that `side` holds too."""
    step = wanted.step
    if step > 0:
        low = -((wanted.start - side.start) // step)
        high = -((wanted.start - side.stop) // step)
    else:
        low = -((wanted.start - side.stop + 1) // step)
        high = -((wanted.start - side.start + 1) // step)
    return slice(max(0, low), min(len(wanted), high))


def runs(shape: tuple[int, ...], ranges: Box, size: int) -> Iterator[int]:
    """Yield in order the chunks of `size` items that may hold items of the selection.

    Exact along the first axis; along the others the span from the first to the last item counts.
    """
    if not all(ranges) or not size:
        return
    if not shape:
        yield 0
        return
    inner = prod(shape[1:])
    low = high = 0
    for length, wanted in zip(shape[1:], ranges[1:], strict=True):
        low = low * length + min(wanted[0], wanted[-1])
        high = high * length + max(wanted[0], wanted[-1])
    rows = ranges[0] if ranges[0].step > 0 else ranges[0][::-1]
    following = 0
    if rows.step * inner <= size:
        # No row step can jump a chunk: every one from the first to the last is met.
        first, last = (rows[0] * inner + low) // size, (rows[-1] * inner + high) // size
        yield from range(first, last + 1)
        return
    for row in rows:
        first = max(following, (row * inner + low) // size)
        last = (row * inner + high) // size
        yield from range(first, last + 1)
        following = max(following, last + 1)
