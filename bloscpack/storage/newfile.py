"""File written front to back under its final name."""

import os
from contextlib import suppress

from ..types import BytesLike
from . import disk
from .update import create_like


class NewFile:
    """New file, written front to back under its final name.

    `target` is a file whose permissions are copied, if it exists; `name` is for messages.
    """

    # Smaller pieces, mostly digests, are buffered and written together with what follows.
    _SMALL_NBYTES = 1 << 16

    def __init__(self, path: str, target: str, name: str) -> None:
        self.name: str | None = name
        self._path = path
        self._fd = create_like(path, target, name)
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
        """Replace bytes that were written earlier."""
        self._flush()
        with disk.naming(self.name):
            disk.write_at(self._fd, offset, data)

    def copy_from(self, fd: int, nbytes: int) -> None:
        """Append the first `nbytes` of an open file, copied inside the kernel if possible."""
        self._flush()
        with disk.naming(self.name):
            disk.copy_range(fd, 0, self._fd, self._position, nbytes)
        self._position += nbytes

    def _flush(self, *more: BytesLike) -> None:
        parts = (self._pending, *more)
        with disk.naming(self.name):
            disk.write_at(self._fd, self._position, *(part for part in parts if part))
        self._position += sum(map(len, parts))
        self._pending = bytearray()

    def commit(self) -> None:
        """Close the file without syncing it: a part is compared with its record later."""
        self._flush()
        self._close()

    def abort(self) -> None:
        """Remove the file."""
        self._close()
        with suppress(FileNotFoundError):
            disk.unlink(self._path)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
