"""Part of an array, for ``blpk cat``: a selection or one chunk."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...array.array import Array
from ...array.selection import parse_selection
from ...filetypes.table import FileType
from ...storage.protocol import ByteSource
from ...types import AnyArray
from ..console.arrayout import Part
from ..console.selection import Index, parse_selection_text
from ..console.status import UsageError

if TYPE_CHECKING:
    from ...array.concat import ManyArrays

# Larger selections are read and written in pieces of about this size, in bytes.
_PIECE_NBYTES = 32 << 20


@contextmanager
def open_part(
    args: argparse.Namespace, filetype: FileType, source: ByteSource, inner: str
) -> Iterator[Part]:
    """Open the part of an array that the arguments select."""
    with Array(source, nthreads=args.nthreads) as array:
        yield _Selected(array, _index(args)) if args.chunk is None else _Chunk(array, args.chunk)


@contextmanager
def open_parts(args: argparse.Namespace, names: list[str], inner: str) -> Iterator[Part]:
    """Open the part of several arrays, one behind the other."""
    from ...array.concat import open_many

    if args.chunk is not None:
        raise UsageError(f"--chunk is for one array, and the pattern matches {len(names)} files")
    with open_many(names, nthreads=args.nthreads) as array:
        yield _Selected(array, _index(args))


def _index(args: argparse.Namespace) -> Index:
    return () if args.selection is None else parse_selection_text(args.selection)


class _Selected:
    """Selection of an array."""

    def __init__(self, array: "Array | ManyArrays", index: Index) -> None:
        self._array = array
        self._index = index
        self._is_fortran = getattr(array, "is_fortran", False)
        try:
            self._ranges = parse_selection(index, array.shape).ranges
            self.shape = parse_selection(index, array.shape).shape
        except IndexError as err:
            raise ValueError(f"selection: {err}; the shape is {array.shape}") from None
        self.dtype = array.dtype
        self.nbytes = prod(self.shape) * self.dtype.itemsize

    @property
    def is_large(self) -> bool:
        """Whether to read in pieces; each piece of a Fortran-ordered array would decode it all."""
        long = len(self._ranges) > 0 and len(self._ranges[0]) > 1
        return self.nbytes > _PIECE_NBYTES and long and not self._is_fortran

    def read(self) -> AnyArray:
        """Return the whole selection."""
        return self._array.read(self._index)

    def pieces(self) -> Iterator[AnyArray]:
        """Yield pieces of the selection, in C order."""
        if not self.is_large:
            yield self.read()
            return
        rows, *others = self._ranges
        step = max(1, _PIECE_NBYTES * len(rows) // self.nbytes)
        chunk_rows = (self._array.chunks or (1,))[0]
        if rows.step == 1 and step > chunk_rows:
            # Pieces of whole chunks: no chunk is decoded twice if the selection starts at one.
            step -= step % chunk_rows
        rest = tuple(map(_slice_of, others))
        for start in range(0, len(rows), step):
            yield self._array.read((_slice_of(rows[start : start + step]), *rest))


class _Chunk:
    """Items of one chunk of an array."""

    is_large = False

    def __init__(self, array: Array, index: int) -> None:
        if index >= array.nchunks:
            raise ValueError(f"--chunk {index}: the file has {array.nchunks} chunks")
        data = array.read_chunk(index)
        whole = array.dtype.itemsize and not len(data) % array.dtype.itemsize
        self.dtype = array.dtype if whole else np.dtype(np.uint8)
        self._items: AnyArray = np.frombuffer(data, self.dtype)
        self.shape = self._items.shape
        self.nbytes = len(data)

    def read(self) -> AnyArray:
        """Return the items."""
        return self._items

    def pieces(self) -> Iterator[AnyArray]:
        """Yield the items."""
        yield self._items


def _slice_of(indices: range) -> slice:
    """Return the slice that selects `indices`, none of which is negative."""
    stop = indices.stop if indices.stop >= 0 else None
    return slice(indices.start, stop, indices.step) if indices else slice(0, 0)
