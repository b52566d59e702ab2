"""Bytes in local files, pipes and Python file objects."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import IO, Any

from ..wire import BytesLike
from .memory import MemorySource
from .protocol import ByteSink, ByteSource


class FileSource:
    """A regular file, read with ``pread``: no shared position, so threads and forks are safe."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name: str | None = os.fspath(path)
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

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
    is followed; permissions of a file that is replaced are kept.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name: str | None = os.fspath(path)
        self._target = os.path.realpath(path)
        self._folder = os.path.dirname(self._target)
        # The name does not contain the target's: that may have the longest name there can be.
        self._temporary = os.path.join(self._folder, f".bloscpack-{os.urandom(8).hex()}.tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            fd = os.open(self._temporary, flags, 0o666)
        except OSError as err:
            err.filename = self.name  # the temporary name would puzzle
            raise
        try:
            with suppress(FileNotFoundError):
                os.fchmod(fd, stat.S_IMODE(os.stat(self._target).st_mode))
        except BaseException:
            os.close(fd)
            os.unlink(self._temporary)
            raise
        self._file = os.fdopen(fd, "w+b")

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        self._file.write(data)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes written before."""
        self._file.seek(offset)
        self._file.write(data)
        self._file.seek(0, os.SEEK_END)

    def commit(self) -> None:
        """Sync and rename to the final name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._temporary, self._target)
        _sync_folder(self._folder)

    def abort(self) -> None:
        """Remove the temporary file."""
        with suppress(OSError):  # what cannot be flushed any more is not wanted any more
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temporary)


def _sync_folder(folder: str) -> None:
    """Make a rename in `folder` durable, where the system can."""
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as err:
        # Some network file systems have no such call; there is nothing better to do.
        if err.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
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
