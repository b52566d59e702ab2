"""Sources for local files, pipes and Python file objects."""

import io
import mmap
import os
import stat
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import IO, Any
from weakref import WeakSet

from .._ext import resident
from ..format.filekind import HEAD_NBYTES, FileKind, kind_of, not_a_file
from ..types import AnyArray, IntArray
from . import lock
from .descriptor import Descriptor, data_runs, pread, pread_into, pread_more
from .journal import find_journal, journal_path, try_resolve_journal
from .memory import MemorySource
from .overlay import OverlaySource, Patch
from .protocol import ByteSource, closed_on_error
from .remote.source import RemotePlace, RemoteSource
from .url import is_url, refuse_options, refuse_text, shown_name
from .window import PartPlace

_NOTHING = memoryview(b"")
_CLOSED = "I/O operation on a closed file"


class FileSource(ByteSource):
    """Regular file, read with ``pread``: no shared position, so threads and forks are safe.

    `path` is absolute, so that a change of the working directory does not matter.
    """

    is_live = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        descriptor: Descriptor | None = None,
        *,
        is_link: bool | None = None,
    ) -> None:
        # Opening a small file costs mostly system calls, so no call is made twice.
        self.name: str | None = (name := path if type(path) is str else os.fsdecode(path))
        # Not normalised: after a symbolic link ".." is a different folder.
        self.path = name if name.startswith("/") else os.path.join(os.getcwd(), name)
        if is_link is None:
            is_link = os.path.islink(self.path)
        if descriptor is None:
            descriptor = Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._descriptor: Descriptor | None = descriptor
        # The journal is beside the file itself, not beside a link to it.
        self._real_path = os.path.realpath(self.path) if is_link else self.path
        self._map: memoryview | None = None
        self._note_stamp(descriptor)

    def _note_stamp(self, descriptor: Descriptor) -> None:
        status = os.fstat(descriptor)
        self.stamp = status.st_size, status.st_mtime_ns

    def _open_descriptor(self) -> Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            raise ValueError(_CLOSED)
        return descriptor

    def place(self, head_nbytes: int = 0) -> str:
        """Return the path."""
        return self.path

    def duplicate(self) -> "FileSource":
        """Return another source for the same open file, even if its name was removed."""
        copy = FileSource(self.path, self._open_descriptor())
        copy.name = self.name
        return copy

    def reopened(self) -> "FileSource":
        """Return another source for the same file, by its name if it still has that."""
        with suppress(OSError):
            again = FileSource(self.path)
            again.name = self.name
            if os.path.samestat(
                os.fstat(self._open_descriptor()), os.fstat(again._open_descriptor())
            ):
                return again
        return self.duplicate()

    def before_append(self, *, replays: bool) -> OverlaySource | None:
        """Return the file as its journal shows it; None without a journal."""
        descriptor = self._descriptor or self._open_descriptor()
        found = find_journal(self._real_path, descriptor)
        if found is None:
            return None
        journal_source = FileSource(journal_path(self._real_path), Descriptor(found[0]))
        journal = found[1]
        if replays and try_resolve_journal(self._real_path, descriptor):
            self._note_stamp(descriptor)
            return None
        patches = [
            Patch(region.offset, region.nbytes, journal_source, region.at)
            for region in journal.regions
        ]
        patches.append(Patch(*journal.spare_extent, None))
        return OverlaySource(self, patches, journal.file_size, owned=(self, journal_source))

    def has_unfinished_append(self) -> bool:
        """Return whether a writer is changing the file or died while changing it."""
        found = find_journal(self._real_path, self._descriptor or self._open_descriptor())
        if found is not None:
            os.close(found[0])
        return found is not None

    def is_changed(self) -> bool:
        """Return whether the file was written to since it was opened, or is being written to."""
        status = os.fstat(self._open_descriptor())
        return self.stamp != (status.st_size, status.st_mtime_ns) or self.has_unfinished_append()

    def replacement(self) -> "FileSource | None":
        """Return a source for the path if it now names a different file."""
        if os.path.samestat(os.fstat(self._open_descriptor()), os.stat(self.path)):
            return None
        source = FileSource(self.path)
        source.name = self.name
        return source

    def size(self) -> int:
        """Return the current size in bytes."""
        return os.fstat(self._descriptor or self._open_descriptor()).st_size

    def hold(self, sequence: int) -> bool:
        """Lock a version of a log."""
        return lock.hold_version(self._open_descriptor(), sequence)

    def data_runs(self, most: int) -> list[tuple[int, int]] | None:
        """Return the runs of data that the file system reports."""
        return data_runs(self._open_descriptor(), most)

    def read_at(self, offset: int, nbytes: int) -> bytes:
        """Return a copy; continue after a short read."""
        # This reference keeps the descriptor open during the read: see `Descriptor`.
        descriptor = self._descriptor or self._open_descriptor()
        data = os.pread(descriptor, nbytes, offset)  # as `pread`, but saves a call for each chunk
        if len(data) == nbytes:
            return data
        return pread_more(descriptor, nbytes, offset, data)

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset`; return the bytes read, fewer only at the end of the file."""
        # This reference keeps the descriptor open during the read: see `Descriptor`.
        descriptor = self._descriptor or self._open_descriptor()
        return pread_into(descriptor, view, offset)

    def map_at(self, offset: int, nbytes: int) -> memoryview:
        """Return a view of the mapped file; a map keeps the file open while views of it exist.

        Access to a view of bytes that are cut off the file later ends the process (SIGBUS).
        """
        descriptor = self._descriptor or self._open_descriptor()
        end = min(offset + nbytes, os.fstat(descriptor).st_size)
        return self._mapped(descriptor, end)[offset:end] if end > offset else _NOTHING

    def copy_cached(self, starts: IntArray, nbytes: int, out: memoryview | AnyArray) -> int:
        """Copy bytes from a map of the file, which takes less time than reading them."""
        descriptor = self._descriptor or self._open_descriptor()
        mapped = self._map
        if mapped is None:
            if not os.fstat(descriptor).st_size:
                return 0
            mapped = self._mapped(descriptor, 1)
        return resident.copy(descriptor, mapped, starts, nbytes, out)

    def _mapped(self, descriptor: Descriptor, end: int) -> memoryview:
        """Return a map of the whole file, of at least `end` bytes, which the file has."""
        mapped = self._map
        if mapped is None or len(mapped) < end:  # the file has grown
            # One map for all clips, as each holds a descriptor.
            mapped = self._map = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        return mapped

    def close(self) -> None:
        """Close the file once no thread reads from it; idempotent."""
        self._descriptor = self._map = None


class FileObjectSource(ByteSource):
    """Seekable binary file object of the caller; closing the source does not close it.

    A regular file is read by position, as in `FileSource`. For any other object, a lock makes
    each seek and read one step.
    """

    def __init__(self, fileobj: IO[bytes]) -> None:
        name = getattr(fileobj, "name", None)
        self.name: str | None = name if isinstance(name, str) else None
        self._file = fileobj
        self._is_regular = _is_regular(fileobj)
        self._lock = Lock()
        _LOCKED.add(self)

    def size(self) -> int:
        """Return the current size in bytes."""
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
        """Replace the lock, which another thread may have held at a fork."""
        self._lock = Lock()


# Sources whose locks are replaced in a forked child, which has no thread to unlock them.
_LOCKED: WeakSet[FileObjectSource] = WeakSet()


def _renew_locks() -> None:
    for source in _LOCKED:
        source.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


def _is_regular(fileobj: IO[bytes]) -> bool:
    """Return whether a file object reads a regular file without transforming its bytes.

    Other types may have a descriptor whose bytes differ from theirs: gzip decodes.
    """
    raw: object = fileobj
    if type(fileobj) is io.BufferedReader or type(fileobj) is io.BufferedRandom:
        raw = fileobj.raw
    if type(raw) is not io.FileIO or not raw.readable():
        return False
    if type(fileobj) is io.BufferedRandom:
        fileobj.flush()  # so that pread sees what the caller has written
    return stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def read_fully(stream: IO[bytes], nbytes: int) -> bytes:
    """Read `nbytes` from a stream, fewer only at its end; a pipe may return fewer each time."""
    data = stream.read(nbytes)
    if len(data) == nbytes or not data:
        return data
    parts = [data]
    missing = nbytes - len(data)
    while missing and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def kind_at(path: str | os.PathLike[str]) -> FileKind | None:
    """Return the kind of a local file by its first bytes alone; None if it is unknown."""
    with open(path, "rb") as stream:
        return kind_of(stream.read(HEAD_NBYTES))


def refuse_folder(path: str | os.PathLike[str]) -> None:
    """Raise IsAFolderError if `path` is a folder; the error suggests what it may contain."""
    if os.path.isdir(path):
        raise not_a_file(map(os.fsdecode, os.listdir(path))).at(path=path)


def _read_whole(path: str | os.PathLike[str]) -> MemorySource:
    """Read a pipe or a device into memory."""
    refuse_folder(path)
    with open(path, "rb") as stream:
        return MemorySource(stream.read())


@dataclass(frozen=True, slots=True)
class Place:
    """File, and the name of an array or a clip in it, which a caller writes behind ``::/``."""

    path: Any  # path, URL, or what else `open_source` opens
    inner: str = ""  # empty for the whole file

    @classmethod
    def of(cls, where: Any) -> "Place":
        """Return the place that a caller names.

        A file whose own name has ``::/`` in it is opened as it is. So is a chain of URLs that ends
        with the path of a zip or tar file: ``zip://part::/archive``.
        """
        if isinstance(where, Place):
            return where
        text = os.fspath(where) if isinstance(where, str | os.PathLike) else b""
        if not isinstance(text, str) or "::/" not in text:
            return cls(where)
        outer, _, inner = text.rpartition("::/")
        is_chain = outer.rpartition("::")[2].startswith(("zip://", "tar://", "libarchive://"))
        return cls(where) if is_chain or os.path.lexists(text) else cls(outer, inner)

    @property
    def whole(self) -> "Place":
        """Place of the whole file."""
        return Place(self.path)

    def __str__(self) -> str:
        return f"{self.path}::/{self.inner}" if self.inner else str(self.path)

    @property
    def shown(self) -> str:
        """Text for messages: a URL is shown without secrets."""
        return shown_name(str(self))


def open_source(where: Any, storage_options: Mapping[str, Any] | None = None) -> ByteSource:
    """Return a source for a path, a URL, a bytes-like object or a binary file object.

    A `ByteSource` is returned as it is, and a result of `ByteSource.place` is reopened.
    A pipe, a terminal or a non-seekable object cannot be read by position and is read into memory.

    Raises
    ------
    IsAFolderError
        `where` is a folder.
    OSError
        The file cannot be opened.
    TypeError
        `where` has another type.
    ValueError
        `storage_options` are given and `where` is not a URL.
    """
    if isinstance(where, str) and "://" in where and is_url(where):  # two calls less for a path
        return RemoteSource(where, storage_options)
    if isinstance(where, RemotePlace | PartPlace):
        return _reopened(where)
    if storage_options:
        refuse_options(where, storage_options)
    if isinstance(where, str | os.PathLike):
        try:
            linked = os.lstat(where).st_mode
        except FileNotFoundError as err:
            _explain_part(os.fsdecode(where), err)
            raise
        is_link = stat.S_ISLNK(linked)
        if stat.S_ISREG(os.stat(where).st_mode if is_link else linked):
            return FileSource(where, is_link=is_link)
        return _read_whole(where)
    return where if isinstance(where, ByteSource) else _open_object(where)


def _explain_part(path: str, err: FileNotFoundError) -> None:
    """Say in `err` how to open ``FILE::/NAME``, which names a part of a file to commands."""
    outer, mark, name = path.partition("::/")
    if not mark:
        return
    if os.path.lexists(outer):
        err.strerror = f"No such file: open {outer!r} and index the result with {name!r}"
    else:
        err.filename = outer


def _reopened(place: RemotePlace | PartPlace) -> ByteSource:
    """Return a source for a result of `ByteSource.place`."""
    if isinstance(place, RemotePlace):
        return place.open()
    whole = place.place
    # The part fetches what it needs, which is mostly not at the beginning of the object.
    source = (
        whole.open(fetches_head=False) if isinstance(whole, RemotePlace) else open_source(whole)
    )
    with closed_on_error(source, source.name):
        return place.open(source)


def _open_object(where: Any) -> ByteSource:
    """Return a source for a bytes-like object or a binary file object."""
    try:
        return MemorySource(where)  # first, because an mmap also has the methods of a file
    except TypeError as err:
        if not hasattr(where, "seekable"):  # not "read", which an open `Array` also has
            several = "; bloscpack.open_many opens several files" * isinstance(where, list | tuple)
            raise TypeError(
                f"expected a path, a bytes-like object or a binary file{several}: {err}"
            ) from None
    refuse_text(where)
    if not where.seekable():
        return MemorySource(where.read())
    return FileObjectSource(where)


def open_stable_source(where: Any) -> ByteSource:
    """Open a source as `open_source` does, but a file as it was before an unfinished append."""
    source = open_source(where)
    with closed_on_error(source):
        return source.before_append(replays=False) or source


# Runs of data that are recorded; everything after the last of them counts as data.
_MAX_RUNS = 1 << 16


class Holes:
    """Holes of a regular file, recorded when the object is created; other sources have none.

    `nbytes` is their size.
    """

    def __init__(self, source: ByteSource) -> None:
        runs = source.data_runs(_MAX_RUNS)
        size = source.size()
        self._starts = [0] if runs is None else [start for start, _ in runs]
        self._stops = [size] if runs is None else [stop for _, stop in runs]
        self._size = size
        self.nbytes = size - sum(self._stops) + sum(self._starts)

    def data_from(self, position: int) -> int:
        """Return the first position of data at or after `position`; the size without such data."""
        at = bisect_right(self._stops, position)
        if at == len(self._stops):
            return max(position, self._size)
        return max(position, self._starts[at])

    def data_before(self, position: int) -> int:
        """Return where the last data before `position` ends; 0 without such data."""
        at = bisect_right(self._starts, position - 1) - 1
        return min(position, self._stops[at]) if at >= 0 else 0
