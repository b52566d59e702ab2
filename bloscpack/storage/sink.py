"""Sinks for new bytes: a file that appears whole, a part file, a stream, an object at a URL."""

import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from ..exceptions import BloscpackError
from ..parallel.imports import importing
from ..types import BytesLike
from . import disk
from .journal import check_unlocked, replacing
from .newfile import NewFile, make_like, temporary_path
from .protocol import ByteSink
from .url import is_url, refuse_options, refuse_text

if TYPE_CHECKING:
    from .remote.upload import Upload

Sink = TypeVar("Sink", bound=ByteSink)

_BLOCK_NBYTES = 1 << 20
_PERMISSIONS = 0o777  # without the bits that let others run a program as its owner


class SpoolSink:
    """Buffer in memory, or in a temporary file above 16 MiB."""

    name: str | None = None

    _MEMORY_NBYTES = 16 << 20

    def __init__(self) -> None:
        self._spool: IO[bytes] = io.BytesIO()
        self._place: str | None = None  # the name of the temporary file in errors

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        if self._place is None and self._spool.tell() + len(data) > self._MEMORY_NBYTES:
            self._move_to_file()
        with disk.naming(self._place):
            self._spool.write(data)

    def _move_to_file(self) -> None:
        self._place = disk.name_of_temporary()
        with importing:  # loaded on use: 3 ms, and rarely needed
            from tempfile import TemporaryFile

            with disk.naming(self._place):
                file = TemporaryFile()  # noqa: SIM115
        buffer, self._spool = self._spool, file
        with disk.naming(self._place):
            file.write(buffer.getbuffer())  # type: ignore[attr-defined]

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes that were written earlier."""
        with disk.naming(self._place):
            self._spool.seek(offset)
            self._spool.write(data)
            self._spool.seek(0, os.SEEK_END)

    def iter_blocks(self) -> Iterator[bytes]:
        """Yield everything that was written, in blocks of 1 MiB."""
        with disk.naming(self._place):  # seeking flushes the buffer
            self._spool.seek(0)
        while block := self._spool.read(_BLOCK_NBYTES):
            yield block

    def commit(self) -> None:
        """Do nothing: the bytes remain available until the sink is aborted."""

    def abort(self) -> None:
        """Discard everything that was written."""
        with suppress(OSError):  # closing flushes the buffer, which is not needed
            self._spool.close()


class StreamSink(SpoolSink):
    """Sink for a caller's binary file object or a device, written to only at `commit`.

    Therefore the front can be replaced although the stream may not seek, and a failure leaves the
    stream untouched.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        name = getattr(stream, "name", None)
        self.name = name if isinstance(name, str) else None
        self._stream = stream

    def commit(self) -> None:
        """Copy everything to the stream and flush it."""
        with disk.naming(self.name):
            _send(self.iter_blocks(), self._stream)
        self.abort()


def _send(blocks: Iterable[bytes], stream: IO[bytes]) -> None:
    for block in blocks:
        view = memoryview(block)
        while view:  # a raw stream may take less than it is given
            taken = stream.write(view)
            # Objects with a `write` of their own often take everything and return None.
            if taken is None and not isinstance(stream, io.RawIOBase):
                break
            view = view[taken or 0 :]
    stream.flush()


