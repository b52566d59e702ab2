"""Bytes in local files, pipes and Python file objects."""

import io
import os
import stat
from bisect import bisect_right
from collections.abc import Mapping
from threading import Lock
from typing import IO, Any, Protocol, runtime_checkable
from weakref import WeakSet

from ..exceptions import closed_on_error
from ..format.filekind import not_a_file
from .descriptor import Descriptor, data_runs, pread, pread_into, pread_more
from .journal import check_unlocked, find_journal, journal_path, try_settle
from .memory import MemorySource
from .overlay import OverlaySource, Patch
from .protocol import ByteSource
from .remote.source import RemotePlace, RemoteSource
from .url import is_url, refuse_options

_CLOSED = "I/O operation on a closed file"


class FileSource:
    """A regular file, read with ``pread``: no shared position, so threads and forks are safe.

    Attributes
    ----------
    path : str
        Where it is, whatever becomes of the working directory.
    stamp : tuple of int
        Its size in bytes and its time of modification in ns when it was opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        descriptor: Descriptor | None = None,
        *,
        is_link: bool | None = None,
    ) -> None:
        # What opening small files costs is mostly calls: there are no more than needed.
        self.name: str | None = (name := path if type(path) is str else os.fsdecode(path))
        # Not normalised: behind a symbolic link ".." is another folder.
        self.path = name if name.startswith("/") else os.path.join(os.getcwd(), name)
        if is_link is None:
            is_link = os.path.islink(self.path)
        if descriptor is None:
            flags = os.O_RDONLY | os.O_CLOEXEC
            descriptor = Descriptor(os.open(path, flags))
        self._descriptor: Descriptor | None = descriptor
        # The journal lies beside the file, not beside a link to it.
        self._real_path = os.path.realpath(self.path) if is_link else self.path
        self._note_stamp(descriptor)

    def _note_stamp(self, descriptor: Descriptor) -> None:
        status = os.fstat(descriptor.number)
        self.stamp = status.st_size, status.st_mtime_ns

    def _open_descriptor(self) -> Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            raise ValueError(_CLOSED)
        return descriptor

    def duplicate(self) -> "FileSource":
        """Return another source for the same open file, even if its name is gone."""
        copy = FileSource(self.path, self._open_descriptor())
        copy.name = self.name
        return copy

    def settled(self, *, replays: bool) -> "OverlaySource | None":
        """Return the file as it was before an append that has not ended; None if there is none.

        With `replays` the append of a dead writer is rolled back in the file, if possible.
        """
        descriptor = self._open_descriptor()
        found = find_journal(self._real_path, descriptor.number)
        if found is None:
            return None
        kept = FileSource(journal_path(self._real_path), Descriptor(found[0]))
        journal = found[1]
        if replays and try_settle(self._real_path, descriptor.number):
            self._note_stamp(descriptor)
            return None
        patches = [
            Patch(region.offset, region.nbytes, kept, region.at) for region in journal.regions
        ]
        patches.append(Patch(*journal.spare_extent, None))
        return OverlaySource(self, patches, journal.file_size, owned=(self, kept))

    def has_journal(self) -> bool:
        """Return whether a writer is changing the file, or died while it did."""
        found = find_journal(self._real_path, self._open_descriptor().number)
        if found is not None:
            os.close(found[0])
        return found is not None

    def is_changed(self) -> bool:
        """Return whether somebody has written to the file since it was opened, or is at it."""
        status = os.fstat(self._open_descriptor().number)
        return self.stamp != (status.st_size, status.st_mtime_ns) or self.has_journal()

    def is_replaced(self) -> bool:
        """Return whether the path leads to another file by now."""
        number = self._open_descriptor().number
        return not os.path.samestat(os.fstat(number), os.stat(self.path))

    def size(self) -> int:
        """Return the current size of the file."""
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._open_descriptor()
        return os.fstat(descriptor.number).st_size

    def data_runs(self, most: int) -> list[tuple[int, int]] | None:
        """Return where there are data, (start, stop) each; None if that is not known.

        Of more runs than `most` the last one reaches to the end.
        """
        return data_runs(self._open_descriptor().number, most)

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """Return a copy; a read that the system cuts short is continued."""
        # Held while it is read from: see `Descriptor`.
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._open_descriptor()
        data = os.pread(descriptor.number, nbytes, offset)
        if len(data) == nbytes:
            return data
        return pread_more(descriptor.number, nbytes, offset, data)

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset` and return how much of it was, less only at the end."""
        # Held while it is read from: see `Descriptor`.
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._open_descriptor()
        return pread_into(descriptor.number, view, offset)

    def close(self) -> None:
        """Close the file as soon as no thread reads from it; idempotent."""
        self._descriptor = None


class FileObjectSource:
    """A seekable binary file object of the caller, which closing the source does not close.

    A regular file is read by position, as by `FileSource`. With any other object a lock makes
    each seek-and-read one step.
    """

    def __init__(self, fileobj: IO[bytes]) -> None:
        name = getattr(fileobj, "name", None)
        self.name: str | None = name if isinstance(name, str) else None
        self._file = fileobj
        self._is_regular = _is_regular(fileobj)
        self._lock = Lock()
        _LOCKED.add(self)

    def size(self) -> int:
        """Return the position of the end."""
        if self._is_regular:
            return os.fstat(self._file.fileno()).st_size
        with self._lock:
            return self._file.seek(0, os.SEEK_END)

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """Return a copy."""
        if self._is_regular:
            return pread(self._file.fileno(), nbytes, offset)
        with self._lock:
            self._file.seek(offset)
            return read_fully(self._file, nbytes)

    def renew_lock(self) -> None:
        """Make a new lock."""
        self._lock = Lock()

    def close(self) -> None:
        """Do nothing: the file object is the caller's."""


