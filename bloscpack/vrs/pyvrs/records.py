"""How records are taken: at once, or to be awaited."""

import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from functools import partial
from typing import overload

from ...parallel.threads import run_beside
from ...types import IntArray
from .pyvrsrecord import VRSRecord
from .queries import Owner, Rows


class SyncRows(Rows):
    """Records that are read when they are indexed or iterated over."""

    @overload
    def __getitem__(self, index: int) -> VRSRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "VRSReaderSlice": ...
    def __getitem__(self, index: int | slice) -> "VRSRecord | VRSReaderSlice":
        """Return a record, or for a slice records of which nothing is read yet.

        Raises
        ------
        IndexError
            There is no such record.
        FormatError, CodecError
            The record is damaged.
        """
        if isinstance(index, slice):
            return VRSReaderSlice(self._owner, self._rows[index])
        return self._owner._read(self._row(index))

    def __iter__(self) -> Iterator[VRSRecord]:
        """Read all records in order, some ahead."""
        return self._owner._read_all(self._rows)


class AsyncRows(Rows):
    """Records that are awaited: they are read in threads of the event loop's."""

    def __getitem__(self, index: int | slice) -> "Awaitable[VRSRecord | AsyncVRSReaderSlice]":  # type: ignore[override]
        """Return what gives, once it is awaited, a record, or for a slice a sequence of them.

        Raises
        ------
        IndexError
            There is no such record.
        FormatError, CodecError
            When it is awaited: the record is damaged.
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
        raise TypeError("records of an asynchronous reader are iterated over with 'async for'")

    async def __aiter__(self) -> AsyncIterator[VRSRecord]:
        """Read all records in order."""
        for row in self._rows.tolist():
            yield await run_beside(partial(self._load, row))


class _Slice(Rows):
    """Some records of a reader; sliced again, fewer of them."""

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
