"""Many files to read from, of which only some are open at a time.

A process may have about a thousand files open. One that is read again is opened again; that it is
the same file is checked.
"""

import os
from contextlib import suppress

from ..exceptions import FileChangedError
from .descriptor import Descriptor
from .file import FileSource

MAX_OPEN_FILES = 64


class FilePool:
    """Makes sources that share a number of open files.

    Parameters
    ----------
    limit : int
        How many are open at most, besides those that are just being read.

    Notes
    -----
    Safe from many threads, and in forked children: it has no lock that one could inherit.
    """

    def __init__(self, limit: int = MAX_OPEN_FILES) -> None:
        self._limit = limit
        # In the order in which they were opened.
        self._open: dict[PooledSource, None] = {}

    def open(self, path: str | os.PathLike[str]) -> "PooledSource":
        """Open a file.

        Raises
        ------
        OSError
            It cannot be opened.
        """
        return PooledSource(path, self)

    @property
    def nopen(self) -> int:
        """Number of files that are open."""
        return len(self._open)

    def note_open(self, source: "PooledSource") -> None:
        """Take note of a file that was opened, and close others if there are too many."""
        self._open[source] = None
        while len(self._open) > self._limit:
            # Another thread may be at it: then it makes the room.
            with suppress(StopIteration, RuntimeError, KeyError):
                first = next(iter(self._open))
                del self._open[first]
                first.release()

    def note_closed(self, source: "PooledSource") -> None:
        """Take note of a file that was closed."""
        self._open.pop(source, None)


class PooledSource(FileSource):
    """A file of a pool; made by `FilePool.open`."""

    def __init__(self, path: str | os.PathLike[str], pool: FilePool) -> None:
        self._pool = pool
        self._is_closed = False
        super().__init__(path)
        status = os.fstat(self._open_descriptor().number)
        self._file = status.st_dev, status.st_ino
        pool.note_open(self)

    def _open_descriptor(self) -> Descriptor:
        descriptor = self._descriptor
        if descriptor is not None or self._is_closed:
            return super()._open_descriptor()
        descriptor = Descriptor(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
        status = os.fstat(descriptor.number)
        if (status.st_dev, status.st_ino) != self._file:
            error = FileChangedError("the file was replaced since it was opened; open it anew")
            error.path = self.name
            raise error
        self._descriptor = descriptor
        self._pool.note_open(self)
        return descriptor

    def release(self) -> None:
        """Close the file until it is read again."""
        self._descriptor = None

    def close(self) -> None:
        """Close the file for good; idempotent."""
        self._is_closed = True
        super().close()
        self._pool.note_closed(self)
