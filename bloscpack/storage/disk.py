"""All system calls that change a file or a folder, one function each.

Every write goes through this module, so that tests can stop, shorten or lose it at each step
(`tests/faults`). The module knows no file format.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from ..exceptions import BloscpackError
from ..parallel.imports import importing
from ..types import BytesLike

# On macOS, fsync leaves bytes in the cache of the drive; F_FULLFSYNC flushes it.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
# The file system does not implement the call.
UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY)
_COPY_NBYTES = 1 << 20
# Modes of fallocate, and the size of a block of most file systems.
_KEEP_SIZE, _PUNCH_HOLE, _BLOCK_NBYTES = 1, 2, 4096
_START_WRITING = 2  # mode of sync_file_range: SYNC_FILE_RANGE_WRITE
# Buffers per pwritev: Linux and macOS take 1024; POSIX guarantees 16.
_MAX_PARTS = 16


class naming:  # noqa: N801 - a class, as each write enters one, and generators take longer
    """Context that sets the file name of each OSError to `name`, the name the caller knows."""

    __slots__ = ("_name",)

    def __init__(self, name: str | None) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, err: BaseException | None, _: object) -> None:
        if self._name is None or isinstance(err, BloscpackError):
            return
        if isinstance(err, OSError) and err.errno is not None:
            err.filename = self._name
            del err.filename2  # None would be shown, too


def name_of_temporary() -> str:
    """Return the name of temporary files in errors: their folder, as that is the disk that is full.

    It is asked for before one is made, so that `tempfile` need not look for the folder then.
    """
    return f"temporary file in {temporary_folder()}"


def temporary_folder() -> str:
    """Return the folder of temporary files.

    `tempfile` holds a lock while it looks for the folder the first time, and a child forked then
    would wait for it forever. Forks wait until `importing` is free, so that guards it.
    """
    with importing:  # loaded on use: 3 ms, and rarely needed
        from tempfile import gettempdir

        return gettempdir()


def make_temporary_folder(parent: str | os.PathLike[str] | None = None, prefix: str = "tmp") -> str:
    """Create a folder with a new name, by default in `temporary_folder`, and return its path."""
    with importing:  # as in `temporary_folder`: names are made under the same lock
        from tempfile import mkdtemp

        return mkdtemp(prefix=prefix, dir=parent)


def create(path: str) -> int:
    """Create a file and return its descriptor, open for reading and writing.

    Raises
    ------
    FileExistsError
        The file exists.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def write_at(fd: int, offset: int, *parts: BytesLike) -> None:
    """Write `parts` one after the other from `offset` on; raise OSError unless all are written."""
    total = sum(map(len, parts))
    if not total:
        return
    if len(parts) == 1 or len(parts) > _MAX_PARTS or not hasattr(os, "pwritev"):
        data: BytesLike = parts[0] if len(parts) == 1 else b"".join(parts)
        done = os.pwrite(fd, data, offset)
    else:
        done = os.pwritev(fd, parts, offset)
        data = b"" if done == total else b"".join(parts)
    # A short write means a full disk, a limit or a signal: the next call raises the reason.
    while done < total:
        step = os.pwrite(fd, memoryview(data)[done:], offset + done)
        if not step:  # else the loop would not end
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        done += step


def copy_range(source: int, source_offset: int, target: int, offset: int, nbytes: int) -> None:
    """Copy `nbytes` from one file to another, inside the kernel if possible.

    Raises
    ------
    OSError
        The source ends early, or the target cannot be written.
    """
    copy = getattr(os, "copy_file_range", None)
    while nbytes:
        step = 0
        if copy is not None:
            # File systems and sandboxes refuse it with many error numbers. The plain copy meets
            # real problems too, such as a full disk.
            with suppress(OSError):
                step = copy(source, target, nbytes, source_offset, offset)
            if not step:  # refused, or the source has ended, which the plain copy reports
                copy = None
                continue
        else:
            data = os.pread(source, min(nbytes, _COPY_NBYTES), source_offset)
            if not data:
                raise OSError(errno.EIO, "the file ended while it was being copied")
            write_at(target, offset, data)
            step = len(data)
        source_offset += step
        offset += step
        nbytes -= step


def truncate(fd: int, size: int) -> None:
    """Set the size of a file in bytes."""
    os.ftruncate(fd, size)


def punch(fd: int, offset: int, nbytes: int) -> None:
    """Give the space of whole blocks back to the file system, if it can: they become zeros."""
    first = -(-offset // _BLOCK_NBYTES) * _BLOCK_NBYTES
    stop = (offset + nbytes) // _BLOCK_NBYTES * _BLOCK_NBYTES
    if stop <= first or sys.platform != "linux":
        return
    ctypes, libc = _system_library()
    # glibc has both, and only this one takes 64 bits on every machine; musl has only the other.
    fallocate = getattr(libc, "fallocate64", libc.fallocate)
    start, count = ctypes.c_int64(first), ctypes.c_int64(stop - first)
    if fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, start, count):
        error = ctypes.get_errno()
        if error not in UNSUPPORTED:
            raise OSError(error, os.strerror(error))


