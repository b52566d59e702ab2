"""Bytes in local files, pipes and Python file objects."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import IO, Any

from ..wire import BytesLike
from . import disk
from .memory import MemorySource
from .overlay import OverlaySource, Patch
from .protocol import ByteSink, ByteSource
from .rollback import check_unlocked, find_journal, replacing, try_settle
from .update import create_like, temporary_path


class FileSource:
    """A regular file, read with ``pread``: no shared position, so threads and forks are safe.

    Attributes
    ----------
    path : str
        Where it is, absolute and no link, so that its journal is found beside it.
    """

    def __init__(self, path: str | os.PathLike[str], fd: int = -1) -> None:
        self.name: str | None = os.fspath(path)
        if isinstance(self.name, bytes):
            self.name = os.fsdecode(self.name)
        is_link = os.path.islink(self.name)
        self.path = os.path.realpath(self.name) if is_link else os.path.abspath(self.name)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags) if fd < 0 else fd

    def duplicate(self) -> "FileSource":
        """Return another source for the same open file, even if its name is gone."""
        copy = FileSource(self.path, os.dup(self._fd))
        copy.name = self.name
        return copy

    def settled(self, *, replays: bool) -> "OverlaySource | None":
        """Return the file as it was before an append that has not ended; None if there is none.

        With `replays` the append of a dead writer is rolled back in the file, if possible.
        """
        found = find_journal(self.path, self._fd)
        if found is None:
            return None
        journal_fd, journal = found
        if replays and try_settle(self.path, self._fd):
            os.close(journal_fd)
            return None
        kept = FileSource(self.path, journal_fd)
        patches = [
            Patch(region.offset, region.nbytes, kept, region.at) for region in journal.regions
        ]
        patches.append(Patch(*journal.spare_extent, None))
        return OverlaySource(self, patches, journal.file_size, owned=(self, kept))

    def has_journal(self) -> bool:
        """Return whether a writer is changing the file, or died while it did."""
        found = find_journal(self.path, self._fd)
        if found is not None:
            os.close(found[0])
        return found is not None

    def is_replaced(self) -> bool:
        """Return whether the path leads to another file by now."""
        return not os.path.samestat(os.fstat(self._fd), os.stat(self.path))

    def size(self) -> int:
        """Return the current size of the file."""
        return os.fstat(self._fd).st_size

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """Return a copy; a read that the system cuts short is continued."""
        data = os.pread(self._fd, nbytes, offset)
        if len(data) == nbytes or not data:
            return data
        parts = [data]
        missing = nbytes - len(data)
        while missing:
            data = os.pread(self._fd, missing, offset + nbytes - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def close(self) -> None:
        """Close the file; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class FileObjectSource:
    """A seekable binary file object; a lock makes each seek-and-read one step.

    The object stays the caller's: closing the source does not close it.
    """

    def __init__(self, fileobj: IO[bytes]) -> None:
        name = getattr(fileobj, "name", None)
        self.name: str | None = name if isinstance(name, str) else None
        self._file = fileobj
        self._lock = Lock()

    def size(self) -> int:
        """Return the position of the end."""
        with self._lock:
            return self._file.seek(0, os.SEEK_END)

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """Return a copy."""
        with self._lock:
            self._file.seek(offset)
            return read_fully(self._file, nbytes)

    def close(self) -> None:
        """Do nothing: the file object is the caller's."""


def read_fully(stream: IO[bytes], nbytes: int) -> bytes:
    """Read `nbytes` from a stream, less only at its end: a pipe gives what it has."""
    data = stream.read(nbytes)
    if len(data) == nbytes or not data:
        return data
    parts = [data]
    missing = nbytes - len(data)
    while missing and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def open_source(where: Any) -> ByteSource:
    """Return a source for a path, a bytes-like object or a binary file object.

    What cannot be read by position (a pipe, a terminal, a non-seekable object) is read to memory.

    Raises
    ------
    OSError
        The file cannot be opened.
    TypeError
        `where` is none of these.
    """
    if isinstance(where, str | os.PathLike):
        if stat.S_ISREG(os.stat(where).st_mode):
            return FileSource(where)
        with open(where, "rb") as stream:
            return MemorySource(stream.read())
    if hasattr(where, "read"):
        if not where.seekable():
            return MemorySource(where.read())
        return FileObjectSource(where)
    try:
        return MemorySource(where)
    except TypeError as err:
        raise TypeError(f"expected a path, a bytes-like object or a binary file: {err}") from None


