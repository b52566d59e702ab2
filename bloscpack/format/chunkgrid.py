"""Geometry of an N-dimensional chunk grid: which part of the array each chunk holds.

The shape of the array and the shape of a chunk are in the metadata. Chunks are stored in C order of
the grid; for an array in Fortran order, everything here is that of the reversed (transposed) array,
which is stored in C order. A chunk at an edge holds only what is inside the array, so the decoded
size of every chunk follows from the grid. Appending rows changes the last row of the grid and adds
others after it.

Pure: arithmetic on integers, which allocates nothing for a large grid.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from ..exceptions import FormatError
from .codec import MAX_CHUNK_NBYTES
from .metadata import MAX_NDIM, describes_array

METADATA_KEY = "chunks"

_MAX_NBYTES = 2**63 - 1


@dataclass(frozen=True)
class ChunkGrid:
    """Grid of the chunks of one array, in the order of axes in which it is stored."""

    # Shape of the array, reversed for Fortran order. The first axis is the one that grows.
    shape: tuple[int, ...]
    # Shape of a chunk, at least 1 along each axis. Only the first may exceed that of the array.
    chunks: tuple[int, ...]
    itemsize: int  # size of an item in bytes; 0 if it is unknown because the array is empty
    is_fortran: bool = False  # whether the axes are reversed

    @classmethod
    def of_metadata(cls, metadata: Any, last_chunk: int) -> "ChunkGrid":
        """Return the grid that metadata describe, for a last chunk of this decoded size.

        Raises
        ------
        FormatError
            The metadata do not describe a grid, or the last chunk does not fit it.
        """
        if not describes_array(metadata):
            raise _error("the metadata do not describe an array", "container")
        shape: Any = metadata.get("shape")
        chunks: Any = metadata.get(METADATA_KEY)
        order = metadata.get("order", "C")
        if not _is_lengths(shape, 0) or not shape:
            raise _error("shape is not a list of lengths", "shape")
        if not _is_lengths(chunks, 1) or len(chunks) != len(shape):
            raise _error(f"chunks is not a list of {len(shape)} lengths of at least 1")
        if order not in ("C", "F"):
            raise _error(f"order {str(order)[:80]!r} is not 'C' or 'F'", "order")
        if order == "F":
            shape, chunks = shape[::-1], chunks[::-1]
        grid = cls(tuple(shape), tuple(chunks), 0, order == "F")
        grid.check()  # first, as `last_chunk` does not fit a wrong grid either
        nitems = prod(grid.lengths(grid.nchunks - 1))
        if bool(nitems) != bool(last_chunk) or (nitems and last_chunk % nitems):
            raise FormatError(
                f"last_chunk is {last_chunk} bytes, but by the grid the last chunk has {nitems} "
                "items",
                offset=12,
                field="last_chunk",
            )
        grid = replace(grid, itemsize=last_chunk // nitems if nitems else 0)
        grid.check()
        return grid

    def check(self) -> None:
        """Check the chunks against the array and against the limits of the format.

        Raises
        ------
        FormatError
            A chunk is larger than the array along an axis other than the first, or too large.
        """
        for length, step in zip(self.shape[1:], self.chunks[1:], strict=True):
            if step > max(length, 1):
                raise _error(f"chunks has {step} for an axis of {length}")
        if self.chunk_nbytes > MAX_CHUNK_NBYTES:
            raise _error(f"a chunk of {self.chunk_nbytes} bytes exceeds {MAX_CHUNK_NBYTES}")
        if self.nbytes > _MAX_NBYTES or self.nchunks > _MAX_NBYTES:
            raise _error(f"{self.nchunks} chunks of {self.nbytes} bytes exceed 2^63-1")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of chunks along each axis; 0 along an axis without items."""
        return tuple(-(-n // step) for n, step in zip(self.shape, self.chunks, strict=True))

    @cached_property
    def nchunks(self) -> int:
        """Number of chunks. An array without items is one chunk without bytes."""
        return prod(self.counts) or 1

    @cached_property
    def row_nchunks(self) -> int:
        """Number of chunks in a row of the grid: those that differ along the first axis only."""
        return prod(self.counts[1:]) or 1

    @cached_property
    def nbytes(self) -> int:
        """Decoded size of all chunks in bytes."""
        return prod(self.shape) * self.itemsize

    @cached_property
    def chunk_nbytes(self) -> int:
        """Decoded size in bytes of a chunk that is not at an edge, which is the largest."""
        return prod(self.chunks) * self.itemsize

    @cached_property
    def nstable(self) -> int:
        """Number of chunks in rows of the grid that are full, which no append changes."""
        if not prod(self.shape):
            return 0
        return self.shape[0] // self.chunks[0] * self.row_nchunks

    def place(self, index: int) -> tuple[int, ...]:
        """Return the position of chunk `index` in the grid."""
        found = []
        for count in self.counts[::-1]:
            index, at = divmod(index, count or 1)  # without items there is one chunk all the same
            found.append(at)
        return tuple(found[::-1])

    def box(self, index: int) -> tuple[range, ...]:
        """Return the indices that chunk `index` holds along each axis, as it is stored."""
        return tuple(
            range(at * step, min((at + 1) * step, length))
            for at, step, length in zip(self.place(index), self.chunks, self.shape, strict=True)
        )

    def region(self, index: int) -> tuple[slice, ...]:
        """Return the part of the array that chunk `index` holds, in the order of its axes."""
        box = self.box(index)
        return tuple(
            slice(side.start, side.stop) for side in (box[::-1] if self.is_fortran else box)
        )

    def lengths(self, index: int) -> tuple[int, ...]:
        """Return the shape of chunk `index`, as it is stored."""
        return tuple(map(len, self.box(index)))

    def size(self, index: int) -> int:
        """Return the decoded size of chunk `index` in bytes."""
        size = self.itemsize
        for count, step, length in zip(
            self.counts[::-1], self.chunks[::-1], self.shape[::-1], strict=True
        ):
            index, at = divmod(index, count or 1)
            size *= min(step, length - at * step)
        return size

    def start(self, index: int) -> int:
        """Return the number of decoded bytes in the chunks before `index`."""
        start, scale, inner = 0, self.itemsize, prod(self.shape)
        for at, step, length in zip(self.place(index), self.chunks, self.shape, strict=True):
            inner = inner // length if length else 0
            start += at * step * inner * scale
            scale *= min(step, length - at * step)
        return start

    def at(self, position: int) -> int:
        """Return the index of the chunk that holds the decoded byte at `position`."""
        index, scale, inner = 0, self.itemsize, prod(self.shape)
        for step, length, count in zip(self.chunks, self.shape, self.counts, strict=True):
            inner = inner // length if length else 0
            row = step * inner * scale
            at = min(position // row, count - 1) if row else 0
            position -= at * row
            index = index * (count or 1) + at
            scale *= min(step, length - at * step)
        return index

    def sizes(self, most: int) -> set[int]:
        """Return the decoded sizes of chunks that occur, in bytes; the largest `most` of them.

        A chunk is cut or not along each axis, so they are at most 2 to the number of axes.
        """
        found = {self.itemsize}
        for length, step in zip(self.shape, self.chunks, strict=True):
            whole, rest = divmod(length, step)
            lengths = {step} if whole else set()
            lengths |= {rest} if rest else set()
            found = set(sorted(size * one for size in found for one in lengths)[-most:])
        return found

    def with_rows(self, nrows: int) -> "ChunkGrid":
        """Return the grid of the same array with another length of the first axis."""
        return replace(self, shape=(nrows, *self.shape[1:]))

    def continues(self, earlier: "ChunkGrid") -> bool:
        """Return whether appending rows to the array of the `earlier` grid leads to this one."""
        return (
            self.chunks == earlier.chunks
            and self.shape[1:] == earlier.shape[1:]
            and self.shape[0] >= earlier.shape[0]
            and self.is_fortran == earlier.is_fortran
            and earlier.itemsize in (0, self.itemsize)
        )


def _is_lengths(value: Any, least: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAX_NDIM
        # Not `isinstance`, which takes the true of JSON for a number.
        and all(type(one) is int and least <= one <= _MAX_NBYTES for one in value)
    )


def _error(what: str, field: str = METADATA_KEY) -> FormatError:
    return FormatError(f"metadata: {what}", field=field)
