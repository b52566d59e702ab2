"""Arrays of an archive: opened as sources of copies, and written as copies of any sources."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from ..archive.reader import Archive
from ..archive.writer import ArchiveWriter
from ..array.attrs import plain
from ..filetypes.arraysource import ArraySource, SeveralArrays
from ..filetypes.copyjob import CopyJob
from ..format.archiveindex import check_name
from ..storage.newfile import NewFile
from ..storage.protocol import ByteSink, ByteSource
from ..storage.sink import committed
from .arraycopy import opened, rounded, write_array
from .arrayfile import Add, ArrayFormat


@contextmanager
def open_archive(
    source: ByteSource, inner: str, *, nthreads: int | None
) -> Iterator[SeveralArrays]:
    """Yield all arrays of an archive, or one. Raises as `arraycopy.open_array` does."""
    archive = Archive(source)

    def read(name: str) -> AbstractContextManager[ArraySource]:
        return opened(archive._member_source(name), nthreads)

    if inner:
        with read(inner) as array:
            yield SeveralArrays.of(array)
    else:
        yield SeveralArrays(tuple(archive), read, plain(archive.attrs))


class _Writer:
    """Writes arrays to an archive; see `ArrayWriter`."""

    def __init__(self, attrs: Mapping[str, Any], job: CopyJob, sink: ByteSink) -> None:
        self._job = job
        self.archive = ArchiveWriter(sink, attrs)

    def write_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Do nothing: the attributes are in front of the arrays."""

    def check(self, name: str, source: ArraySource) -> None:
        """Do nothing: an archive holds every array."""

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        """Write an array."""
        job = self._job
        if not source.rows.shape:
            given = {k: v for k, v in job.options.items() if k not in ("chunks", "access")}
            job = replace(job, options=given)
        with self.archive.member(name) as member:
            write_array(source, member, job, add)


@contextmanager
def _writing(path: str, arrays: SeveralArrays, job: CopyJob) -> Iterator[_Writer]:
    with committed(NewFile(path, path, path)) as sink:
        writer = _Writer(arrays.attrs, job, sink)
        yield writer
        writer.archive.finish()


def _is_name(name: str) -> bool:
    try:
        return check_name(name) == name
    except ValueError:
        return False


_FORMAT = ArrayFormat(
    "archive",
    open_archive,
    _writing,
    rounded,
    place=lambda source: "arr_0",
    is_safe=_is_name,
)
copy_to_archive = _FORMAT.copy
