"""Tracks of a dataset: places of their samples, and reading these.

The tables of a track are read on first use, directly into arrays that stay in the stored form:
big-endian and, if all samples have one size, without a table. Offsets and sizes are checked against
the size of the file when bytes are read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from ...plugin import (
    AnyArray,
    ByteSource,
    FormatError,
    IntArray,
    Piece,
    TruncatedError,
    UnsupportedError,
    errors_at,
    fetch,
)
from .bmff import Table
from .movie import EvenOffsets, TrackTable, sample_offsets

_FAR = 1 << 62
# Size of a read of a table. A block of zeros would be half a million samples of 0 bytes, so it is
# taken for a hole in the file.
_BLOCK_NBYTES = 4 << 20


@contextmanager
def memory_errors(what: str, path: str | None) -> Iterator[None]:
    """Turn a MemoryError into an UnsupportedError that names the object; add the path to errors."""
    try:
        with errors_at(path):
            yield
    except MemoryError as err:
        raise UnsupportedError(f"not enough memory ({err})").at(what, path) from err


class Location(NamedTuple):
    """Place of a sample."""

    offset: int
    """Absolute position in the file."""
    nbytes: int
    """Size of the sample."""


class DatasetTrack:
    """One track of a dataset; its entries are in the order of the samples.

    Attributes
    ----------
    name : str
        Such as ``"bzna_input"``.
    table : TrackTable
        The contents of its boxes.

    Notes
    -----
    ``track[i]`` is the `Location` of a sample. Safe in threads.
    """

    def __init__(self, source: ByteSource, nbytes: int, table: TrackTable) -> None:
        self.name = table.name
        self.table = table
        self._source = source
        self._file_nbytes = nbytes
        self._tables: tuple[AnyArray | EvenOffsets, AnyArray] | None = None

    def __repr__(self) -> str:
        return f"<track {self.name!r} of {len(self)} samples>"

    @property
    def handler(self) -> str:
        """Type of the track: ``"meta"``, or ``"vide"`` for pictures."""
        return self.table.handler.decode("ascii", "backslashreplace")

    @property
    def mime(self) -> str:
        """MIME type of metadata; empty for pictures."""
        return self.table.mime

    @property
    def shape(self) -> tuple[int, int] | None:
        """(H, W) of the coded frame as declared by the track; None for metadata."""
        width, height = self.table.frame
        return (height, width) if width else None

    @property
    def offsets(self) -> AnyArray:
        """The absolute offset of each sample, an integer array of any byte order, shape (n,).

        Raises
        ------
        FormatError
            The tables contradict each other.
        TruncatedError
            The file has been truncated since it was opened.
        UnsupportedError
            There is not enough memory for the tables.
        """
        offsets = self._get_tables()[0]
        if isinstance(offsets, EvenOffsets):
            return offsets.all()
        return offsets

    @property
    def sizes(self) -> AnyArray:
        """The size of each sample in bytes, shape (n,), like `offsets`."""
        return self._get_tables()[1]

    def _get_tables(self) -> tuple[AnyArray | EvenOffsets, AnyArray]:
        if self._tables is None:
            with memory_errors(f"the tables of track {self.name!r}", self._source.name):
                self._tables = self._read_tables()
        return self._tables

    def _read_tables(self) -> tuple[AnyArray | EvenOffsets, AnyArray]:
        table = self.table
        sizes: AnyArray = np.broadcast_to(np.int64(table.sample_nbytes), table.count)
        if not table.sample_nbytes:
            sizes = self._read_table(table.sizes)
        runs, chunks = self._read_table(table.runs), self._read_table(table.chunks)
        if table.sample_nbytes:
            return EvenOffsets(table, runs, chunks), sizes
        offsets = sample_offsets(table, sizes, runs, chunks)
        for array in (offsets, sizes):
            array.flags.writeable = False
        return offsets, sizes

    def _read_table(self, table: Table) -> AnyArray:
        array: AnyArray = np.empty(table.count, table.dtype)
        view = array.view("u1").data if table.nbytes else memoryview(b"")
        # Read in blocks: a table in a hole of a sparse file takes no disk space, but would fill
        # gigabytes of memory.
        for start in range(0, table.nbytes, _BLOCK_NBYTES):
            self._read_block(table, start, view[start : start + _BLOCK_NBYTES])
        return array

    def _read_block(self, table: Table, start: int, block: memoryview) -> None:
        offset = table.offset + start
        if self._source.read_into(offset, block) < len(block):
            raise self._truncated(f"a table of track {self.name!r}", table.offset, table.nbytes)
        if len(block) == _BLOCK_NBYTES and not np.frombuffer(block, np.uint64).any():
            raise FormatError(
                f"track {self.name!r}: {_BLOCK_NBYTES} bytes of a table, from offset {offset}, are "
                "all 0: a hole in the file",
                offset=offset,
            )

    def __len__(self) -> int:
        return self.table.count

    def __getitem__(self, index: int) -> Location:
        """Return the place of a sample.

        Raises
        ------
        IndexError
            The index is out of range.
        FormatError
            See `offsets`.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of a track of {len(self)}")
        offsets, sizes = self._get_tables()
        offset = (
            offsets.take(index % len(self)) if isinstance(offsets, EvenOffsets) else offsets[index]
        )
        return Location(int(offset), int(sizes[index]))

    def extents(self, indices: IntArray | slice) -> tuple[IntArray, IntArray]:
        """Return offsets and sizes of several samples, int64; those of a slice may be read-only.

        Offsets of 2**62 or more, beyond any file, may be replaced by 2**62, so that adding a size
        does not overflow.

        Raises
        ------
        FormatError
            See `offsets`.
        """
        places, sizes = self._get_tables()
        if not isinstance(places, EvenOffsets):
            offsets = places[indices]
        elif isinstance(indices, slice):
            with memory_errors(f"the places of track {self.name!r}", self._source.name):
                offsets = places.all()[indices]
        else:
            offsets = places.take(indices)
        if offsets.dtype.kind == "u" and offsets.dtype.itemsize == 8:
            offsets = np.minimum(offsets, _FAR)
        return offsets.astype(np.int64, copy=False), sizes[indices].astype(np.int64, copy=False)

    def read(self, index: int) -> bytes:
        """Return a copy of the bytes of a sample.

        Raises
        ------
        IndexError
            The index is out of range.
        TruncatedError
            The file ends before the sample.
        FormatError
            See `offsets`.
        """
        offset, nbytes = self[index]
        if offset + nbytes <= self._file_nbytes:
            data = bytes(self._source.read_at(offset, nbytes))
            if len(data) == nbytes:
                return data
        raise self._truncated(f"sample {index % len(self)} of {self.name!r}", offset, nbytes)

    def read_all(self) -> tuple[bytes, IntArray]:
        """Return the concatenated bytes of all samples, and their sizes.

        Raises
        ------
        TruncatedError
            The file ends before the end of a sample.
        FormatError
            Samples overlap, and their total size exceeds that of the file; see also `offsets`.
        """
        starts, sizes = self.extents(slice(None))
        total = self.table.sample_nbytes * len(self) or int(sizes.sum())
        if total > self._file_nbytes:
            raise FormatError(
                f"track {self.name!r}: its samples have {total} bytes in total, the file "
                f"{self._file_nbytes}",
                field="stsz",
            ).at(path=self._source.name)
        if not total:
            return b"", sizes
        ends = starts + sizes
        for index in np.flatnonzero(ends > self._file_nbytes)[:1].tolist():
            raise self._truncated(f"sample {index} of {self.name!r}", *self[index])
        if (ends[:-1] == starts[1:]).all():
            data = bytes(self._source.read_at(int(starts[0]), total))
            if len(data) < total:
                raise self._truncated(f"track {self.name!r}", int(starts[0]), total)
            return data, sizes
        return self._read_scattered(starts, sizes), sizes

    def _read_scattered(self, starts: IntArray, sizes: IntArray) -> bytes:
        whole = bytearray(int(sizes.sum()))
        view = memoryview(whole)
        pieces, at = [], 0
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            take = partial(_copy, view[at : at + size])
            pieces.append(Piece(self._source, start, size, take))
            at += size
        fetch(pieces, nthreads=1, nbytes=0)
        return bytes(whole)

    def _truncated(self, what: str, offset: int, nbytes: int) -> TruncatedError:
        size = self._source.size()
        return TruncatedError(
            f"{what}: its bytes {offset} to {offset + nbytes} exceed the file, which has {size} "
            "bytes",
            offset=offset,
        ).at(path=self._source.name)


def _copy(target: memoryview, data: memoryview) -> None:
    target[:] = data
