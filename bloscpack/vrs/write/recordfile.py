"""Files of a recording that is being written: records in order, then the index.

The file is readable from its first bytes on. The header and the description go first. Records are
written whole and in order, each with the size of the one before it. The header gets the offset of
the index only after the index is on disk. If the program ends at any point, a reader that goes from
record to record finds all flushed records. Small records are collected in one buffer. The parts of
a large record go to the system with that buffer in one call, without a copy.

With `chunk_nbytes` the first file holds header, description and a split index, and the others hold
records. Otherwise the index is at the end, or in front, in space reserved for it. Layout:
docs/formats/vrs.md. No function here may be called from two threads at once.
"""

import errno
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from struct import Struct

import numpy as np

from ...plugin import (
    BytesLike,
    create_like,
    disk,
    forked_error,
    temporary_path,
)
from ..format import zstd
from ..format.description import DESCRIPTION_VERSION
from ..format.format import (
    DESCRIPTION_TYPE_ID,
    INDEX_TYPE_ID,
    RECORD_HEADER,
    RECORD_HEADER_SIZE,
    Compression,
    FileHeader,
    StreamId,
)
from ..format.indexrecord import MIN_ZSTD_RECORDS, SPLIT_RECORDS, classic_index, internal_header
from ..format.recordindex import (
    CLASSIC_VERSION,
    INDEX_ENTRY,
    SPLIT_VERSION,
    ZSTD_LEVEL,
    Entries,
    classic_nbytes,
)
from ..read.filesource import chunk_path, find_neighbours, numbered_files

MAX_RECORD_NBYTES = 0xFFFFFFFF
"""Limit of the size of a record, its header included: less than 4 GiB."""

_BUFFER_NBYTES = 1 << 20
# From this size on, a copy into the buffer costs more than a separate system call.
_LARGE_NBYTES = 1 << 16
_ENTRY = Struct("<dIBiH")
_TIGHT_ZSTD_LEVEL = 18


def refuse_present(names: Iterable[str], replaced: Collection[str]) -> None:
    """Raise FileExistsError if one of the files exists, and is not among those to replace."""
    for name in names:
        if name not in replaced and os.path.lexists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


