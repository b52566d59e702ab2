"""Rollback journals on disk: written before a file is changed in place, replayed after a crash.

Order is all: the journal is whole and synced before the first change, and goes only when the last
one is synced. Whoever finds a journal that is whole and belongs to the file puts the old bytes
back, if the file can be locked at once (its writer is dead), or else reads around the changes.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from xxhash import xxh3_64, xxh3_64_digest, xxh3_64_hexdigest

from ..exceptions import LockedError, notice
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
from . import disk
from .descriptor import pread
from .disk import NO_LOCKS, is_locking, try_lock, try_lock_for_writing, unlock

_BLOCK_NBYTES = 1 << 20
_NO_SUCH_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# Neither led elsewhere by a link nor kept waiting by a pipe of this name.
_JOURNAL_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# Bytes that a name may have on Linux and macOS.
_MAX_NAME_NBYTES = 255


def journal_path(path: str) -> str:
    """Return where the journal of the file at `path`, no link, is.

    Where its name would be too long, a digest of the name stands for it.
    """
    folder, name = os.path.split(path)
    encoded = os.fsencode(name)
    if len(encoded) + len(JOURNAL_SUFFIX) > _MAX_NAME_NBYTES:
        return os.path.join(folder, f".bloscpack-{xxh3_64_hexdigest(encoded)}{JOURNAL_SUFFIX}")
    return path + JOURNAL_SUFFIX


def write_journal(
    path: str, fd: int, file_size: int, data_offset: int, extents: Sequence[tuple[int, int]]
) -> None:
    """Write the journal of the open file `fd` at `path`, whole and durable.

    Parameters
    ----------
    path : str
        Of the file; no link.
    fd : int
        The file, locked, without a journal.
    file_size, data_offset : int
        Its size, and where its first chunk starts.
    extents : sequence of (offset, nbytes)
        What to keep: the front, then everything from some offset to the end of the file.
    """
    end = extents[1][0] if len(extents) > 1 else file_size
    start, nbytes = fingerprint_extent(data_offset, end)
    fingerprint = xxh3_64_digest(pread(fd, nbytes, start)) if nbytes else NO_FINGERPRINT
    head, table = pack_journal_start(file_size, disk.identity(fd), fingerprint, extents)
    name = journal_path(path)
    journal = disk.create(name)
    try:
        # Whoever may write the file must be able to replay.
        disk.set_mode(journal, stat.S_IMODE(os.fstat(fd).st_mode))
        digest = xxh3_64(head + table)
        position = JOURNAL_HEADER_SIZE
        kept: list[bytes] = [table]
        for block in _blocks(fd, extents):
            digest.update(block)
            kept.append(block)
            if sum(map(len, kept)) > _BLOCK_NBYTES:
                disk.write_at(journal, position, *kept)
                position += sum(map(len, kept))
                kept = []
        front = head + digest.digest()
        if position == JOURNAL_HEADER_SIZE:
            disk.write_at(journal, 0, front, *kept)
        else:
            disk.write_at(journal, position, *kept)
            disk.write_at(journal, 0, front)
        disk.sync(journal)
        disk.sync_folder(os.path.dirname(path))
    except BaseException:
        with suppress(OSError):  # it is not whole, or the file not changed: no harm is done
            disk.unlink(name)
        raise
    finally:
        os.close(journal)


def remove_journal(path: str) -> None:
    """Remove the journal of the file at `path`, durably; there may be none."""
    try:
        disk.unlink(journal_path(path))
    except OSError as err:
        if err.errno not in _NO_SUCH_FILE:
            raise
        return
    disk.sync_folder(os.path.dirname(path))


def find_journal(path: str, fd: int) -> tuple[int, Journal] | None:
    """Return the journal of the open file `fd` at `path`, None if there is none that matters.

    Returns
    -------
    journal_fd : int
        The open journal, to be closed.
    journal : Journal
        Whole, its digest compared, and of this file.
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
        return None  # not whole: the file was not touched
    live = pread(fd, HEADER_SIZE, 0)
    if not journal.fits(live) or not _is_of(journal, fd):
        notice("%s: the journal beside it is of another file and ignored", path)
        return None
    # In a folder where anybody may make files, nobody makes a journal for somebody else's file.
    trusted = 0, target.st_uid, os.geteuid()
    if status.st_uid not in trusted and not target.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        notice("%s: the journal beside it is of another user and ignored", path)
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
    """Put the file back as it was and remove the journal; the file is locked.

    A crash on the way leaves the journal, and the next replay does it all again.
    """
    for region in journal.regions:
        position = region.offset
        for block in _blocks(journal_fd, [(region.at, region.nbytes)]):
            disk.write_at(fd, position, block)
            position += len(block)
    position, _ = journal.spare_extent
    for block in _blocks(fd, [journal.spare_extent]):
        if block.count(b"\xff") != len(block):
            disk.write_at(fd, position, b"\xff" * len(block))
        position += len(block)
    disk.truncate(fd, journal.file_size)
    disk.sync(fd)
    remove_journal(path)


