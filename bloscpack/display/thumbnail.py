"""Thumbnails of arrays in files: a part that costs a few chunks, never the whole file.

A picture is a plane of the last two axes, or of the two before an axis of colours, at the middle of
all other axes. As many chunks are decoded around its middle as the limits allow, and the caption
says which part of the array is shown.
"""

from collections.abc import Iterable
from math import prod
from types import EllipsisType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..types import AnyArray

# Limits of a thumbnail: chunks, and decoded bytes of these chunks.
MAX_CHUNKS = 8
MAX_NBYTES = 32 << 20
# An axis of 3 or 4 is one of colours behind two axes of at least this length.
_MIN_SIDE = 5

Index = tuple[int | slice, ...]


class Chunked(Protocol):
    """The part of an array in a file that a thumbnail needs."""

    dtype: Any
    shape: tuple[int, ...]

    @property
    def is_fortran(self) -> bool:
        """Whether the items are in Fortran order."""

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes."""

    @property
    def nchunks(self) -> int:
        """Number of chunks."""

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk; None if chunks do not consist of whole rows."""

    def read(self, selection: Any = ()) -> AnyArray:
        """Return a selection."""


class Cell(NamedTuple):
    """Part of an array that costs the decoding of some chunks."""

    shape: tuple[int, ...]
    nchunks: int
    nbytes: int  # decoded bytes of these chunks


def window(array: Chunked, max_chunks: int = MAX_CHUNKS, max_nbytes: int = MAX_NBYTES) -> Index:
    """Return the part of an array to show, which costs at most `max_chunks` chunks.

    ValueError if there is no such part: the array has no items or no numbers, or its chunks are too
    large.
    """
    shape, dtype = array.shape, array.dtype
    if not shape or 0 in shape:
        raise ValueError(f"an array of shape {shape} has no picture")
    if dtype.names is not None or dtype.kind in "SUO" or not dtype.itemsize:
        raise ValueError(f"items of {dtype} are not numbers".replace("\n", " ")[:200])
    cell = cell_of(array)
    first, last = picture_axes(array)
    # A colour is needed as a whole.
    colours = prod(-(-shape[axis] // cell.shape[axis]) for axis in range(last, len(shape)))
    counts = dict.fromkeys(range(first, last), 1)
    limits = {axis: -(-shape[axis] // cell.shape[axis]) for axis in counts}

    def fits(nchunks: int) -> bool:
        return nchunks * cell.nchunks <= max_chunks and nchunks * cell.nbytes <= max_nbytes

    if not fits(colours):
        raise ValueError(
            f"a part of shape {cell.shape} takes {cell.nchunks * colours} chunks of "
            f"{cell.nbytes * colours} bytes, too much for a thumbnail; index the array instead"
        )
    while True:
        # Grow the shorter side of the picture, in chunks of the array.
        growing = [axis for axis in counts if counts[axis] < limits[axis]]
        growing.sort(key=lambda axis: counts[axis] * cell.shape[axis])
        for axis in growing:
            total = prod(counts.values()) // counts[axis] * (counts[axis] + 1) * colours
            if fits(total):
                counts[axis] += 1
                break
        else:
            break
    middle: list[int | slice] = [side // 2 for side in shape]
    for axis in counts:
        middle[axis] = _middle(shape[axis], cell.shape[axis], counts[axis])
    middle[last:] = [slice(None)] * (len(shape) - last)
    return tuple(middle)


def has_colours(shape: tuple[int, ...], dtype: Any) -> bool:
    """Return whether the last axis of an array has the channels of a picture in colour."""
    is_color = len(shape) > 2 and shape[-1] in (3, 4) and dtype == np.uint8
    return is_color and min(shape[-3:-1]) >= _MIN_SIDE


def picture_axes(array: Chunked) -> tuple[int, int]:
    """Return the range of axes that are a picture, or a line."""
    last = len(array.shape) - has_colours(array.shape, array.dtype)
    return max(0, last - 2), last


def cell_of(array: Chunked) -> Cell:
    """Return the smallest part of the array that is decoded on its own."""
    itemsize = array.dtype.itemsize
    if array.chunks is not None:
        sides = zip(array.chunks, array.shape, strict=True)
        shape = tuple(max(1, min(sides_of)) for sides_of in sides)
        return Cell(shape, 1, prod(shape) * itemsize)
    # Chunks of bytes, which may begin within an item: consecutive rows meet one more of them.
    step = -1 if array.is_fortran else 1
    rows, *others = array.shape[::step]
    nbytes = array.nbytes // max(1, array.nchunks) + 1
    row = prod(others) * itemsize
    shape = (max(1, min(rows, nbytes // row)), *others)
    nchunks = 2 + row // nbytes
    return Cell(shape[::step], nchunks, nchunks * nbytes)


def _middle(side: int, step: int, count: int) -> slice:
    """Return the `count` cells in the middle of an axis."""
    first = (-(-side // step) - count) // 2
    return slice(first * step, min(side, (first + count) * step))


def index_text(index: Iterable[int | slice | EllipsisType]) -> str:
    """Return an index as it is written: ``[3, 0:64, 10:20]``."""
    parts = []
    for each in index:
        if isinstance(each, slice):
            start, stop = ("" if side is None else side for side in (each.start, each.stop))
            parts.append(
                f"{start}:{stop}" + (f":{each.step}" if each.step not in (None, 1) else "")
            )
        else:
            parts.append("..." if each is ... else str(each))
    return f"[{', '.join(parts)}]"
