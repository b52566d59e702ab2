"""New file: its temporary name, what it takes over from the file it replaces, and its writing."""

import errno
import os
import stat
from contextlib import suppress

from ..types import BytesLike
from . import disk


def temporary_path(target: str) -> str:
    """Return an unused name in the folder of `target`.

    It does not contain the name of `target`, which may have the maximum length already.
    """
    folder = os.path.dirname(target)
    return os.path.join(folder, f".bloscpack-{os.urandom(8).hex()}.tmp")


def create_like(path: str, target: str, name: str | None) -> int:
    """Create a file at `path` that may replace `target`; see `make_like`."""
    try:
        fd = disk.create(path)
    except OSError as err:
        err.filename = name  # not the temporary name, which means nothing to the caller
        raise
    try:
        make_like(fd, target, name)
    except BaseException:
        os.close(fd)
        disk.unlink(path)
        raise
    return fd


def make_like(fd: int, target: str, name: str | None) -> None:
    """Give an open file the permissions of `target`, if that exists, and its owner if allowed.

    Raises
    ------
    OSError
        `target` is not a regular file, and so cannot be replaced; `name` is for the message.
    """
    status = check_regular(target, name)
    if status is not None:
        pass_on(status, fd)


def pass_on(status: os.stat_result, fd: int) -> None:
    """Give an open file or folder the permissions in `status`, and the owner if allowed."""
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        disk.set_owner(fd, status)
        mine = os.fstat(fd)
    # Last, as another owner resets some of its bits.
    if mine.st_mode != status.st_mode:
        disk.set_mode(fd, stat.S_IMODE(status.st_mode))


def check_regular(target: str, name: str | None) -> os.stat_result | None:
    """Return the status of the file at `target`, or None; raises as `make_like` does."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(
            f"{name!r} is not a regular file: this type of file cannot be streamed to a device or "
            "a pipe; write it under a new name"
        )
    return status


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
