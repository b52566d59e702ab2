"""Advisory locks: one writer to a file at a time.

A lock belongs to the open file, not to the process: it goes when the file is closed by everyone
who has it, a killed process included. Readers take none.

Some file systems have no locks (Lustre without ``-o flock``, NFS without a lock daemon, FUSE).
Writers refuse such files, since two of them could damage one, unless they are told not to lock.
"""

import errno
import fcntl
import os

LOCKING_VARIABLE = "BLOSCPACK_LOCKING"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def is_locking() -> bool:
    """Return whether writers lock their files: not if ``BLOSCPACK_LOCKING`` is 0."""
    return os.environ.get(LOCKING_VARIABLE, "1") != "0"


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file and return whether that was possible at once.

    A shared lock keeps out exclusive ones only.

    Raises
    ------
    OSError
        The file system has no locks; its number is one of `NO_LOCKS`.
    """
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_lock_for_writing(fd: int, name: str | None) -> bool:
    """Lock a file that is to be written; the error for a file system without locks has advice."""
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


def unlock(fd: int) -> None:
    """Give a lock back, for all who share the open file."""
    fcntl.flock(fd, fcntl.LOCK_UN)
