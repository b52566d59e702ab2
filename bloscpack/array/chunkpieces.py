"""Pieces of a selection: which chunks it touches, and where its items lie in them.

A chunk is a run of items in storage order, or a box of a chunk grid (ranges along every axis). The
part of an array covered by a run is a few boxes. Each box intersects the selection in one strided
block, which numpy copies in one step. Pure: arithmetic on integers.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import lcm, prod
from typing import NamedTuple

import numpy as np

from ..types import IntArray
from .selection import Box, Picked, Sides


def boxes(start: int, stop: int, shape: tuple[int, ...]) -> Iterator[Box]:
    """Yield the boxes that cover items `start` to `stop` of a C-order array, in order."""
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


class Piece(NamedTuple):
    """Intersection of a box and a selection."""

    # Lowest and highest selected item, and the item at the start of the block, counted from the
    # first item of the chunk. With a negative step, `origin` lies after `first`, up to `last`.
    first: int
    last: int
    origin: int
    # Shape of the block that contains the selected items, and its strides in items.
    lengths: tuple[int, ...]
    steps: tuple[int, ...]
    target: tuple[slice | IntArray, ...]  # positions in the result, along each axis
    # The selected items along each axis of the block. None if the whole block is selected and
    # `target` contains only slices.
    source: tuple[slice | IntArray, ...] | None


class _Cut(NamedTuple):
    """Intersection of a box and a selection along one axis."""

    # Lowest and highest selected index.
    begin: int
    end: int
    origin: int  # the index at the start of the block
    # Indices of the block.
    length: int
    step: int
    # As in `Piece`; a slice as source selects all.
    target: slice | IntArray
    source: slice | IntArray


_ALL = slice(None)


def _cut(side: range, wanted: range | Picked) -> _Cut | None:
    """Return the indices of `wanted` that lie in `side`; None if there are none."""
    if isinstance(wanted, range):
        met = _meet(side, wanted)
        if met.start >= met.stop:
            return None
        origin, end = wanted[met.start], wanted[met.stop - 1]
        begin = origin
        if begin > end:
            begin, end = end, begin
        return _Cut(begin, end, origin, met.stop - met.start, wanted.step, met, _ALL)
    low, high = wanted.sorted.searchsorted((side.start, side.stop)).tolist()
    if low >= high:
        return None
    found = wanted.sorted[low:high]
    begin, end = int(found[0]), int(found[-1])
    # Masks often select neighbours, as do lists when a chunk has one row of them; a slice is copied
    # faster than an index array.
    are_neighbours = end - begin + 1 == high - low and bool((np.diff(found) == 1).all())
    source = _ALL if are_neighbours else found - begin
    return _Cut(begin, end, begin, end - begin + 1, 1, _places(wanted, low, high), source)


def _piece(cuts: Sequence[_Cut], scales: Sequence[int], start: int) -> Piece:
    """Return the piece of a box; `start` is the item that the chunk begins with."""
    first = last = origin = -start
    lengths, steps, target, source = [], [], [], []
    is_whole = True
    # One loop and no generators: this runs for every chunk of a selection.
    for (begin, end, at, length, step, place, taken), scale in zip(cuts, scales, strict=True):
        first += begin * scale
        last += end * scale
        origin += at * scale
        lengths.append(length)
        steps.append(step * scale)
        target.append(place)
        source.append(taken)
        if taken is not _ALL or type(place) is not slice:
            is_whole = False
    return Piece(
        first,
        last,
        origin,
        tuple(lengths),
        tuple(steps),
        tuple(target),
        None if is_whole else tuple(source),
    )


def pieces(start: int, stop: int, shape: tuple[int, ...], sides: Sides) -> Iterator[Piece]:
    """Yield the pieces of the selection `sides` within items `start` to `stop` of an array."""
    scales = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    for box in boxes(start, stop, shape):
        cuts: list[_Cut] = []
        for side, wanted in zip(box, sides, strict=True):
            cut = _cut(side, wanted)
            if cut is None:
                break
            cuts.append(cut)
        else:
            yield _piece(cuts, scales, start)


class GridPieces:
    """Pieces of a selection within the chunks of a grid, in the order of axes as stored.

    Each axis is intersected once, and not for every chunk.
    """

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, ...], sides: Sides) -> None:
        self._counts = [-(-length // step) for length, step in zip(shape, chunks, strict=True)]
        # For each axis: position in the grid -> first index and length of the chunks there, and
        # the selected indices.
        self._cuts: list[dict[int, tuple[int, int, _Cut]]] = []
        for length, step, wanted in zip(shape, chunks, sides, strict=True):
            found = {}
            for at in runs((length,), (wanted,), step):
                start, stop = at * step, min((at + 1) * step, length)
                cut = _cut(range(start, stop), wanted)
                if cut is not None:
                    found[at] = start, stop - start, cut
            self._cuts.append(found)

    def chunks(self) -> list[int]:
        """Return the chunks that contain selected items, in ascending order."""
        scaled = []
        scale = 1
        for count, cuts in zip(self._counts[::-1], self._cuts[::-1], strict=True):
            scaled.append([at * scale for at in cuts])
            scale *= count
        return [sum(place) for place in product(*scaled[::-1])]

    def piece(self, chunk: int) -> Piece | None:
        """Return the piece in one chunk; None if it contains no selected item."""
        found: list[tuple[int, int, _Cut]] = []
        for count, cuts in zip(self._counts[::-1], self._cuts[::-1], strict=True):
            chunk, at = divmod(chunk, count or 1)
            if at not in cuts:
                return None
            found.append(cuts[at])
        scales = []
        start, scale = 0, 1
        for first, length, _ in found:
            scales.append(scale)
            start += first * scale
            scale *= length
        return _piece([cut for *_, cut in found[::-1]], scales[::-1], start)


def _places(side: Picked, low: int, high: int) -> slice | IntArray:
    """Return the positions in the selection of its sorted indices `low` to `high`."""
    if side.order is None:
        return slice(low, high)
    if high - low == 1:
        place = int(side.order[low])
        return slice(place, place + 1)
    return side.order[low:high]


def cross(
    places: tuple[slice | IntArray, ...], lengths: tuple[int, ...]
) -> tuple[slice | IntArray, ...]:
    """Return an index that applies `places` to each axis of an array of shape `lengths` separately.

    numpy already does so for one array among slices; several arrays need ``numpy.ix_``.
    """
    if sum(isinstance(place, np.ndarray) for place in places) < 2:
        return places
    every = (
        np.arange(*place.indices(length)) if isinstance(place, slice) else place
        for place, length in zip(places, lengths, strict=True)
    )
    return np.ix_(*every)


def _meet(side: range, wanted: range) -> slice:
    """Return the positions in `wanted` of the indices that are also in `side`."""
    step = wanted.step
    if step > 0:
        low = -((wanted.start - side.start) // step)
        high = -((wanted.start - side.stop) // step)
    else:
        low = -((wanted.start - side.stop + 1) // step)
        high = -((wanted.start - side.start + 1) // step)
    return slice(max(0, low), min(len(wanted), high))


def contiguous_run(shape: tuple[int, ...], sides: Sides) -> tuple[int, int] | None:
    """Return (first item, number of items) if the selection is one contiguous run, else None.

    It is one if its items are adjacent in a C-order array of `shape`, in the order of the
    selection. `sides` must select at least one item.
    """
    first = 0
    count = scale = 1
    is_whole = True  # along all axes visited so far, starting with the last
    for axis in range(len(shape) - 1, -1, -1):
        side = sides[axis]
        if type(side) is not range:
            return None
        taken, length = len(side), shape[axis]
        if taken != 1:
            if not is_whole or side.step != 1:
                return None
            count *= taken
        if taken != length:
            is_whole = False
        first += side.start * scale
        scale *= length
    return first, count


def runs(shape: tuple[int, ...], sides: Sides, size: int) -> list[int]:
    """Return the chunks of `size` items that may contain selected items, in ascending order.

    Exact along the first axis; along the others, the whole span from the first to the last
    selected item counts.
    """
    if not all(sides) or not size:
        return []
    if not shape:
        return [0]
    inner = prod(shape[1:])
    low = high = 0
    for length, wanted in zip(shape[1:], sides[1:], strict=True):
        start, last = _span(wanted)
        low = low * length + start
        high = high * length + last
    side = sides[0]
    start, last = _span(side)
    if isinstance(side, range) and abs(side.step) * inner <= size:
        # A step of at most one chunk skips none: all from the first to the last are touched.
        return list(range((start * inner + low) // size, (last * inner + high) // size + 1))
    rows = side.sorted if isinstance(side, Picked) else _ascending(side)
    begins = (rows * inner + low) // size
    ends = (rows * inner + high) // size + 1
    # Drop from each row the chunks that an earlier row already has.
    np.maximum(begins[1:], ends[:-1], out=begins[1:])
    counts = np.maximum(ends - begins, 0)
    skipped = np.cumsum(counts) - counts
    # The `counts` chunks from each of `begins` on, one range after the other.
    found: list[int] = (np.repeat(begins - skipped, counts) + np.arange(counts.sum())).tolist()
    return found


def _span(side: range | Picked) -> tuple[int, int]:
    """Return the lowest and the highest index of a side, which must not be empty."""
    if isinstance(side, range):
        return (side[0], side[-1]) if side.step > 0 else (side[-1], side[0])
    return int(side.sorted[0]), int(side.sorted[-1])


def _ascending(side: range) -> IntArray:
    low, high = _span(side)
    return np.arange(low, high + 1, abs(side.step), dtype=np.int64)


def rows_of_whole_chunks(chunk_size: int, nchunks: int, row_nbytes: int, nrows: int) -> int:
    """Return the smallest number of rows that fill whole chunks; `nrows` if there is one chunk.

    `chunk_size` and `row_nbytes` are in bytes.
    """
    if nchunks == 1 or not row_nbytes:
        return max(nrows, 1)
    return lcm(chunk_size, row_nbytes) // row_nbytes
