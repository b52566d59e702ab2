"""Every call that changes a file or a folder, one function each.

Whatever writes goes through here, so that tests can stop it, cut it short or lose it at each step
(`tests/faults`). Nothing here knows what the bytes mean.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..exceptions import BloscpackError
from ..types import BytesLike

# Of macOS, where fsync leaves bytes in the memory of the drive.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
# The call is not there for files of this file system.
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY)
_COPY_NBYTES = 1 << 20
# How many buffers one call takes: 1024 on Linux and macOS; POSIX promises 16.
_MAX_PARTS = 16


@contextmanager
def naming(name: str | None) -> Iterator[None]:
    """Put the name of a file, as the caller knows it, into each OSError of the block."""
    try:
        yield
    except BloscpackError:
        raise
    except OSError as err:
        if name is not None and err.errno is not None:
            err.filename, err.filename2 = name, None
        raise


def create(path: str) -> int:
    """Make a new file and return its descriptor, for reading and writing.

    Raises
    ------
    FileExistsError
        There is one of this name.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def write_at(fd: int, offset: int, *parts: BytesLike) -> None:
    """Write `parts` one behind the other from `offset` on; all of them, or an OSError comes."""
    total = sum(map(len, parts))
    if not total:
        return
    if len(parts) == 1 or len(parts) > _MAX_PARTS or not hasattr(os, "pwritev"):
        data: BytesLike = parts[0] if len(parts) == 1 else b"".join(parts)
        done = os.pwrite(fd, data, offset)
    else:
        done = os.pwritev(fd, parts, offset)
        data = b"" if done == total else b"".join(parts)
    while done < total:  # a full disk, a limit or a signal cuts it short: the next call tells
        step = os.pwrite(fd, memoryview(data)[done:], offset + done)
        if not step:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        done += step


def copy_range(source: int, source_offset: int, target: int, offset: int, nbytes: int) -> None:
    """Copy `nbytes` from one file to another, within the system where it can.

    Raises
    ------
    OSError
        The source ends early, or the target cannot be written.
    """
    copy = getattr(os, "copy_file_range", None)
    while nbytes:
        step = 0
        if copy is not None:
            # File systems refuse it with many numbers, and so do sandboxes. What is really wrong,
            # such as a full disk, the plain copy meets too.
            with suppress(OSError):
                step = copy(source, target, nbytes, source_offset, offset)
            if not step:
                copy = None
                continue
        else:
            data = os.pread(source, min(nbytes, _COPY_NBYTES), source_offset)
            if not data:
                raise OSError(errno.EIO, "the file ended while it was copied")
            write_at(target, offset, data)
            step = len(data)
        source_offset += step
        offset += step
        nbytes -= step


def truncate(fd: int, size: int) -> None:
    """Make a file so long."""
    os.ftruncate(fd, size)


def set_mode(fd: int, mode: int) -> None:
    """Set the permissions of a file, where the file system has any to set."""
    try:
        os.fchmod(fd, mode)
    except OSError as err:
        if err.errno not in (errno.EPERM, errno.EACCES, *_UNSUPPORTED):
            raise


def sync(fd: int) -> None:
    """Make what was written to a file durable: on the drive, not in its memory."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError as err:
            if err.errno not in _UNSUPPORTED:
                raise
        else:
            return
    os.fsync(fd)


def sync_folder(folder: str) -> None:
    """Make what was created, renamed and removed in `folder` durable, where the system can."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # it may be written to but not read: nothing opens it
        return
    try:
        sync(fd)
    except OSError as err:
        # Some network file systems have no such call; there is nothing better to do.
        if err.errno not in _UNSUPPORTED:
            err.filename = folder
            raise
    finally:
        os.close(fd)


def replace(source: str, target: str) -> None:
    """Rename a file, over another one if that is there."""
    os.replace(source, target)


def unlink(path: str) -> None:
    """Remove a file."""
    os.unlink(path)


def make_folder(path: str) -> None:
    """Make a folder.

    Raises
    ------
    FileExistsError
        There is something of this name.
    """
    os.mkdir(path)


def remove_folder(path: str) -> None:
    """Remove an empty folder."""
    os.rmdir(path)


def identity(fd: int) -> tuple[int, int]:
    """Return the inode and the device of a file, which two files never share."""
    status = os.fstat(fd)
    return status.st_ino, status.st_dev


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
