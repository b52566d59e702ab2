"""Arrays of an archive: opened as sources of copies, and written as copies of any sources."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace

from ...archive.reader import Archive
from ...archive.writer import ArchiveWriter
from ...array.attrs import plain
from ...storage.disk import vanishing
from ...storage.file import open_source
from ...storage.protocol import ByteSource
from ...storage.remote.prefetch import copy_to
from ...storage.sink import open_sink
from ..arraysource import ArraySource, SeveralArrays
from ..copyjob import Conversion, CopyJob, new_copy
from .arraycopy import open_array, write_rounded


def open_one(
    source: ByteSource, inner: str, *, nthreads: int | None
) -> AbstractContextManager[ArraySource]:
    """Return a context manager with the array `inner`; WrongKindError if the name is empty."""
    member = Archive(source)._member_source(inner) if inner else source
    return open_array(member, "", nthreads=nthreads)


@contextmanager
def open_archive(source: ByteSource, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield all arrays of an archive. Raises as `open_array` does."""
    archive = Archive(source)

    def read(name: str) -> AbstractContextManager[ArraySource]:
        return open_array(archive._member_source(name), "", nthreads=nthreads)

    yield SeveralArrays(tuple(archive), read, plain(archive.attrs))


def copy_one_to_archive(source: ArraySource, job: CopyJob) -> Conversion:
    """Copy an array to an archive of one. Raises as `copy_to_archive` does."""
    name = job.inner or "arr_0"
    return copy_to_archive(SeveralArrays((name,), lambda _: nullcontext(source), {}), job)


def copy_to_archive(arrays: SeveralArrays, job: CopyJob) -> Conversion:
    """Copy named arrays to an archive, each by way of a file of its own.

    Raises
    ------
    TypeError, ValueError, UnsupportedError, FormatError
        As for `copy_to_array`.
    """
    job.refuse_options_of_clips({"codec"})
    nrows, lossless = 0, True
    with new_copy(job) as temporary, open_sink(temporary) as sink:
        writer = ArchiveWriter(sink, arrays.attrs)
        for number, name in enumerate(arrays.names, 1):
            with (
                arrays.open(name) as source,
                vanishing(f"{temporary}.member") as path,
                writer.member(name) as member,
            ):
                chunking = job.chunking if source.rows.shape else {}
                one = replace(job, progress=None, chunking=chunking)
                lossless &= write_rounded(source, path, one)
                with closing(open_source(path)) as file:
                    copy_to(file, member, path)
                nrows += source.nrows
            if job.progress is not None:
                job.progress(number, len(arrays.names))
        writer.finish()
    return Conversion("archive", len(arrays.names), nrows, 0, lossless)
