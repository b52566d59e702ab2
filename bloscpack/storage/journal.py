"""Rollback journals: written before a file is changed in place, replayed after a crash.

The order of writes is essential: the journal is complete and synced before the first change, and is
removed only after the last change is synced. A process that finds a complete journal of the file
tries to lock the file. If it gets the lock, the writer is dead, and it restores the old bytes.
Otherwise it reads the old bytes from the journal instead of the changed ones.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from xxhash import xxh3_64, xxh3_64_digest, xxh3_64_hexdigest

from ..exceptions import LockedError
from ..format.header import HEADER_SIZE
from ..format.journallayout import (
    JOURNAL_HEADER_SIZE,
    JOURNAL_START_NBYTES,
    JOURNAL_SUFFIX,
    NO_FINGERPRINT,
    Journal,
    fingerprint_extent,
    pack_journal_start,
    unpack_journal,
)
from ..notice import notice
from . import disk
from .descriptor import pread
from .lock import NO_LOCKS, is_locking, try_lock, try_lock_for_writing, unlock

_BLOCK_NBYTES = 1 << 20
_NO_SUCH_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# Neither a symbolic link nor a pipe of this name may redirect or block the open.
_JOURNAL_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# Longest file name on Linux and macOS, in bytes.
_MAX_NAME_NBYTES = 255
# Attempts to lock a file that other programs replace all the time.
LOCK_ATTEMPTS = 100


def journal_path(path: str) -> str:
    """Return the path of the journal of the file at `path`, which must not be a link.

    If its name would be too long, it is formed from a digest of the file name.
    """
    folder, slash, name = path.rpartition("/")
    if 4 * len(name) + len(JOURNAL_SUFFIX) > _MAX_NAME_NBYTES:  # it may have 4 bytes a character
        encoded = os.fsencode(name)
        if len(encoded) + len(JOURNAL_SUFFIX) > _MAX_NAME_NBYTES:
            return f"{folder}{slash}.bloscpack-{xxh3_64_hexdigest(encoded)}{JOURNAL_SUFFIX}"
    return path + JOURNAL_SUFFIX


def write_journal(
    path: str, fd: int, file_size: int, data_offset: int, extents: Sequence[tuple[int, int]]
) -> None:
    """Write the complete journal of the open file `fd` at `path` durably.

    Parameters
    ----------
    path : str
        Path of the file, not of a link to it.
    fd : int
        Descriptor of the file, which is locked and has no journal.
    file_size, data_offset : int
        Size of the file in bytes, and offset of its first chunk.
    extents : sequence of (offset, nbytes)
        Ranges to save: the front, then entries of the offset table if they will be overwritten,
        then everything from some offset to the end of the file.
    """
    end = extents[-1][0] if len(extents) > 1 else file_size
    start, nbytes = fingerprint_extent(data_offset, end)
    fingerprint = xxh3_64_digest(pread(fd, nbytes, start)) if nbytes else NO_FINGERPRINT
    head, table = pack_journal_start(file_size, disk.identity(fd), fingerprint, extents)
    name = journal_path(path)
    journal = disk.create(name)
    try:
        # Every user who may write the file must be able to replay the journal.
        disk.set_mode(journal, stat.S_IMODE(os.fstat(fd).st_mode))
        digest = xxh3_64(head + table)
        position = JOURNAL_HEADER_SIZE
        pending: list[bytes] = [table]
        for block in _blocks(fd, extents):
            digest.update(block)
            pending.append(block)
            if sum(map(len, pending)) > _BLOCK_NBYTES:
                disk.write_at(journal, position, *pending)
                position += sum(map(len, pending))
                pending = []
        front = head + digest.digest()
        if position == JOURNAL_HEADER_SIZE:
            disk.write_at(journal, 0, front, *pending)
        else:
            # The front is written last because it holds the digest of everything else.
            disk.write_at(journal, position, *pending)
            disk.write_at(journal, 0, front)
        disk.sync(journal)
        disk.sync_folder(os.path.dirname(path))
    except BaseException:
        with suppress(OSError):  # harmless if it stays: the file has not been changed yet
            disk.unlink(name)
        raise
    finally:
        os.close(journal)


def remove_journal(path: str) -> None:
    """Remove the journal of the file at `path` durably, if it has one."""
    try:
        disk.unlink(journal_path(path))
    except OSError as err:
        if err.errno not in _NO_SUCH_FILE:
            raise
        return
    disk.sync_folder(os.path.dirname(path))


def find_journal(path: str, fd: int) -> tuple[int, Journal] | None:
    """Return the valid journal of the open file `fd` at `path`, or None.

    Returns
    -------
    journal_fd : int
        Descriptor of the journal; the caller closes it.
    journal : Journal
        Complete, with a correct digest, and belonging to this file.
    """
    try:
        journal_fd = os.open(journal_path(path), _JOURNAL_FLAGS)
    except OSError as err:
        if err.errno in (*_NO_SUCH_FILE, errno.ELOOP):
            return None
        raise
    try:
        journal = _read_journal(path, fd, journal_fd)
    except BaseException:
        os.close(journal_fd)
        raise
    if journal is None:
        os.close(journal_fd)
        return None
    return journal_fd, journal


def _read_journal(path: str, fd: int, journal_fd: int) -> Journal | None:
    status, target = os.fstat(journal_fd), os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return None
    start = pread(journal_fd, JOURNAL_START_NBYTES, 0)
    journal = unpack_journal(start, status.st_size)
    if journal is None:
        return None  # incomplete: the file was not changed
    live = pread(fd, HEADER_SIZE, 0)
    if not journal.fits(live) or not _is_of(journal, fd):
        if disk.is_named(fd, path):  # else it may belong to the file that replaced this one
            notice("%s: ignored the journal beside it, which belongs to another file", path)
        return None
    # In a folder that all users may write to, a user must not plant a journal for another's file.
    trusted = 0, target.st_uid, os.geteuid()
    if status.st_uid not in trusted and not target.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        notice("%s: ignored the journal beside it, which belongs to another user", path)
        return None
    digest = xxh3_64(start[: JOURNAL_HEADER_SIZE - 8])
    rest = (JOURNAL_HEADER_SIZE, status.st_size - JOURNAL_HEADER_SIZE)
    for block in _blocks(journal_fd, [rest]):
        digest.update(block)
    return journal if digest.digest() == journal.digest else None


def _is_of(journal: Journal, fd: int) -> bool:
    start, nbytes = journal.fingerprint_extent
    if not nbytes:
        return journal.identity == disk.identity(fd)
    return journal.fingerprint == xxh3_64_digest(pread(fd, nbytes, start))


def replay(path: str, fd: int, journal_fd: int, journal: Journal) -> None:
    """Restore the old content of a locked file and remove its journal.

    After a crash the journal is still there, and the next replay starts from the beginning.
    """
    for region in journal.regions:
        position = region.offset
        for block in _blocks(journal_fd, [(region.at, region.nbytes)]):
            disk.write_at(fd, position, block)
            position += len(block)
    # The spare entries are not in the journal, as all were unused: blocks that still are need no
    # write.
    position, _ = journal.spare_extent
    for block in _blocks(fd, [journal.spare_extent]):
        if block.count(b"\xff") != len(block):
            disk.write_at(fd, position, b"\xff" * len(block))
        position += len(block)
    disk.truncate(fd, journal.file_size)
    disk.sync(fd)
    remove_journal(path)


def resolve_journal(path: str, fd: int) -> bool:
    """Replay the journal of a locked file if it is valid, else remove it; return if replayed."""
    found = find_journal(path, fd)
    if found is None:
        remove_journal(path)
        return False
    with disk.closing(found[0]):
        replay(path, fd, *found)
    return True


def try_resolve_journal(path: str, fd: int) -> bool:
    """Replay the journal of a file that a reader has open as `fd`, if the writer is dead.

    Returns
    -------
    bool
        False if a writer has the file open, it cannot be written, or it was replaced.
    """
    try:
        writable = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if disk.identity(writable) != disk.identity(fd) or not try_lock(writable):
            return False
        try:
            # Checked after locking: a file that replaced this one may have a journal in use.
            if not disk.is_named(writable, path):
                return False
            resolve_journal(path, writable)
        except OSError:
            return False  # the journal remains
        finally:
            unlock(writable)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(writable)


def check_unlocked(path: str) -> None:
    """Raise LockedError if a writer has the file at `path` open; the file need not exist."""
    fd = _lock_current(path, -1, replays=False)
    if fd >= 0:
        os.close(fd)


@contextmanager
def replacing(path: str, locked_fd: int = -1) -> Iterator[None]:
    """Make sure that the file at `path`, not a link, can be replaced inside the block.

    Its journal is replayed. The file is then whole until it is replaced, and no journal is left
    that could be mistaken for one of the new file.

    Parameters
    ----------
    path : str
        The file; it need not exist.
    locked_fd : int
        Descriptor of the file if this process has it locked already, else -1.

    Raises
    ------
    LockedError
        A writer has the file open.
    """
    fd = _lock_current(path, locked_fd, replays=True)
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def locked_error(path: str | None) -> LockedError:
    """Return the error for a second writer."""
    return LockedError("another writer has the file open; only one at a time may write to it").at(
        path=path
    )


def _lock_current(path: str, locked_fd: int, *, replays: bool) -> int:
    """Return a descriptor that holds a shared lock, to be closed; -1 without a file to lock."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:  # a file that cannot be read has no appending writer of this user
            return -1
        except FileNotFoundError:
            if replays:
                remove_journal(path)
            return -1
        try:
            if locked_fd >= 0 and disk.identity(locked_fd) == disk.identity(fd):
                return fd  # closing it does not release the lock, which is of the other descriptor
            _lock_shared(path, fd)
            if replays and os.path.lexists(journal_path(path)):
                _resolve_by_path(path, fd)
            elif disk.is_named(fd, path):  # checked after locking: see `try_resolve_journal`
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    raise locked_error(path)


def _lock_shared(path: str, fd: int) -> None:
    try:
        is_locked = try_lock(fd, shared=True)
    except OSError as err:
        if err.errno not in NO_LOCKS:
            raise
        return
    if not is_locked:
        raise locked_error(path)


def _resolve_by_path(path: str, fd: int) -> None:
    """Resolve the journal of the file at `path`, of which this process has locked `fd`."""
    # Locks belong to descriptors, so the shared one would refuse the exclusive one of this process.
    with suppress(OSError):  # a file system without locks
        unlock(fd)
    with disk.closing(os.open(path, os.O_RDWR | os.O_CLOEXEC)) as writable:
        if is_locking() and not try_lock_for_writing(writable, path):
            raise locked_error(path)
        if disk.is_named(writable, path):
            resolve_journal(path, writable)


def _blocks(fd: int, extents: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    for offset, nbytes in extents:
        for start in range(offset, offset + nbytes, _BLOCK_NBYTES):
            yield pread(fd, min(_BLOCK_NBYTES, offset + nbytes - start), start)