class SpoolSink:
    """Bytes that wait in memory, or in a temporary file once they are many."""

    name: str | None = None

    _MEMORY_NBYTES = 16 << 20
    _BLOCK_NBYTES = 1 << 20

    def __init__(self) -> None:
        from tempfile import SpooledTemporaryFile  # on use: 3 ms to load, and rarely needed

        self._spool = SpooledTemporaryFile(self._MEMORY_NBYTES)  # noqa: SIM115

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        self._spool.write(data)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes written before."""
        self._spool.seek(offset)
        self._spool.write(data)
        self._spool.seek(0, os.SEEK_END)

    def iter_blocks(self) -> Iterator[bytes]:
        """Yield everything written, in blocks."""
        self._spool.seek(0)
        while block := self._spool.read(self._BLOCK_NBYTES):
            yield block

    def commit(self) -> None:
        """Do nothing: the bytes stay until the sink is closed."""

    def abort(self) -> None:
        """Drop what was written."""
        self._spool.close()


class StreamSink(SpoolSink):
    """A caller's binary file object, or a device: takes all the bytes at `commit`.

    So a stream that cannot seek gets its front filled in, and a failure leaves it untouched.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        name = getattr(stream, "name", None)
        self.name = name if isinstance(name, str) else None
        self._stream = stream

    def commit(self) -> None:
        """Copy everything to the stream and flush it."""
        for block in self.iter_blocks():
            view = memoryview(block)
            while view:  # a raw stream may take less than it is given
                view = view[self._stream.write(view) or 0 :]
        self._stream.flush()
        self.abort()


class FileSink:
    """A new file that appears under its name, whole and durable, on `commit`.

    It is written under a temporary name in the same folder, synced, and renamed. A symbolic link
    is followed; permissions of a file that is replaced are kept, and its journal is replayed
    before.

    Raises
    ------
    LockedError
        A writer has the file open that would be replaced.
    """

    # Small pieces, the digests above all, are written together with what follows.
    _SMALL_NBYTES = 1 << 16

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name: str | None = os.fspath(path)
        self._target = os.path.realpath(path)
        check_unlocked(self._target)
        self._temporary = temporary_path(self._target)
        self._fd = create_like(self._temporary, self._target, self.name)
        self._position = 0
        self._pending = bytearray()

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        if len(data) < self._SMALL_NBYTES:
            self._pending += data
            if len(self._pending) >= self._SMALL_NBYTES:
                self._flush()
        else:
            self._flush(data)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes written before."""
        self._flush()
        disk.write_at(self._fd, offset, data)

    def _flush(self, *more: BytesLike) -> None:
        parts = (self._pending, *more)
        disk.write_at(self._fd, self._position, *(part for part in parts if part))
        self._position += sum(map(len, parts))
        self._pending = bytearray()

    def commit(self) -> None:
        """Sync and rename to the final name."""
        self._flush()
        disk.sync(self._fd)
        self._close()
        with replacing(self._target):
            disk.replace(self._temporary, self._target)
            disk.sync_folder(os.path.dirname(self._target))

    def abort(self) -> None:
        """Remove the temporary file."""
        self._close()
        with suppress(FileNotFoundError):
            disk.unlink(self._temporary)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


@contextmanager
def committed(sink: ByteSink) -> Iterator[ByteSink]:
    """Commit `sink` when the block ends, abort it when the block raises."""
    try:
        yield sink
        sink.commit()
    except BaseException:
        sink.abort()
        raise


@contextmanager
def open_sink(where: Any) -> Iterator[ByteSink]:
    """Give a sink for a path or a binary file object, committed at the end of the block.

    A path that names a device or a pipe is written to in place: it cannot be replaced.

    Raises
    ------
    OSError
        The file cannot be made.
    TypeError
        `where` is neither.
    """
    if isinstance(where, str | os.PathLike):
        try:
            in_place = not stat.S_ISREG(os.stat(where).st_mode)
        except FileNotFoundError:
            in_place = False
        if in_place:
            with open(where, "wb") as stream, committed(StreamSink(stream)) as sink:
                yield sink
        else:
            with committed(FileSink(where)) as sink:
                yield sink
    elif hasattr(where, "write"):
        with committed(StreamSink(where)) as sink:
            yield sink
    else:
        raise TypeError(f"expected a path or a binary file, not {type(where).__name__!r}")
