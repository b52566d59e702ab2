"""Arrays in ``.npz`` files: ZIP archives of ``.npy`` files, each of which is extracted to be read.

The checksum that ZIP has of each is compared before any item is read. Objects are never unpickled.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from shutil import copyfileobj
from tempfile import TemporaryFile
from zipfile import ZipFile, ZipInfo

from ...exceptions import BloscpackError, UnsupportedError
from ...filetypes.arraysource import ArraySource, SeveralArrays
from ...filetypes.copyjob import Conversion, CopyJob, new_copy, refuse_difference
from ...filetypes.inventory import attributes, quoted
from ...storage.file import open_source
from ...storage.protocol import ByteSource
from .arrayfile import ArrayCount, refuse_our_options
from .library import SourceStream, chosen, errors_of
from .npy import open_npy, write_npy

_WHAT = "a .npz file"
_SUFFIX = ".npy"
_BLOCK_NBYTES = 1 << 20
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
    with errors_of(_WHAT, source.name):
        file = ZipFile(SourceStream(source))
    with closing(file):
        names = [info.filename for info in file.infolist()]
        others = [f"file {quoted(name)}" for name in names if not name.endswith(_SUFFIX)]
        if len(set(names)) < len(names):
            raise UnsupportedError(f"{_WHAT}: two arrays have the same name").at(path=source.name)
        found = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]

        def read(name: str) -> AbstractContextManager[ArraySource]:
            return _extracted(file, name, source.name, nthreads)

        yield SeveralArrays(tuple(found), read, {}, tuple(others))


@contextmanager
def _extracted(
    file: ZipFile, name: str, where: str | None, nthreads: int | None
) -> Iterator[ArraySource]:
    """Yield an array from a temporary file: in a ZIP file it can only be read in order."""
    with TemporaryFile() as copy, ExitStack() as stack:
        with errors_of(f"{_WHAT}: array {name!r:.80}", where), file.open(name + _SUFFIX) as stream:
            copyfileobj(stream, copy, _BLOCK_NBYTES)  # compares the checksum at the end
        try:
            array = stack.enter_context(open_npy(open_source(copy), "", nthreads=nthreads))
        except BloscpackError as err:
            err.at(f"array {name!r:.80}", where, whole="")
            raise
        yield array


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
    steps = ArrayCount(job, len(arrays.names))
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