class RecordFile:
    """A new recording, one file or several.

    Chunks are made beside `path`. `index`, "end" or "front", does not matter if there are chunks.
    It is compressed with the Zstandard `level`; None stores it uncompressed. In front, space is
    reserved for `room` records; compressed, about five times as many fit. `chunk_nbytes` limits the
    files that hold records; a larger record gets a file of its own. With `replaced`, a file at
    `path` is replaced, and the others of these files are removed. `nrecords` includes tags records.
    """

    def __init__(
        self,
        path: str,
        creation_id: int,
        *,
        index: str,
        level: int | None = ZSTD_LEVEL,
        room: int = 0,
        chunk_nbytes: int | None = None,
        replaced: Sequence[str] = (),
    ) -> None:
        self._path = path
        self._is_front = index == "front" and chunk_nbytes is None
        self._level = level
        self._room = room
        self._chunk_nbytes = chunk_nbytes
        self.paths: list[str] = []
        self.is_started = False
        self.nrecords = 0
        self._header = FileHeader(creation_id, version="VRS2" if self._is_front else "VRS1")
        self._entries = bytearray()
        self._buffer = bytearray()
        self._previous_size = 0
        # Where the next frame of the split index goes, and the number of records it lists so far.
        self._split_end = self._split_records = self._index_at = self._room_nbytes = 0
        self._description_size = 0
        self._torn = False
        # The last write failed, and the caller has not retried: `leave` then writes nothing.
        self._has_failed = False
        self._pid = os.getpid()
        # Before anything is removed: a caller that gets an error still has the old recording.
        chunks = find_neighbours(path) if replaced else []
        if chunk_nbytes is not None:
            chunks += numbered_files(path)
        refuse_present(chunks, replaced)
        self._head = self._fd = self._replace(replaced) if replaced else self._create(path)
        self._offset = 0
        try:
            self._write_header()
        except BaseException:
            self.abort()
            raise
        self._offset = len(self._header.pack())

    def _create(self, path: str) -> int:
        fd = create_like(path, self._path, path)
        self.paths.append(path)
        return fd

    def _replace(self, replaced: Sequence[str]) -> int:
        """Put a new file in the place of the first of `replaced`, and remove the others."""
        temporary = temporary_path(self._path)
        with disk.vanishing(temporary):
            fd = create_like(temporary, self._path, self._path)
            try:
                for name in replaced[1:]:
                    disk.unlink(name)
                disk.replace(temporary, self._path)
            except BaseException:
                os.close(fd)
                raise
        self.paths.append(self._path)
        return fd

    def _write_header(self) -> None:
        self._write_head(0, self._header.pack())

    def _naming(self, fd: int) -> AbstractContextManager[None]:
        """Add the path of an open file of the recording to errors of the block."""
        return disk.naming(self.paths[0] if fd == self._head else self.paths[-1])

    def _write_head(self, offset: int, *parts: BytesLike) -> None:
        with self._naming(self._head):
            disk.write_at(self._head, offset, *parts)

    def start(self, description: bytes, nstreams: int, *, room_nbytes: int | None = None) -> None:
        """Write the payload of the description record, and everything up to the first record.

        `room_nbytes` is space for an index in front, if it is known more exactly than by `room`:
        see `index_nbytes`. Nothing is written if the description is too large for a record. After
        an OSError the call may be retried.
        """
        at = self._header.description_offset
        parts = [
            internal_header(DESCRIPTION_TYPE_ID, DESCRIPTION_VERSION, len(description), 0),
            description,
        ]
        previous_size = RECORD_HEADER_SIZE + len(description)
        index_at = at + previous_size
        header = self._header
        if self._is_front:
            room = classic_nbytes(self._room, nstreams) if room_nbytes is None else room_nbytes
            self._room_nbytes = room
            # Zeros: an index of no streams and no records.
            parts.append(internal_header(INDEX_TYPE_ID, CLASSIC_VERSION, room, previous_size))
            parts.append(bytes(room))
            previous_size = RECORD_HEADER_SIZE + room
            header = header._replace(first_record_offset=index_at + previous_size)
        elif self._chunk_nbytes is not None:
            parts.append(self._split_header(previous_size))
            previous_size = RECORD_HEADER_SIZE
            header = header._replace(index_offset=index_at)
        self._write_head(at, *parts)
        end = at + sum(map(len, parts))
        if header != self._header:
            # Publish the index offset only after the index record itself is written.
            self._index_at = index_at
            self._header = header
            self._write_header()
        if self._chunk_nbytes is not None:
            self._description_size = index_at - at
            self._split_end = end
            # The first file of records is created with the first record.
            self._offset = 0
        else:
            self._offset = end
        self._previous_size = previous_size
        self.is_started = True

    def append(
        self,
        stream_id: StreamId,
        record_type: int,
        format_version: int,
        timestamp: float,
        parts: Sequence[BytesLike],
        nbytes: int,
        compression: int = Compression.NONE,
        uncompressed_nbytes: int = 0,
    ) -> None:
        """Append a record.

        The payload, given as the fields of a `StoredPayload`, is not referenced afterwards. After
        an OSError the file does not have the record, earlier records are not lost, and the call may
        be retried.
        """
        size = RECORD_HEADER_SIZE + nbytes
        buffer = self._buffer
        pending = len(buffer)
        if self._chunk_nbytes is not None:
            used = self._offset + pending
            if self._fd == self._head or (used and used + size >= self._chunk_nbytes):
                self._next_chunk()
                pending = 0
            if len(self._entries) >= SPLIT_RECORDS * INDEX_ENTRY.itemsize:
                self._write_split()
                pending = 0
        type_id, instance_id = stream_id
        header = RECORD_HEADER.pack(
            size,
            self._previous_size,
            type_id,
            format_version,
            timestamp,
            instance_id,
            record_type,
            compression,
            uncompressed_nbytes if compression else 0,
        )
        if nbytes < _LARGE_NBYTES:
            if pending + size > _BUFFER_NBYTES:
                self.write_out()
            buffer += header
            for part in parts:
                buffer += part
        else:
            self._write(buffer, header, *parts)
            self._offset += pending + size
            buffer.clear()
        self._entries += _ENTRY.pack(timestamp, size, record_type, type_id, instance_id)
        self._previous_size = size
        self.nrecords += 1

    def write_out(self) -> None:
        """Write the buffered records to the file; they stay in the buffer if that fails."""
        if self._buffer:
            self._write(self._buffer)
            self._offset += len(self._buffer)
            self._buffer.clear()

    def _write(self, *parts: BytesLike) -> None:
        try:
            with self._naming(self._fd):
                disk.write_at(self._fd, self._offset, *parts)
        except OSError:
            self._torn = self._has_failed = True
            with suppress(OSError):  # `close` tries again
                self._cut()
            raise
        self._has_failed = False

    def _next_chunk(self) -> None:
        """Make the chunk durable, and begin another."""
        if self._fd != self._head:
            self.write_out()
            self._cut()
            self._sync(self._fd)
        # Created before the old one is closed: if this fails, the call can be retried.
        fd = self._create(chunk_path(self._path, len(self.paths)))
        if self._fd != self._head:
            os.close(self._fd)
        self._fd, self._offset = fd, 0

    def _cut(self) -> None:
        """Remove the bytes that a failed write left behind the last record."""
        if self._torn:
            with self._naming(self._fd):
                disk.truncate(self._fd, self._offset)
            self._torn = False

    def _split_header(self, previous_size: int, cbytes: int = 0, nrecords: int = 0) -> bytes:
        return internal_header(
            INDEX_TYPE_ID,
            SPLIT_VERSION,
            cbytes,
            previous_size,
            Compression.NONE if self._level is None else Compression.ZSTD,
            0 if self._level is None else nrecords * INDEX_ENTRY.itemsize,
        )

    def _write_split(self) -> None:
        """Append the entries of the records since the last call to the split index."""
        self.write_out()
        if not self._entries:
            return
        data = bytes(self._entries)
        if self._level is not None:
            data = zstd.compress(data, self._level)
        self._write_head(self._split_end, data)
        self._split_end += len(data)
        self._split_records += len(self._entries) // INDEX_ENTRY.itemsize
        self._entries.clear()

    def close(self, stream_ids: Collection[StreamId]) -> None:
        """Write the index, make everything durable, and close the files.

        `stream_ids` are all streams, with or without records. After an OSError the call may be
        retried.
        """
        self.write_out()
        self._cut()
        if self._chunk_nbytes is not None:
            self._finish_split()
        else:
            self._finish_classic(stream_ids)
        self._sync(self._head)
        disk.sync_folder(os.path.dirname(self.paths[0]))
        # Only files and names that are durable may be referenced by the header.
        self._write_header()
        self._sync(self._head)
        self._close_files()

    def _sync(self, fd: int) -> None:
        with self._naming(fd):
            disk.sync(fd)

    def _finish_split(self) -> None:
        if self._fd != self._head and not self._offset:
            # Creating the last chunk succeeded, but its record could not be written.
            os.close(self._fd)
            self._fd = self._head
            disk.unlink(self.paths.pop())
        self._sync(self._fd)
        self._write_split()
        cbytes = self._split_end - self._index_at - RECORD_HEADER_SIZE
        header = self._split_header(self._description_size, cbytes, self._split_records)
        self._write_head(self._index_at, header)
        self._header = self._header._replace(first_record_offset=self._split_end)

    def _finish_classic(self, stream_ids: Collection[StreamId]) -> None:
        entries = np.frombuffer(self._entries, INDEX_ENTRY)
        try:
            index_at = None
            if self._is_front:
                index_at = self._write_front(entries, stream_ids)
            if index_at is None:
                self._write(*classic_index(entries, stream_ids, self._level, self._previous_size))
                index_at = self._offset
        finally:
            # A bytearray cannot grow while an array uses its memory.
            del entries
        self._header = self._header._replace(index_offset=index_at)

    def _write_front(self, entries: Entries, stream_ids: Collection[StreamId]) -> int | None:
        """Write the index into the reserved space; return None if it does not fit."""
        levels = [self._level, _TIGHT_ZSTD_LEVEL]
        if self._level is None or len(entries) < MIN_ZSTD_RECORDS:
            levels = [None, ZSTD_LEVEL, _TIGHT_ZSTD_LEVEL]
        before, room = self._index_at - self._header.description_offset, self._room_nbytes
        for level in levels:
            header, payload = classic_index(entries, stream_ids, level, before, room)
            if len(payload) <= room:
                self._write_head(self._index_at, header, payload)
                return self._index_at
        return None

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from that of the writer."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raise LockedError in a process that was forked from that of the writer."""
        if self.is_forked:
            raise forked_error(self._pid, self.paths[0])

    def leave(self) -> None:
        """Write the buffer, and close the files without an index.

        Nothing more is written after a failed write. A forked copy of the process writes nothing,
        as the file belongs to its parent.
        """
        try:
            if not (self.is_forked or self._has_failed):
                self.write_out()
        finally:
            self._close_files()

    def abort(self) -> None:
        """Close and remove all files."""
        self._close_files()
        for path in self.paths:
            with suppress(FileNotFoundError):
                disk.unlink(path)

    def _close_files(self) -> None:
        for fd in {self._head, self._fd}:
            os.close(fd)
