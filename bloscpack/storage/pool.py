"""Pool of files, only some of which are open at a time.

A process may have about a thousand files open. A closed file is reopened when it is read again,
after a check that it is still the same file.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from ..exceptions import FileChangedError
from .descriptor import Descriptor
from .file import FileSource

MAX_OPEN_FILES = 64


class FilePool:
    """Pool of sources that share at most `limit` open files, not counting those being read.

    Safe from many threads and in forked children, as it has no lock that a child could inherit.
    """

    def __init__(self, limit: int = MAX_OPEN_FILES) -> None:
        self._limit = limit
        # In order of opening.
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
        """Number of open files."""
        return len(self._open)

    def note_open(self, source: "PooledSource") -> None:
        """Register an open file, and release the oldest ones if there are too many."""
        self._open[source] = None
        while len(self._open) > self._limit:
            # If another thread changes the dict at the same time, that thread makes the room.
            with suppress(StopIteration, RuntimeError, KeyError):
                first = next(iter(self._open))
                del self._open[first]
                first.release()

    def note_closed(self, source: "PooledSource") -> None:
        """Unregister a closed file."""
        self._open.pop(source, None)


class PooledSource(FileSource):
    """File of a pool; created by `FilePool.open`."""

    def __init__(self, path: str | os.PathLike[str], pool: FilePool) -> None:
        self._pool = pool
        self._is_closed = False
        self._check: Callable[[], None] | None = None
        super().__init__(path)
        status = os.fstat(self._open_descriptor())
        self._file = status.st_dev, status.st_ino
        self._size = status.st_size
        pool.note_open(self)

    def _open_descriptor(self) -> Descriptor:
        descriptor = self._descriptor
        if descriptor is not None or self._is_closed:
            return super()._open_descriptor()
        descriptor = Descriptor(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != self._file:
            raise FileChangedError("the file was replaced since it was opened; reopen it").at(
                path=self.name
            )
        self._descriptor = descriptor
        self._pool.note_open(self)
        if self._check is not None and status.st_size > self._size:
            try:
                self._check()
            except BaseException:
                self.release()
                raise
            self._size = status.st_size
        return descriptor

    def check_when_grown(self, check: Callable[[], None]) -> None:
        """Call `check` when the file is opened again and has grown."""
        self._check = check

    def replacement(self) -> FileSource | None:
        """Return a source for another file at the path; the caller reads the file as it is now."""
        check, self._check = self._check, None
        try:
            return super().replacement()
        finally:
            self._check = check

    def release(self) -> None:
        """Close the file until the next read."""
        super().close()  # also drops a map, which has a descriptor of its own

    def close(self) -> None:
        """Close the file for good; idempotent."""
        self._is_closed = True
        super().close()
        self._pool.note_closed(self)
