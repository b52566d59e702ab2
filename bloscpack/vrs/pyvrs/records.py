"""Access to records by index and iteration, synchronous and asynchronous."""

import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from functools import partial
from typing import overload

from ...plugin import IntArray, run_beside
from .queries import Owner, Rows
from .record import VRSRecord


class SyncRows(Rows):
    """Sequence of records, read when indexed or iterated over."""

    @overload
    def __getitem__(self, index: int) -> VRSRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "VRSReaderSlice": ...
    def __getitem__(self, index: int | slice) -> "VRSRecord | VRSReaderSlice":
        """Return the record at an int, or a lazy sequence of records for a slice.

        Raises
        ------
        IndexError
            No such record exists.
        FormatError, CodecError
            The record is damaged.
        """
        if isinstance(index, slice):
            return VRSReaderSlice(self._owner, self._rows[index])
        return self._owner._read(self._row(index))

    def __iter__(self) -> Iterator[VRSRecord]:
        """Iterate over all records in order, reading some ahead."""
        return self._owner._read_all(self._rows)


class AsyncRows(Rows):
    """Sequence of awaitable records, read in threads of the event loop's executor."""

    def __getitem__(self, index: int | slice) -> "Awaitable[VRSRecord | AsyncVRSReaderSlice]":  # type: ignore[override]
        """Return an awaitable of the record at an int, or of a lazy sequence for a slice.

        Raises
        ------
        IndexError
            When awaited: no such record exists.
        FormatError, CodecError
            When awaited: the record is damaged.
        """
        return self._take(index)

    def _load(self, row: int) -> VRSRecord:
        return self._owner._read(row).load()

    async def _take(self, index: int | slice) -> "VRSRecord | AsyncVRSReaderSlice":
        if isinstance(index, slice):
            return AsyncVRSReaderSlice(self._owner, self._rows[index])
        row = self._row(index)
        return await run_beside(partial(self._load, row))

    def __iter__(self) -> Iterator[VRSRecord]:
        raise TypeError("an asynchronous reader needs 'async for', not 'for'")

    async def __aiter__(self) -> AsyncIterator[VRSRecord]:
        """Iterate over all records in order."""
        for row in self._rows.tolist():
            yield await run_beside(partial(self._load, row))


class _Slice(Rows):
    """Some records of a reader; may be sliced again."""

    def __init__(self, owner: Owner, rows: IntArray) -> None:
        self._reader = owner
        self._rows = rows

    @property
    def _owner(self) -> Owner:
        return self._reader

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={os.fspath(self._owner._path)!r}, len={len(self)})"

    def __str__(self) -> str:
        return f"{self._owner._path}\nSlice containing {len(self)} records"


class VRSReaderSlice(_Slice, SyncRows):
    """Some records of a reader, in the order they were sliced."""


class AsyncVRSReaderSlice(_Slice, AsyncRows):
    """Some records of an asynchronous reader, in the order they were sliced."""
