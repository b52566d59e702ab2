"""Arrays in ``.npz`` files: ZIP archives of ``.npy`` files, each of which is extracted to be read.

The checksum that ZIP has of each is compared before any item is read. Objects are never unpickled.
"""

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from shutil import copyfileobj, disk_usage
from tempfile import TemporaryFile, gettempdir
from zipfile import ZipFile, ZipInfo

from numpy.lib.format import MAGIC_PREFIX

from ...exceptions import BloscpackError, UnsupportedError
from ...filetypes.arraysource import ArraySource, SeveralArrays
from ...filetypes.copyjob import Conversion, CopyJob, Count, new_copy, refuse_difference
from ...filetypes.inventory import Inventory, attributes, quoted
from ...storage.file import open_source
from ...storage.protocol import ByteSource
from .arrayfile import refuse_our_options
from .library import SourceStream, chosen, errors_of
from .npy import HEAD_NBYTES, open_npy, read_header, write_npy

_WHAT = "a .npz file"
_SUFFIX = ".npy"
_BLOCK_NBYTES = 1 << 20
_ENCRYPTED = 1  # bit of the flags of a member
# Size that every member may declare, and the largest ratio to its stored bytes above it: deflate,
# which numpy writes, reaches 1032.
_MIN_NBYTES = 64 << 20
_MAX_EXPANSION = 1100
# As in numpy, so that equal arrays make equal files.
_DATE = (1980, 1, 1, 0, 0, 0)


@contextmanager
def open_npz(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[ArraySource]:
    """Yield an array of a ``.npz`` file.

    Raises
    ------
    FormatError
        The file is damaged, or has an array of objects.
    """
    with open_several(source, nthreads=nthreads) as arrays:
        name = chosen(inner, arrays.names, _WHAT, source.name)
        with arrays.open(name) as array:
            yield array


@contextmanager
def open_several(source: ByteSource, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield all arrays of a ``.npz`` file. Raises as `open_npz` does."""
    inventory = Inventory()
    with errors_of(_WHAT, source.name):
        file = ZipFile(SourceStream(source))
    with closing(file):
        inventory.add(*["comment of the file"] * bool(file.comment))
        members: dict[str, ZipInfo] = {}
        objects: dict[str, ZipInfo] = {}
        for info in file.infolist():
            name = info.filename.removesuffix(_SUFFIX)
            with errors_of(f"{_WHAT}: array {name!r:.80}", source.name):
                kind = _kind(file, info)
            inventory.add(*[f"comment of {quoted(info.filename)}"] * bool(info.comment))
            if kind in ("array", "objects"):
                if name in members or name in objects:
                    what = f"{_WHAT}: two arrays have the name {name!r:.80}"
                    raise UnsupportedError(what).at(path=source.name)
                (members if kind == "array" else objects)[name] = info
                inventory.add(*[f"array {quoted(name)} of Python objects"] * (kind == "objects"))
            else:
                inventory.add(f"{kind} {quoted(info.filename)}")
        # Without others, the objects are refused.
        found = members or objects
        if inventory.left_out and not found:
            what = f"{_WHAT} without arrays: {'; '.join(inventory.left_out):.300}"
            raise UnsupportedError(what).at(path=source.name)

        def read(name: str) -> AbstractContextManager[ArraySource]:
            return _extracted(file, name, found[name], source.name, nthreads)

        yield SeveralArrays(tuple(found), read, {}, inventory.left_out)


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
def _extracted(
    file: ZipFile, name: str, info: ZipInfo, where: str | None, nthreads: int | None
) -> Iterator[ArraySource]:
    """Yield an array from a temporary file: in a ZIP file it can only be read in order."""
    with TemporaryFile() as copy, ExitStack() as stack:
        with errors_of(f"{_WHAT}: array {name!r:.80}", where), file.open(info) as stream:
            _check_size(info)
            copyfileobj(stream, copy, _BLOCK_NBYTES)  # compares the checksum at the end
        try:
            array = stack.enter_context(open_npy(open_source(copy), "", nthreads=nthreads))
        except BloscpackError as err:
            err.at(f"array {name!r:.80}", where, whole="")
            raise
        yield array._replace(left_out=tuple(f"{quoted(name)}: {each}" for each in array.left_out))


def copy_to_npz(source: ArraySource, job: CopyJob) -> Conversion:
    """Copy an array to a ``.npz`` file of one."""
    name = job.inner or "arr_0"
    return copy_several(SeveralArrays((name,), lambda _: nullcontext(source), {}), job)


def copy_several(arrays: SeveralArrays, job: CopyJob) -> Conversion:
    """Copy named arrays to a ``.npz`` file, which has no place for attrs.

    Raises
    ------
    ValueError
        An option is not for this type, or a name cannot be stored.
    FormatError
        A source is damaged, or a copy differs from it.
    """
    refuse_our_options(job, "npz")
    nrows = 0
    job.leave_out(*attributes(arrays.attrs))
    steps = Count(job, len(arrays.names))
    with new_copy(job) as temporary:
        with ZipFile(temporary, "x") as file:
            for name in arrays.names:
                info = ZipInfo(_checked(name) + _SUFFIX, _DATE)
                with arrays.open(name) as source, file.open(info, "w", force_zip64=True) as stream:
                    write_npy(stream, source, lambda _: None)
                    job.leave_out(*attributes(source.attrs, quoted(name)))
                    nrows += source.nrows
                steps.add()
        if job.verify:
            with (
                closing(open_source(temporary)) as opened,
                open_several(opened, nthreads=job.nthreads) as copies,
            ):
                for name in arrays.names:
                    with arrays.open(name) as source, copies.open(name) as copy:
                        what = source.difference(copy, lambda _: None)
                        refuse_difference(what and f"array {name!r:.80}: {what}", job.name)
                    steps.add()
    return Conversion("npz", len(arrays.names), nrows, 0, lossless=True)


def _checked(name: str) -> str:
    """Return a name that is safe to extract, and that ZIP gives back.

    Raises
    ------
    ValueError
        It is not.
    """
    if "\0" in name or "\\" in name or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"a .npz file cannot hold an array of the name {name!r:.80}")
    return name
