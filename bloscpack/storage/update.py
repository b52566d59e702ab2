"""A file open for update: locked, written by position, belonging to one process."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from ..exceptions import LockedError
from ..types import BytesLike
from . import disk
from .descriptor import pread
from .disk import is_locking, try_lock_for_writing, unlock
from .file import refuse_folder
from .journal import (
    find_journal,
    journal_path,
    locked_error,
    remove_journal,
    replacing,
    replay,
    settle,
    write_journal,
)

_ATTEMPTS = 100


def temporary_path(target: str) -> str:
    """Return a new name in the folder of `target`.

    It does not contain the target's: that may have the longest name there can be.
    """
    folder = os.path.dirname(target)
    return os.path.join(folder, f".bloscpack-{os.urandom(8).hex()}.tmp")


def create_like(path: str, target: str, name: str | None) -> int:
    """Make a new file at `path` with the permissions of `target`, if that exists."""
    try:
        fd = disk.create(path)
    except OSError as err:
        err.filename = name  # the temporary name would puzzle
        raise
    try:
        with suppress(FileNotFoundError):
            disk.set_mode(fd, stat.S_IMODE(os.stat(target).st_mode))
    except BaseException:
        os.close(fd)
        disk.unlink(path)
        raise
    return fd


class UpdateFile:
    """A regular file that this process alone may write.

    It is also a source: what was written can be read at once. Made by `open` or `create`.

    Attributes
    ----------
    name : str
        As the caller called it.
    path : str
        Where it is; no link.
    is_temporary : bool
        It waits to be published at another path.
    """

    def __init__(
        self, fd: int, path: str, name: str, *, is_temporary: bool, is_locked: bool
    ) -> None:
        self.name: str | None = name
        self.path = path
        self.is_temporary = is_temporary
        self.has_journal = False
        self._fd = fd
        self._is_locked = is_locked
        self._pid = os.getpid()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, locking: bool = True) -> Self:
        """Open and lock a file; a journal that a dead writer left is replayed.

        Without `locking` the caller makes sure that there is no other writer.

        Raises
        ------
        LockedError
            Another writer has it open, in this process or in another one.
        IsAFolderError
            It is a folder.
        OSError
            It is not there, cannot be written, or is no regular file; or it is on a file system
            without locks.
        """
        name, target = os.fspath(path), os.path.realpath(path)
        locking = locking and is_locking()
        for _ in range(_ATTEMPTS):
            try:
                fd = os.open(target, os.O_RDWR | os.O_CLOEXEC)
            except IsADirectoryError:
                refuse_folder(path)
                raise
            try:
                if _lock_named(fd, target, name, locking=locking):
                    with disk.naming(name):
                        settle(target, fd)
                    return cls(fd, target, name, is_temporary=False, is_locked=locking)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise locked_error(name)

    @classmethod
    def create(cls, target: str, name: str, *, locking: bool = True) -> Self:
        """Make a locked temporary file in the folder of `target`, which it will replace."""
        path = temporary_path(target)
        locking = locking and is_locking()
        fd = create_like(path, target, name)
        try:
            if locking:
                try_lock_for_writing(fd, name)  # no other program knows it
        except BaseException:
            os.close(fd)
            disk.unlink(path)
            raise
        return cls(fd, path, name, is_temporary=True, is_locked=locking)

    def size(self) -> int:
        """Return the current size of the file."""
        return os.fstat(self._own()).st_size

    def status(self) -> os.stat_result:
        """Return the status of the file."""
        return os.fstat(self._own())

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """Return a copy."""
        return pread(self._own(), nbytes, offset)

    def write_at(self, offset: int, *parts: BytesLike) -> None:
        """Write `parts` one behind the other from `offset` on."""
        with disk.naming(self.name):
            disk.write_at(self._own(), offset, *parts)

    def copy_from(self, other: "UpdateFile", offset: int, to: int, nbytes: int) -> None:
        """Copy `nbytes` of another file from `offset` on, to the position `to` of this one."""
        with disk.naming(self.name):
            disk.copy_range(other._own(), offset, self._own(), to, nbytes)

    def truncate(self, size: int) -> None:
        """Cut the file off."""
        with disk.naming(self.name):
            disk.truncate(self._own(), size)

    def sync(self) -> None:
        """Make all that was written durable."""
        with disk.naming(self.name):
            disk.sync(self._own())

    def begin(self, data_offset: int, extents: Sequence[tuple[int, int]]) -> None:
        """Keep the bytes at `extents` in a journal, before the first change (`write_journal`)."""
        if not self.has_journal:
            with disk.naming(self.name):
                write_journal(self.path, self._own(), self.size(), data_offset, extents)
            self.has_journal = True

    def end(self) -> None:
        """Make all changes durable and final: without the journal there is no way back."""
        self.sync()
        try:
            with disk.naming(self.name):
                remove_journal(self.path)
        finally:
            self.has_journal = os.path.lexists(journal_path(self.path))

    def undo(self) -> None:
        """Put everything back that was changed since `begin`."""
        if not self.has_journal:
            return
        found = find_journal(self.path, self._own())
        if found is None:
            raise OSError(f"{self.name}: its journal is gone, so that nothing can be rolled back")
        try:
            with disk.naming(self.name):
                replay(self.path, self._own(), *found)
        finally:
            os.close(found[0])
            self.has_journal = os.path.lexists(journal_path(self.path))

    def publish(self, target: str, replaced: "UpdateFile | None") -> None:
        """Put a temporary file, synced, in the place of `target`, durably.

        `replaced` is the file there now if it is this process that has it locked.
        """
        held = -1 if replaced is None else replaced._own()
        with disk.naming(self.name), replacing(target, held):
            disk.replace(self.path, target)
            self.path, self.is_temporary = target, False
            disk.sync_folder(os.path.dirname(target))

    def close(self) -> None:
        """Close the file and give the lock back; a temporary file goes, a journal stays."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            # A forked child closes its copy only: unlocking would unlock the file of the parent.
            if os.getpid() == self._pid:
                if self.is_temporary:
                    with suppress(FileNotFoundError):
                        disk.unlink(self.path)
                if self._is_locked:
                    unlock(fd)
        finally:
            os.close(fd)

    def _own(self) -> int:
        if self._fd < 0:
            raise ValueError("I/O operation on a closed file")
        if os.getpid() != self._pid:
            raise forked_error(self._pid, self.name)
        return self._fd

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


def forked_error(pid: int, name: str | None) -> LockedError:
    """Return the error for a forked process that uses a writer of its parent, process `pid`."""
    err = LockedError(
        f"process {pid} has the file open for writing; a process forked from it must not use "
        "that handle, but open the file itself"
    )
    err.path = name
    return err


def _lock_named(fd: int, path: str, name: str, *, locking: bool) -> bool:
    """Lock an open file, and return whether the path still leads to it.

    Raises
    ------
    LockedError
        Somebody else has the lock.
    """
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(f"{name!r} is no regular file: only those can be changed in place")
    if locking and not try_lock_for_writing(fd, name):
        raise locked_error(name)
    try:
        # It may have been replaced in between: a lock on a lost file helps nobody.
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