class FileSink(NewFile):
    """New file that appears under its name, whole and durable, on `commit`.

    It is written under a temporary name in `folder`, by default that of `path` and always on the
    same file system, synced, and renamed. Symbolic links are followed. A file that is replaced
    passes on its permissions, and its journal is replayed first. Without `overwrite`, `commit`
    refuses to replace one. With `like`, the file has the times and permissions of that one; the
    permissions of a file that is replaced are not extended.

    Raises
    ------
    LockedError
        A writer has the file to be replaced open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        folder: str | None = None,
        *,
        overwrite: bool = True,
        like: os.stat_result | None = None,
    ) -> None:
        self._target = disk.target_of(path)
        self._overwrite = overwrite
        check_unlocked(self._target)
        beside = self._target if folder is None else os.path.join(folder, "")
        super().__init__(temporary_path(beside), self._target, os.fspath(path))
        self._like = like
        if like is not None:
            mode = like.st_mode & _PERMISSIONS
            if os.path.exists(self._target):
                mode &= os.fstat(self._fd).st_mode
            disk.set_mode(self._fd, mode)

    def commit(self) -> None:
        """Sync the file and rename it to its final name."""
        self._flush()
        with disk.naming(self.name):
            if self._like is not None:
                disk.set_times(self._fd, self._like)
            disk.sync(self._fd)
            self._close()
        _put(self._path, self._target, self.name, overwrite=self._overwrite)


def _put(path: str, target: str, name: str | None, *, overwrite: bool) -> None:
    """Rename a synced file to its final name, durably."""
    with disk.naming(name), replacing(target):
        disk.move(path, target, overwrite=overwrite)
        disk.sync_folder(os.path.dirname(target))


class committed(Generic[Sink]):  # noqa: N801 - a class, as for `naming`
    """Context that commits `sink` when the block ends; aborts it if the block raises."""

    __slots__ = ("_sink",)

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __enter__(self) -> Sink:
        return self._sink

    def __exit__(self, kind: object, err: BaseException | None, _: object) -> None:
        if err is None:
            try:
                self._sink.commit()
            except BaseException:
                self._sink.abort()
                raise
        else:
            self._sink.abort()


def upload_for(
    where: Any, storage_options: Mapping[str, Any] | None = None, *, overwrite: bool = True
) -> "Upload | None":
    """Return a local file that is uploaded to a URL on commit; None for a path.

    Without `overwrite`, an object that exists at the time of the commit is refused.

    Raises
    ------
    UnsupportedError
        URLs of this scheme cannot be written to.
    ValueError
        `storage_options` are given for a path.
    """
    if is_url(where):
        with importing:  # loaded on use, like `tempfile`
            from .remote.upload import Upload

        return Upload(where, storage_options, overwrite=overwrite)
    refuse_options(where, storage_options)
    return None


def check_absent(
    where: Any, storage_options: Mapping[str, Any] | None = None, *, overwrite: bool
) -> None:
    """Refuse to replace a file or object, unless `overwrite` is true. Devices are not replaced.

    Raises
    ------
    FileExistsError
        It exists.
    TypeError
        `overwrite` is not a bool, or `where` is an open file, which is written to in any case.
    """
    if overwrite is True:
        return
    if overwrite is not False:
        raise TypeError(f"overwrite must be True or False, not {type(overwrite).__name__!r}")
    if is_url(where):
        with importing:  # loaded on use, like `tempfile`
            from .remote import upload

        upload.check_writable(where)
        upload.check_absent(where, storage_options, overwrite=overwrite)
        return
    if not isinstance(where, str | os.PathLike):
        raise TypeError(
            f"overwrite=False applies to paths and URLs only; got {type(where).__name__!r}"
        )
    if os.path.lexists(where) and (os.path.isfile(where) or os.path.islink(where)):
        raise disk.exists_already(os.fspath(where))


@contextmanager
def open_sink(
    where: Any,
    storage_options: Mapping[str, Any] | None = None,
    *,
    front_nbytes: int = 0,
    overwrite: bool = True,
    like: str | os.PathLike[str] | None = None,
) -> Iterator[ByteSink]:
    """Open a sink for a path, a URL or a binary file object; commit it at the end of the block.

    Without `overwrite`, an existing file is refused, at once and again before it would be replaced.
    A new file has the times and permissions of the file `like`, as `FileSink` says.

    A device or a pipe is written in place, as it cannot be replaced. Of an object at a URL, the
    first `front_nbytes` can be replaced with `write_at`; at least 8 MiB can.

    Raises
    ------
    OSError
        The file cannot be created; FileExistsError if it exists and `overwrite` is false.
    TypeError
        `where` has another type.
    UnsupportedError
        URLs of this scheme cannot be written to.
    """
    check_absent(where, storage_options, overwrite=overwrite)
    if is_url(where):
        with importing:  # loaded on use, like `tempfile`
            from .remote.upload import open_upload

        upload = open_upload(where, storage_options, front_nbytes=front_nbytes, overwrite=overwrite)
        with committed(upload) as sink:
            yield sink
            check_absent(where, storage_options, overwrite=overwrite)
        return
    refuse_options(where, storage_options)
    if isinstance(where, str | os.PathLike):
        if is_in_place(where):
            # Unbuffered, as closing a buffer would write again what the device has refused.
            with open(where, "wb", buffering=0) as stream, committed(StreamSink(stream)) as sink:
                yield sink
        else:
            if like is not None and (is_url(like) or is_in_place(like)):
                like = None
            status = None if like is None else os.stat(like)
            with committed(FileSink(where, overwrite=overwrite, like=status)) as sink:
                yield sink
    elif hasattr(where, "write"):
        refuse_text(where)
        with committed(StreamSink(where)) as sink:
            yield sink
    else:
        raise TypeError(f"expected a path or a binary file, not {type(where).__name__!r}")


def is_in_place(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names a device or a pipe, which is written in place."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def open_path(
    where: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    overwrite: bool,
) -> Iterator[str]:
    """Yield the path of a new file for code that writes by path, and put the file into its place.

    The file at the path at the end of the block gets the name `where`, or is uploaded there, or is
    copied to a device or a pipe, in the same way as by `open_sink`, which also raises the same
    errors. If the block raises, nothing is left.
    """
    check_absent(where, storage_options, overwrite=overwrite)
    upload = upload_for(where, storage_options, overwrite=overwrite)
    if upload is not None:
        try:
            yield upload.path
            upload.commit()
        finally:
            upload.discard()
        return
    name = os.fsdecode(where)
    if is_in_place(where):
        with (
            open(where, "wb", buffering=0) as stream,
            disk.vanishing(disk.make_temporary_folder(prefix="bloscpack-")) as folder,
        ):
            path = os.path.join(folder, "content")
            yield path
            with disk.naming(name), open(path, "rb") as file:
                _send(iter(lambda: file.read(_BLOCK_NBYTES), b""), stream)
        return
    target = disk.target_of(where)
    check_unlocked(target)
    # In a folder that others cannot enter, as the file to be replaced may be private.
    with disk.vanishing(temporary_path(target)) as folder:
        with disk.naming(name):
            disk.make_folder(folder, 0o700)
        path = os.path.join(folder, "content")
        with _naming_inside(folder, name):
            yield path
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with disk.closing(fd):
            make_like(fd, target, name)
            with disk.naming(name):  # the library that wrote it may have left that to the system
                disk.sync(fd)
        _put(path, target, name, overwrite=overwrite)


@contextmanager
def _naming_inside(folder: str, name: str) -> Iterator[None]:
    """Raise each OSError about a file in `folder`, or about none, with `name`."""
    try:
        yield
    except BloscpackError:
        raise
    except OSError as err:
        if err.errno is None or not str(err.filename or folder).startswith(folder):
            raise
        raise OSError(err.errno, os.strerror(err.errno), name) from err
