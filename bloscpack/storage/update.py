"""File open for update: locked, written by position, owned by one process."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from ..exceptions import LockedError
from ..types import BytesLike
from . import disk, lock
from .descriptor import pread
from .file import refuse_folder
from .journal import (
    LOCK_ATTEMPTS,
    find_journal,
    journal_path,
    locked_error,
    remove_journal,
    replacing,
    replay,
    resolve_journal,
    write_journal,
)
from .lock import is_locking, try_lock_for_writing, unlock
from .newfile import create_like, temporary_path
from .protocol import ByteSource


class UpdateFile(ByteSource):
    """Regular file that only this process may write; created by `open` or `create`.

    It is also a source: written bytes can be read back immediately. `path` is that of the file
    itself, not of a link; `is_temporary` is whether it has a temporary name until `publish`.
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
        """Open and lock a file, and replay a journal that a dead writer left.

        Without `locking`, the caller must exclude other writers.

        Raises
        ------
        LockedError
            Another writer, in this or another process, has it open.
        IsAFolderError
            It is a folder.
        OSError
            It does not exist, cannot be written or is not a regular file, or its file system has
            no locks.
        """
        name, target = os.fspath(path), os.path.realpath(path)
        locking = is_locking(locking)
        for _ in range(LOCK_ATTEMPTS):
            try:
                fd = os.open(target, os.O_RDWR | os.O_CLOEXEC)
            except IsADirectoryError:
                refuse_folder(path)
                raise
            try:
                if _lock_named(fd, target, name, locking=locking):
                    with disk.naming(name):
                        resolve_journal(target, fd)
                    return cls(fd, target, name, is_temporary=False, is_locked=locking)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise locked_error(name)

    @classmethod
    def create(cls, target: str, name: str, *, locking: bool = True) -> Self:
        """Create a locked temporary file in the folder of `target`, which it will replace."""
        path = temporary_path(target)
        locking = is_locking(locking)
        fd = create_like(path, target, name)
        try:
            if locking:
                try_lock_for_writing(fd, name)  # always free: no other program knows the name
        except BaseException:
            os.close(fd)
            disk.unlink(path)
            raise
        return cls(fd, path, name, is_temporary=True, is_locked=locking)

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed, also when it was collected as garbage."""
        return self._fd < 0

    def size(self) -> int:
        """Return the current size in bytes."""
        return os.fstat(self._own()).st_size

    def status(self) -> os.stat_result:
        """Return the result of ``os.fstat``."""
        return os.fstat(self._own())

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """Return a copy."""
        return pread(self._own(), nbytes, offset)

    def write_at(self, offset: int, *parts: BytesLike) -> None:
        """Write `parts` one after the other from `offset` on."""
        with disk.naming(self.name):
            disk.write_at(self._own(), offset, *parts)

    def copy_from(self, other: "UpdateFile", offset: int, to: int, nbytes: int) -> None:
        """Copy `nbytes` at `offset` of another file to position `to` of this one."""
        with disk.naming(self.name):
            disk.copy_range(other._own(), offset, self._own(), to, nbytes)

    def truncate(self, size: int) -> None:
        """Set the size of the file in bytes."""
        with disk.naming(self.name):
            disk.truncate(self._own(), size)

    def punch(self, offset: int, nbytes: int) -> None:
        """Give the space of bytes that nothing needs back to the file system."""
        with disk.naming(self.name):
            disk.punch(self._own(), offset, nbytes)

    def is_only_opened(self) -> bool:
        """Return whether nothing else in any process reads the file; False if that is unknown."""
        return lock.is_only_opened(self._own())

    def held_versions(self, version: int) -> list[range]:
        """Return the versions before `version` that readers hold.

        Where the system cannot say, readers keep the version before it.
        """
        found = lock.versions_held(self._own(), version)
        return [range(version - 1, version)] if found is None else found

    def start_sync(self, offset: int, nbytes: int) -> None:
        """Let the system begin to write bytes to the drive, so that `sync` takes less time."""
        disk.start_sync(self._own(), offset, nbytes)

    def sync(self) -> None:
        """Make all writes durable."""
        with disk.naming(self.name):
            disk.sync(self._own())

    def begin(self, data_offset: int, extents: Sequence[tuple[int, int]]) -> None:
        """Save the bytes at `extents` in a journal before the first change (`write_journal`)."""
        if not self.has_journal:
            with disk.naming(self.name):
                write_journal(self.path, self._own(), self.size(), data_offset, extents)
            self.has_journal = True

    def end(self) -> None:
        """Make all changes durable and final by removing the journal."""
        self.sync()
        try:
            with disk.naming(self.name):
                remove_journal(self.path)
        finally:  # if only the sync of the folder failed, there is nothing to roll back to any more
            self.has_journal = os.path.lexists(journal_path(self.path))

    def undo(self) -> None:
        """Undo all changes since `begin`."""
        if not self.has_journal:
            return
        found = find_journal(self.path, self._own())
        if found is None:
            raise OSError(f"{self.name}: cannot roll back, as the journal is gone")
        try:
            with disk.naming(self.name):
                replay(self.path, self._own(), *found)
        finally:
            os.close(found[0])
            self.has_journal = os.path.lexists(journal_path(self.path))

    def publish(
        self, target: str, replaced: "UpdateFile | None", *, overwrite: bool = True
    ) -> None:
        """Rename a synced temporary file to `target`, durably.

        `replaced` is the file that is there now, if this process has it locked. Without
        `overwrite`, FileExistsError if there is one.
        """
        locked_fd = -1 if replaced is None else replaced._own()
        with disk.naming(self.name), replacing(target, locked_fd):
            disk.move(self.path, target, overwrite=overwrite)
            # Set before the sync: if that fails, `close` must not remove the file.
            self.path, self.is_temporary = target, False
            disk.sync_folder(os.path.dirname(target))

    def close(self) -> None:
        """Close and unlock the file; a temporary file is removed, a journal stays."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            # A forked child only closes its copy: unlocking would release the lock of the parent.
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
    """Return the error for a forked process that uses a writer of process `pid`, its parent."""
    return LockedError(
        f"process {pid} has the file open for writing; a process forked from it must not use "
        "that handle; open the file again there"
    ).at(path=name)


def _lock_named(fd: int, path: str, name: str, *, locking: bool) -> bool:
    """Lock an open file and return whether the path still names it; raises as `open` does."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(f"{name!r} is not a regular file: only those can be changed in place")
    if locking and not try_lock_for_writing(fd, name):
        raise locked_error(name)
    # Checked after locking: the file may have been replaced between open and lock.
    return disk.is_named(fd, path)
