"""Tracks of a dataset: where their samples lie, and reading these.

The tables of a track are read when it is first used, straight into arrays that stay as they are
stored, big-endian and, where there is one size for all, without a table. Offsets and sizes are
believed only when bytes are read: then they are compared with the size of the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from ...exceptions import FormatError, TruncatedError, UnsupportedError
from ...storage.batch import Piece, fetch
from ...storage.file import FileSource
from ...storage.protocol import ByteSource
from ...types import AnyArray, IntArray
from .bmff import Table
from .movie import EvenOffsets, TrackTable, sample_offsets

_FAR = 1 << 62
# Of a table that are read at once. So many zeros would be half a million samples of no bytes.
_BLOCK_NBYTES = 4 << 20


@contextmanager
def sized(what: str, path: str | None) -> Iterator[None]:
    """Say of what there is no memory for that it is too large."""
    try:
        yield
    except MemoryError as err:
        error = UnsupportedError(f"{what}: there is not memory enough ({err})")
        error.path = path
        raise error from err


class Location(NamedTuple):
    """Where a sample lies."""

    offset: int
    """Absolute."""
    nbytes: int


class DatasetTrack:
    """One of the tracks of a dataset, in the order of its samples.

    Attributes
    ----------
    name : str
        As ``"bzna_input"``.
    table : TrackTable
        What its boxes say.

    Notes
    -----
    ``track[i]`` is the `Location` of a sample. Threads may share a track.
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
        """What kind of track it is: ``"meta"`` or, with pictures, ``"vide"``."""
        return self.table.handler.decode("ascii", "backslashreplace")

    @property
    def mime(self) -> str:
        """Mime type of metadata; empty for pictures."""
        return self.table.mime

    @property
    def shape(self) -> tuple[int, int] | None:
        """(H, W) of the coded frame, as the track says; None for metadata."""
        width, height = self.table.frame
        return (height, width) if width else None

    @property
    def offsets(self) -> AnyArray:
        """The absolute offset of each sample, integers of any kind and byte order, shape (n,).

        Raises
        ------
        FormatError
            The tables do not fit together.
        TruncatedError
            The file has become shorter than they.
        UnsupportedError
            There is no memory for them.
        """
        offsets = self._loaded()[0]
        if isinstance(offsets, EvenOffsets):
            return offsets.all()
        return offsets

    @property
    def sizes(self) -> AnyArray:
        """The size of each sample, shape (n,), as `offsets`."""
        return self._loaded()[1]

    def _loaded(self) -> tuple[AnyArray | EvenOffsets, AnyArray]:
        if self._tables is None:
            self._tables = self._load()
        return self._tables

    def _load(self) -> tuple[AnyArray | EvenOffsets, AnyArray]:
        with sized(f"the tables of track {self.name!r}", self._source.name):
            return self._read_tables()

    def _read_tables(self) -> tuple[AnyArray | EvenOffsets, AnyArray]:
        table = self.table
        sizes: AnyArray = np.broadcast_to(np.int64(table.sample_nbytes), table.count)
        try:
            if not table.sample_nbytes:
                sizes = self._read_table(table.sizes)
            runs, chunks = self._read_table(table.runs), self._read_table(table.chunks)
            if table.sample_nbytes:
                return EvenOffsets(table, runs, chunks), sizes
            offsets = sample_offsets(table, sizes, runs, chunks)
        except FormatError as err:
            err.path = err.path or self._source.name
            raise
        for array in (offsets, sizes):
            array.flags.writeable = False
        return offsets, sizes

    def _read_table(self, table: Table) -> AnyArray:
        array: AnyArray = np.empty(table.count, table.dtype)
        view = array.view("u1").data if table.nbytes else memoryview(b"")
        # In blocks: of a file with holes a table of gigabytes takes no room, until it is read.
        for start in range(0, table.nbytes, _BLOCK_NBYTES):
            self._read_block(table, start, view[start : start + _BLOCK_NBYTES])
        return array

    def _read_block(self, table: Table, start: int, block: memoryview) -> None:
        offset = table.offset + start
        if self._read_into(offset, block) < len(block):
            raise self._cut_off(f"a table of track {self.name!r}", table.offset, table.nbytes)
        if len(block) == _BLOCK_NBYTES and not np.frombuffer(block, np.uint64).any():
            raise FormatError(
                f"track {self.name!r}: {_BLOCK_NBYTES} bytes of a table, from offset {offset}, are "
                "all 0: a hole in the file",
                offset=offset,
            )

    def _read_into(self, offset: int, view: memoryview) -> int:
        """Read, and return the number of bytes that there were."""
        if isinstance(self._source, FileSource):
            return self._source.read_into(offset, view)
        stored = self._source.read_at(offset, len(view))
        view[: len(stored)] = stored
        return len(stored)

    def __len__(self) -> int:
        return self.table.count

    def __getitem__(self, index: int) -> Location:
        """Return where a sample lies.

        Raises
        ------
        IndexError
            There is none of this number.
        FormatError
            See `offsets`.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of a track of {len(self)}")
        offsets, sizes = self._loaded()
        offset = (
            offsets.take(index % len(self)) if isinstance(offsets, EvenOffsets) else offsets[index]
        )
        return Location(int(offset), int(sizes[index]))

    def extents(self, indices: IntArray | slice) -> tuple[IntArray, IntArray]:
        """Return offsets and sizes of several samples, int64; those of a slice may be read-only.

        An offset of 2**62 or more, which no file reaches, may have become 2**62: an end can be told
        without an overflow.

        Raises
        ------
        FormatError
            See `offsets`.
        """
        places, sizes = self._loaded()
        if not isinstance(places, EvenOffsets):
            offsets = places[indices]
        elif isinstance(indices, slice):
            with sized(f"the places of track {self.name!r}", self._source.name):
                offsets = places.all()[indices]
        else:
            offsets = places.take(indices)
        if offsets.dtype.kind == "u" and offsets.dtype.itemsize == 8:
            offsets = np.minimum(offsets, _FAR)
        return offsets.astype(np.int64, copy=False), sizes[indices].astype(np.int64, copy=False)

    def read(self, index: int) -> bytes:
        """Return the bytes of a sample, a copy.

        Raises
        ------
        IndexError
            There is none of this number.
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
        raise self._cut_off(f"sample {index % len(self)} of {self.name!r}", offset, nbytes)

    def read_all(self) -> tuple[bytes, IntArray]:
        """Return the bytes of all samples, one behind the other, and their sizes.

        Raises
        ------
        TruncatedError
            The file ends before one of them.
        FormatError
            They overlap so that they are more than the file has; see also `offsets`.
        """
        starts, sizes = self.extents(slice(None))
        total = self.table.sample_nbytes * len(self) or int(sizes.sum())
        if total > self._file_nbytes:
            error = FormatError(
                f"track {self.name!r}: its samples have {total} bytes together, the file "
                f"{self._file_nbytes}",
                field="stsz",
            )
            error.path = self._source.name
            raise error
        if not total:
            return b"", sizes
        ends = starts + sizes
        for index in np.flatnonzero(ends > self._file_nbytes)[:1].tolist():
            raise self._cut_off(f"sample {index} of {self.name!r}", *self[index])
        if (ends[:-1] == starts[1:]).all():
            data = bytes(self._source.read_at(int(starts[0]), total))
            if len(data) < total:
                raise self._cut_off(f"track {self.name!r}", int(starts[0]), total)
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

    def _cut_off(self, what: str, offset: int, nbytes: int) -> TruncatedError:
        size = self._source.size()
        error = TruncatedError(
            f"{what}: its bytes {offset} to {offset + nbytes} are not all there, the file has "
            f"{size}",
            offset=offset,
        )
        error.path = self._source.name
        return error


def _copy(target: memoryview, data: memoryview) -> None:
    target[:] = data
