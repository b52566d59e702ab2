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
from ..console.arrayout import Part, Whole
from ..console.selection import parse_selection_text
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
    with Array(source, nthreads=args.nthreads, version=args.version) as array:
        yield _Selected(array, args.selection) if args.chunk is None else _chunk(array, args.chunk)


@contextmanager
def open_parts(args: argparse.Namespace, names: list[str], inner: str) -> Iterator[Part]:
    """Open the part of several arrays, one behind the other."""
    from ...array.concat import open_many

    if args.chunk is not None or args.version != -1:
        option = "--chunk" if args.chunk is not None else "--version"
        raise UsageError(f"{option} is for one array, and the pattern matches {len(names)} files")
    with open_many(names, nthreads=args.nthreads) as array:
        yield _Selected(array, args.selection)


class _Selected:
    def __init__(self, array: "Array | ManyArrays", text: str | None) -> None:
        self._array = array
        self._index = parse_selection_text(text)
        self._is_fortran = getattr(array, "is_fortran", False)
        try:
            selection = parse_selection(self._index, array.shape)
        except IndexError as err:
            raise ValueError(f"selection: {err}; the shape is {array.shape}") from None
        self._ranges, self.shape = selection.ranges, selection.shape
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
        rows, *others = self._ranges
        step = max(1, _PIECE_NBYTES * len(rows) // self.nbytes)
        chunk_rows = (self._array.chunks or (1,))[0]
        if rows.step == 1 and step > chunk_rows:
            # Pieces of whole chunks: no chunk is decoded twice if the selection starts at one.
            step -= step % chunk_rows
        rest = tuple(map(_slice_of, others))
        for start in range(0, len(rows), step):
            yield self._array.read((_slice_of(rows[start : start + step]), *rest))


def _chunk(array: Array, index: int) -> Part:
    """Return the items of a chunk; its bytes if they are not whole items."""
    if index >= array.nchunks:
        raise ValueError(f"--chunk {index}: the file has {array.nchunks} chunks")
    data = array.read_chunk(index)
    is_whole = array.dtype.itemsize and not len(data) % array.dtype.itemsize
    return Whole(np.frombuffer(data, array.dtype if is_whole else np.uint8))


def _slice_of(indices: range) -> slice:
    """Return the slice that selects `indices`, none of which is negative."""
    stop = indices.stop if indices.stop >= 0 else None
    return slice(indices.start, stop, indices.step) if indices else slice(0, 0)