@cache
def _system_library() -> tuple[Any, Any]:
    """Return `ctypes` and the C library, for calls that Python does not have."""
    with importing:  # on use: few writers need it
        import ctypes

    return ctypes, ctypes.CDLL(None, use_errno=True)


def set_mode(fd: int, mode: int) -> None:
    """Set the permissions of a file, if the file system has permissions."""
    _if_possible(os.fchmod, fd, mode)


def set_owner(fd: int, status: os.stat_result) -> None:
    """Give a file the group and the owner in `status`, each if this process may do so."""
    _if_possible(os.fchown, fd, -1, status.st_gid)
    _if_possible(os.fchown, fd, status.st_uid, -1)


def _if_possible(change: Callable[..., None], *arguments: int) -> None:
    try:
        change(*arguments)
    except OSError as err:
        if err.errno not in (errno.EPERM, errno.EACCES, *UNSUPPORTED):
            raise


def set_times(fd: int, status: os.stat_result) -> None:
    """Give a file the times in `status`."""
    os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))


def start_sync(fd: int, offset: int, nbytes: int) -> None:
    """Let the system begin to write bytes to the drive, if it can; only `sync` reports errors."""
    if sys.platform != "linux":
        return
    ctypes, libc = _system_library()
    start = getattr(libc, "sync_file_range", None)
    if start is not None:
        start(fd, ctypes.c_int64(offset), ctypes.c_int64(nbytes), _START_WRITING)


def sync(fd: int) -> None:
    """Make the content of a file durable: on the drive, not in the cache of the drive."""
    _sync(fd, getattr(os, "fdatasync", os.fsync))  # its times need not be


def _sync(fd: int, call: Callable[[int], None]) -> None:
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError as err:
            if err.errno not in UNSUPPORTED:
                raise
        else:
            return
    call(fd)


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Yield a descriptor, and close it after the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    """Make creations, renames and removals in `folder` durable, if the system can."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # a folder that can be written but not read cannot be opened to sync
        return
    try:
        _sync(fd, os.fsync)
    except OSError as err:
        # Some network file systems do not implement it, and nothing can replace it.
        if err.errno not in UNSUPPORTED:
            err.filename = folder
            raise
    finally:
        os.close(fd)


def tag_of(path: str | os.PathLike[str]) -> str:
    """Return a string that identifies the file that has the name now; "" if none has."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def target_of(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a file to write, with links resolved.

    Raises
    ------
    IsADirectoryError
        The name ends with a slash.
    """
    name = os.fsdecode(path)
    if name.endswith(os.sep):
        raise IsADirectoryError(
            errno.EISDIR, "the name ends with a slash, so it names a folder, not a file", name
        )
    return os.path.realpath(name)


def exists_already(name: str) -> FileExistsError:
    """Return the error for a file that may not be replaced, which names the option."""
    return FileExistsError(f"{name!r} exists already; pass overwrite=True to replace it")


def replace(source: str, target: str) -> None:
    """Rename a file, replacing `target` if it exists."""
    os.replace(source, target)


def rename_new(source: str, target: str) -> None:
    """Rename a file to a name that must not exist.

    Raises
    ------
    FileExistsError
        The name exists.
    """
    try:
        os.link(source, target)  # unlike a rename, it never replaces a file
    except FileExistsError:
        raise exists_already(target) from None
    except OSError as err:
        # File systems without hard links, such as FAT, refuse with one of these.
        if err.errno not in (errno.EPERM, errno.EACCES, errno.EMLINK, *UNSUPPORTED):
            raise
        if os.path.lexists(target):
            raise exists_already(target) from None
        os.replace(source, target)
    else:
        os.unlink(source)


def move(source: str, target: str, *, overwrite: bool) -> None:
    """Rename a file; without `overwrite`, FileExistsError if the name exists."""
    rename = replace if overwrite else rename_new
    rename(source, target)


def unlink(path: str) -> None:
    """Remove a file."""
    os.unlink(path)


def make_folder(path: str, mode: int = 0o777) -> None:
    """Create a folder; the umask restricts its permissions further.

    Raises
    ------
    FileExistsError
        The name exists.
    """
    os.mkdir(path, mode)


@contextmanager
def vanishing(path: str) -> Iterator[str]:
    """Yield a path; remove the file or folder there after the block."""
    try:
        yield path
    finally:
        if os.path.isdir(path):
            with importing:  # on use: it takes milliseconds to load
                from shutil import rmtree

            rmtree(path)
        elif os.path.lexists(path):
            unlink(path)


def remove_folder(path: str) -> None:
    """Remove an empty folder."""
    os.rmdir(path)


def identity(fd: int) -> tuple[int, int]:
    """Return the inode and the device of a file, which together identify it."""
    status = os.fstat(fd)
    return status.st_ino, status.st_dev


def is_named(fd: int, path: str) -> bool:
    """Return whether `path` names the open file, which may have been replaced or removed."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
