"""Arrays in ``.npz`` files: ZIP archives of ``.npy`` files, each of which is extracted to be read.

The checksum that ZIP has of each is compared before any item is read. Objects are never unpickled.
"""

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from shutil import copyfileobj, disk_usage
from tempfile import TemporaryFile, gettempdir
from zipfile import ZipFile, ZipInfo

from numpy.lib.format import MAGIC_PREFIX

from ..plugin import (
    Add,
    ArrayFormat,
    ArraySource,
    BloscpackError,
    ByteSource,
    Conversion,
    CopyJob,
    Inventory,
    SeveralArrays,
    UnsupportedError,
    attributes,
    open_source,
    quoted,
    without_attrs,
)
from .library import SourceStream, chosen, errors_of
from .npy import HEAD_NBYTES, NpyWriter, npy_array, read_header, write_npy

_WHAT = "a .npz file"
_SUFFIX = ".npy"
_BLOCK_NBYTES = 1 << 20
# End of a ZIP file: a record of this size, and a comment of at most 64 KiB.
_END_MAGIC, _END_NBYTES = b"PK\5\6", 22
_MAX_END_NBYTES = _END_NBYTES + (1 << 16)
_ENCRYPTED = 1  # bit of the flags of a member
# Size that every member may declare, and the largest ratio to its stored bytes above it: deflate,
# which numpy writes, reaches 1032.
_MIN_NBYTES = 64 << 20
_MAX_EXPANSION = 1100
# As in numpy, so that equal arrays make equal files.
_DATE = (1980, 1, 1, 0, 0, 0)


@contextmanager
def open_npz(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield all arrays of a ``.npz`` file, or one."""
    inventory = Inventory()
    with errors_of(_WHAT, source.name):
        file = ZipFile(SourceStream(source))
    with closing(file):
        inventory.add(*["comment of the file"] * bool(file.comment))
        inventory.add(*_bytes_around(file, source))
        members: dict[str, ZipInfo] = {}
        names: list[str] = []
        for info in file.infolist():
            name = info.filename.removesuffix(_SUFFIX)
            with errors_of(f"{_WHAT}: array {name!r:.80}", source.name):
                try:
                    kind = _kind(file, info)
                except UnsupportedError as err:
                    kind = f"{err}:"
            inventory.add(*[f"comment of {quoted(info.filename)}"] * bool(info.comment))
            if kind in ("array", "objects"):
                if name in members:
                    what = f"{_WHAT}: two arrays have the name {name!r:.80}"
                    raise UnsupportedError(what).at(path=source.name)
                members[name] = info
            if kind == "array":
                names.append(name)
            elif kind == "objects":
                inventory.add(f"array {quoted(name)} of Python objects")
            else:
                inventory.add(f"{kind} {quoted(info.filename)}")
        if inventory.left_out and not members:
            what = f"{_WHAT} without arrays: {'; '.join(inventory.left_out):.300}"
            raise UnsupportedError(what).at(path=source.name)

        def read(name: str) -> AbstractContextManager[ArraySource]:
            return _extracted(file, name, members[name], source.name)

        if inner:
            with read(chosen(inner, members, _WHAT, source.name)) as array:
                yield SeveralArrays.of(array)
        else:  # objects that are named, or without other arrays, are refused when they are opened
            yield SeveralArrays(tuple(names or members), read, {}, inventory.left_out)


def _bytes_around(file: ZipFile, source: ByteSource) -> Iterator[str]:
    """Yield short texts for bytes that are not of the ZIP file, which zipfile skips."""
    start = max(source.size() - _MAX_END_NBYTES, 0)
    end = bytes(source.read_at(start, _MAX_END_NBYTES))
    nbehind = len(end) - end.rfind(_END_MAGIC) - _END_NBYTES - len(file.comment)
    nbefore = min((info.header_offset for info in file.infolist()), default=0)
    for nbytes, where in ((nbefore, "before"), (nbehind, "behind")):
        if nbytes > 0:
            yield f"{nbytes} bytes {where} the ZIP file"


def _kind(file: ZipFile, info: ZipInfo) -> str:
    """Return what a member is: "array" for an array that can be copied."""
    if info.is_dir():
        return "folder"
    if info.flag_bits & _ENCRYPTED:
        return "encrypted file"
    with file.open(info) as stream:
        head = stream.read(HEAD_NBYTES)
        if head.startswith(MAGIC_PREFIX):  # as numpy decides
            return "objects" if read_header(head)[-1].hasobject else "array"
        while info.filename.endswith(_SUFFIX) and stream.read(_BLOCK_NBYTES):
            pass  # up to the checksum: it may be a damaged array
    return "file"


def _check_size(info: ZipInfo) -> None:
    """Refuse a member that declares more than its bytes can be, or than there is room for."""
    if info.file_size > max(_MIN_NBYTES, _MAX_EXPANSION * info.compress_size):
        raise ValueError(f"{info.file_size} bytes, too many for {info.compress_size} stored bytes")
    if info.file_size > disk_usage(gettempdir()).free:
        what = f"extracting {info.file_size} bytes; TMPDIR names another folder"
        raise OSError(errno.ENOSPC, what, gettempdir())


@contextmanager
def _extracted(file: ZipFile, name: str, info: ZipInfo, where: str | None) -> Iterator[ArraySource]:
    """Yield an array from a temporary file: in a ZIP file it can only be read in order."""
    with TemporaryFile() as copy:
        with errors_of(f"{_WHAT}: array {name!r:.80}", where), file.open(info) as stream:
            _check_size(info)
            copyfileobj(stream, copy, _BLOCK_NBYTES)  # compares the checksum at the end
        try:
            array = npy_array(open_source(copy))
        except BloscpackError as err:
            err.at(f"array {name!r:.80}", where, whole="")
            raise
        yield array._replace(left_out=tuple(f"{quoted(name)}: {each}" for each in array.left_out))


class _Writer(NpyWriter):
    """Writes arrays to a ``.npz`` file."""

    def __init__(self, file: ZipFile) -> None:
        self._file = file

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        info = ZipInfo(name + _SUFFIX, _DATE)
        with self._file.open(info, "w", force_zip64=True) as stream:
            write_npy(stream, source, add)


@contextmanager
def _writing(path: str, arrays: SeveralArrays, job: CopyJob) -> Iterator[_Writer]:
    with ZipFile(path, "x") as file:
        yield _Writer(file)


_FORMAT = ArrayFormat("npz", open_npz, _writing, without_attrs, place=lambda source: "arr_0")


def copy_to_npz(arrays: SeveralArrays, job: CopyJob) -> Conversion:
    """Copy arrays to a ``.npz`` file, which has no place for attributes."""
    job.leave_out(*attributes(arrays.attrs))
    return _FORMAT.copy(arrays._replace(attrs={}), job)