def settle(path: str, fd: int) -> bool:
    """Replay the journal of a locked file, or remove one without meaning; return if it was one."""
    found = find_journal(path, fd)
    if found is None:
        remove_journal(path)
        return False
    try:
        replay(path, fd, *found)
    finally:
        os.close(found[0])
    return True


def try_settle(path: str, fd: int) -> bool:
    """Replay the journal of the file that a reader has open as `fd`, if its writer is dead.

    Returns
    -------
    bool
        False if the file has a writer, or cannot be written, or is another one by now.
    """
    try:
        writable = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if disk.identity(writable) != disk.identity(fd) or not try_lock(writable):
            return False
        try:
            settle(path, writable)
        except OSError:
            return False  # the journal is still there
        finally:
            unlock(writable)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(writable)


def check_unlocked(path: str) -> None:
    """Check that no writer has the file at `path` open; it need not exist.

    Raises
    ------
    LockedError
        One has.
    """
    with replacing(path, settles=False):
        pass


@contextmanager
def replacing(path: str, held: int = -1, *, settles: bool = True) -> Iterator[None]:
    """Make sure that the file at `path`, no link, can be replaced inside of the block.

    Parameters
    ----------
    path : str
        The file; it need not exist.
    held : int
        Descriptor of the file if it is locked already.
    settles : bool
        Replay its journal, so that it is whole until it is replaced, and no journal stays behind
        that could be taken for one of the new file.

    Raises
    ------
    LockedError
        A writer has the file open.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # whoever may write but not read it appends to nothing
        yield
        return
    except FileNotFoundError:
        if settles:
            remove_journal(path)
        yield
        return
    try:
        if held < 0 or disk.identity(held) != disk.identity(fd):
            _lock_shared(path, fd)
            if settles and os.path.lexists(journal_path(path)):
                _settle_by_path(path, fd)
        yield
    finally:
        os.close(fd)


def locked_error(path: str | None) -> LockedError:
    """Return the error that a second writer gets."""
    err = LockedError("another writer has the file open; one at a time may write to it")
    err.path = path
    return err


def _lock_shared(path: str, fd: int) -> None:
    try:
        if not try_lock(fd, shared=True):
            raise locked_error(path)
    except LockedError:
        raise
    except OSError as err:
        if err.errno not in NO_LOCKS:
            raise


def _settle_by_path(path: str, fd: int) -> None:
    with suppress(OSError):  # where there are no locks
        unlock(fd)
    writable = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if is_locking() and not try_lock_for_writing(writable, path):
            raise locked_error(path)
        settle(path, writable)
    finally:
        os.close(writable)
    _lock_shared(path, fd)


def _blocks(fd: int, extents: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    for offset, nbytes in extents:
        for start in range(offset, offset + nbytes, _BLOCK_NBYTES):
            yield pread(fd, min(_BLOCK_NBYTES, offset + nbytes - start), start)