# Sources with locks that a forked child must not find locked: it has no thread to unlock them.
_LOCKED: WeakSet[FileObjectSource] = WeakSet()


def _renew_locks() -> None:
    for source in _LOCKED:
        source.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


def _is_regular(fileobj: IO[bytes]) -> bool:
    """Return whether a file object is just a regular file, with nothing between.

    Other types may have a descriptor too, and other bytes than it: gzip's are decoded.
    """
    raw: object = fileobj
    if type(fileobj) is io.BufferedReader or type(fileobj) is io.BufferedRandom:
        raw = fileobj.raw
    if type(raw) is not io.FileIO or not raw.readable():
        return False
    if type(fileobj) is io.BufferedRandom:
        fileobj.flush()  # what the caller has written is to be read
    return stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def read_fully(stream: IO[bytes], nbytes: int) -> bytes:
    """Read `nbytes` from a stream, less only at its end: a pipe gives what it has."""
    data = stream.read(nbytes)
    if len(data) == nbytes or not data:
        return data
    parts = [data]
    missing = nbytes - len(data)
    while missing and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def refuse_folder(path: str | os.PathLike[str]) -> None:
    """Raise IsAFolderError where a file is expected; the error lists what is in the folder."""
    if os.path.isdir(path):
        error = not_a_file(map(os.fsdecode, os.listdir(path)))
        error.path = os.fsdecode(path)
        raise error


def _read_whole(path: str | os.PathLike[str]) -> MemorySource:
    """Read a pipe or a device."""
    refuse_folder(path)
    with open(path, "rb") as stream:
        return MemorySource(stream.read())


def open_source(where: Any, storage_options: Mapping[str, Any] | None = None) -> ByteSource:
    """Return a source for a path, a URL, a bytes-like object or a binary file object.

    What cannot be read by position (a pipe, a terminal, a non-seekable object) is read to memory.

    Raises
    ------
    IsAFolderError
        `where` is a folder.
    OSError
        The file cannot be opened.
    TypeError
        `where` is none of these.
    ValueError
        `storage_options`, which are for a URL, with anything else.
    """
    if is_url(where):
        return RemoteSource(where, storage_options)
    if isinstance(where, RemotePlace):
        return where.open()
    if isinstance(where, RemoteSource):
        return where
    refuse_options(where, storage_options)
    if isinstance(where, str | os.PathLike):
        mode = os.lstat(where).st_mode
        is_link = stat.S_ISLNK(mode)
        if is_link:
            mode = os.stat(where).st_mode
        if stat.S_ISREG(mode):
            return FileSource(where, is_link=is_link)
        return _read_whole(where)
    try:
        return MemorySource(where)  # first: an mmap can be read like a file, too
    except TypeError as err:
        if not hasattr(where, "seekable"):  # an open `Array` has "read", too
            raise TypeError(
                f"expected a path, a bytes-like object or a binary file: {err}"
            ) from None
    if not where.seekable():
        return MemorySource(where.read())
    return FileObjectSource(where)


def open_settled_source(
    where: Any, storage_options: Mapping[str, Any] | None = None, *, replays: bool = False
) -> ByteSource:
    """Return a source as `open_source` does, of a file as it was before an unfinished append.

    With `replays` the append of a dead writer is rolled back in the file.

    Raises
    ------
    LockedError
        The file is to be written (`replays`), and a writer has it open.
    """
    source = open_source(where, storage_options)
    if not isinstance(source, FileSource):
        return source
    with closed_on_error(source):
        if replays:
            check_unlocked(os.path.realpath(source.path))
        return source.settled(replays=replays) or source


# Runs of data that are noted; what lies behind so many is taken for data.
_MAX_RUNS = 1 << 16


@runtime_checkable
class SparseSource(Protocol):
    """A source that knows where its holes are."""

    def data_runs(self, most: int) -> list[tuple[int, int]] | None:
        """Return where there are data, (start, stop) each; None if that is not known."""
        ...


class Holes:
    """The holes of a file as they were when it was first searched.

    Parameters
    ----------
    source : ByteSource
        What is searched; only regular files have holes.
    """

    def __init__(self, source: ByteSource) -> None:
        runs = source.data_runs(_MAX_RUNS) if isinstance(source, SparseSource) else None
        size = source.size()
        self._starts = [0] if runs is None else [start for start, _ in runs]
        self._stops = [size] if runs is None else [stop for _, stop in runs]
        self._size = size

    def data_from(self, position: int) -> int:
        """Return the first position of data from `position` on; the size if there is none."""
        at = bisect_right(self._stops, position)
        if at == len(self._stops):
            return max(position, self._size)
        return max(position, self._starts[at])

    def data_before(self, position: int) -> int:
        """Return where the last data before `position` end; 0 if there are none."""
        at = bisect_right(self._starts, position - 1) - 1
        return min(position, self._stops[at]) if at >= 0 else 0
