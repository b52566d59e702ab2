"""Locks of files: of one writer, of all who read a version, and whether they are wanted.

They belong to descriptors, and end with them. Tests replace these calls, as those of `disk`.
"""

import errno
import fcntl
import os
import signal
import sys
from struct import Struct

from .disk import UNSUPPORTED

LOCKING_VARIABLE = "BLOSCPACK_LOCKING"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def is_locking(locking: bool = True) -> bool:
    """Return whether writers lock their files; ``BLOSCPACK_LOCKING=0`` turns locking off."""
    if not isinstance(locking, bool):
        raise TypeError(f"locking must be True or False, not {locking!r:.80}")
    return locking and os.environ.get(LOCKING_VARIABLE, "1") != "0"


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file without waiting; return whether the lock was acquired.

    A shared lock excludes exclusive ones only.

    Raises
    ------
    OSError
        The file system has no locks; the errno is one of `NO_LOCKS`.
    """
    # Not lockf: its locks belong to the process, which would lose them when any reader in it closes
    # the file, and would not exclude a second writer in it.
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_lock_for_writing(fd: int, name: str | None) -> bool:
    """Lock a file for writing; on a file system without locks, the error says what to do."""
    try:
        return try_lock(fd)
    except OSError as err:
        if err.errno not in NO_LOCKS:
            err.filename = name
            raise
        raise OSError(
            err.errno,
            f"the file system cannot lock files ({err.strerror}); if no other program writes to "
            "this one, pass locking=False (bp.open, bp.Writer, bp.frames.create, bp.frames.open), "
            f"--no-locking on the command line, or set {LOCKING_VARIABLE}=0",
            name,
        ) from err


def is_only_opened(fd: int) -> bool:
    """Return whether no other descriptor or map of the file exists; False if nothing proves it.

    Linux grants a lease for writing only then. It ends at once.
    """
    if sys.platform != "linux":
        return False
    try:
        # A process that opens the file at the same time makes the system send this signal to us. It
        # is ignored by default; the one sent without this call would end the process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    return True


# First of the bytes that readers of versions lock, one byte each: far behind the end of any file.
_VERSIONS_AT = 1 << 61
_LOCK = Struct("hhqqi4x")  # of fcntl on 64-bit systems: type, whence, start, length, process


def hold_version(fd: int, version: int) -> bool:
    """Lock a version of a file until it is closed; return false if the system cannot.

    The lock belongs to the open file, so it is shared with forked children and excludes a writer in
    the same process.
    """
    return _lock_versions(fd, "F_OFD_SETLK", fcntl.F_RDLCK, version, 1) is not None


def versions_held(fd: int, stop: int) -> list[range] | None:
    """Return the versions before `stop` that other open files hold; None if it is not known."""
    found: list[range] = []
    spans = [range(stop)]
    while spans:
        span = spans.pop()
        if not span:
            continue
        lock = _lock_versions(fd, "F_OFD_GETLK", fcntl.F_WRLCK, span.start, len(span))
        if lock is None:
            return None
        if lock[0] != fcntl.F_UNLCK:
            first = max(lock[2] - _VERSIONS_AT, span.start)
            last = first + lock[3] if lock[3] else span.stop  # 0: to the end
            found.append(range(first, last))
            spans += range(span.start, first), range(last, span.stop)
    return found


def _lock_versions(
    fd: int, command: str, kind: int, first: int, count: int
) -> tuple[int, ...] | None:
    """Call fcntl with a lock of versions; None if the system has no such locks."""
    number = getattr(fcntl, command, None)
    if number is None:
        return None
    lock = _LOCK.pack(kind, os.SEEK_SET, _VERSIONS_AT + first, count, 0)
    try:
        return _LOCK.unpack(fcntl.fcntl(fd, number, lock))
    except OSError as err:
        if err.errno not in (errno.EOVERFLOW, *NO_LOCKS, *UNSUPPORTED):
            raise
        return None


def unlock(fd: int) -> None:
    """Release a lock, also for other descriptors of the same open file."""
    fcntl.flock(fd, fcntl.LOCK_UN)
