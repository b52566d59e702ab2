"""Arrays in Bloscpack files and archives: opened as sources of copies, and written as copies.

Rows are read and written in blocks of whole chunks, so memory holds one block: of a grid, all
chunks with the same rows.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..archive.coordinates import CoordArrays
from ..archive.writer import ArchiveWriter
from ..array.array import Array
from ..array.arraymetadata import statistics_type
from ..array.axislabels import COORDINATE, coord_entries, opened_attrs, stored_attrs
from ..array.layout import Chunks, stored_bytes
from ..array.parts import PartsJob
from ..container.members import read_attrs, read_members
from ..exceptions import UnsupportedError
from ..format.archiveindex import check_name
from ..format.codec import CODECS
from ..format.filekind import ARRAY
from ..format.header import DEFAULT_VERSION
from ..format.rounding import ATTRIBUTE, MANTISSA_BITS, Rounding
from ..parallel.threads import resolve_nthreads
from ..storage.newfile import NewFile
from ..storage.protocol import ByteSink, ByteSource, errors_at
from ..storage.sink import committed
from ..types import AnyArray
from .arrayfile import Add, ArrayFormat, ArrayWriter, label_or
from .arraysource import PART_NBYTES, ArraySource, Rows, SeveralArrays
from .copyjob import CopyJob
from .identify import no_archive


@contextmanager
def open_array(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield the array in a Bloscpack file; WrongKindError if `inner` is not empty."""
    if inner:
        raise no_archive(ARRAY, inner).at(path=source.name)
    with _opened(source, nthreads) as array:
        yield SeveralArrays.of(array)


@contextmanager
def _opened(source: ByteSource, nthreads: int | None) -> Iterator[ArraySource]:
    """Yield the array in a Bloscpack file."""
    with Array(source, nthreads=nthreads) as array:
        rounding = Rounding.stored(array.container.metadata, array.dtype, 0)
        keepbits = None if rounding is None else rounding.keepbits
        yield ArraySource(array, array.is_fortran, _chunks(array), opened_attrs(array), keepbits)


def _chunks(array: Array) -> Chunks:
    """Return the rows of a chunk, or its shape in a grid; None if chunks cut rows."""
    if not array.shape or not array.nbytes:
        return None
    if array.header.chunk_size < 0:
        return array.chunks
    row_nbytes = array.nbytes // array.shape[-1 if array.is_fortran else 0]
    nrows, rest = divmod(array.header.chunk_size, row_nbytes)
    return nrows if nrows > 0 and not rest else None


def _rounded(source: ArraySource, job: CopyJob, of: str) -> ArraySource:
    """Return an array as a copy has it; the job notes if that rounds items further.

    Raises
    ------
    TypeError, ValueError
        `keepbits` is out of range.
    """
    keepbits = job.options.get("keepbits", source.keepbits)
    rows, attrs = source.rows, source.attrs
    if keepbits is None or rows.dtype.name not in MANTISSA_BITS:
        return source  # `_write_array` refuses items that cannot be rounded
    rounding = Rounding.of(rows.dtype, keepbits)
    if keepbits != source.keepbits:
        job.note(source._replace(is_raw=False))
    found = attrs.get(ATTRIBUTE)
    # `PartsJob` refuses fewer bits.
    if not isinstance(found, int) or found > keepbits:
        attrs = attrs | {ATTRIBUTE: keepbits}
    order: Any = "F" if source.is_fortran else "C"

    def read(place: tuple[slice, ...]) -> AnyArray:
        part = np.asarray(rows.read(place), order=order)
        content = rounding.apply(stored_bytes(part))
        return np.frombuffer(content, rows.dtype).reshape(part.shape, order=order)

    return source._replace(rows=Rows(rows.shape, rows.dtype, read), attrs=attrs, keepbits=keepbits)


class _Writer(ArrayWriter):
    """Writes an array to a file."""

    def __init__(self, path: str, job: CopyJob, *, is_v3: bool) -> None:
        self._path, self._job, self._is_v3 = path, job, is_v3

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        with committed(NewFile(self._path, self._path, self._path)) as sink:
            _write_array(source, sink, self._job, add, is_v3=self._is_v3)


def _write_array(
    source: ArraySource, sink: ByteSink, job: CopyJob, add: Add, *, is_v3: bool = False
) -> None:
    """Write an array to an empty sink; call `add` with the bytes of each part.

    Raises
    ------
    ValueError
        An option is invalid, or needs version 4 if the copy must be of version 3.
    UnsupportedError
        The items are not floats that can be rounded.
    """
    rows = source.rows
    if "keepbits" in job.options and rows.dtype.name not in MANTISSA_BITS:
        found = f"{', '.join(MANTISSA_BITS)}; the array has dtype {rows.dtype}"
        raise UnsupportedError(f"keepbits rounds {found}").at(path=job.name)
    options: Any = {
        "chunks": None if is_v3 and source.band_nbytes else source.chunks,
        **job.options,
        "keepbits": source.keepbits,
        "stats": "stats" in job.options and statistics_type().are_of(rows.dtype),
    }
    writing = PartsJob(
        "",  # it writes to the sink alone
        shape=rows.shape,
        dtype=rows.dtype,
        order="F" if source.is_fortran else "C",
        attrs=stored_attrs(source.attrs, rows.shape),
        **options,
    )
    if is_v3 and writing._header.format_version != DEFAULT_VERSION:
        raise ValueError(
            "version 3 has chunks of whole rows, compressed by Blosc: chunks must be a number "
            f"of rows, and codec one of {', '.join(CODECS)}"
        )

    # Each chunk of a grid is decoded at most twice, even if the copy has chunks of few rows.
    writing._write_whole(
        sink,
        rows.read,
        add,
        part_nbytes=max(PART_NBYTES, source.band_nbytes),
        nthreads=resolve_nthreads(job.nthreads, source.nbytes),
    )


def _writing(
    is_v3: bool, path: str, arrays: SeveralArrays, job: CopyJob
) -> AbstractContextManager[_Writer]:
    return nullcontext(_Writer(path, job, is_v3=is_v3))


_FORMAT = ArrayFormat("array", open_array, partial(_writing, False), _rounded, place=None)
copy_to_array = _FORMAT.copy
copy_to_v3 = _FORMAT._replace(writing=partial(_writing, True)).copy


@contextmanager
def open_archive(
    source: ByteSource, inner: str, *, nthreads: int | None
) -> Iterator[SeveralArrays]:
    """Yield all arrays of an archive, or one."""
    with errors_at(source.name):
        members = read_members(source)

    def read(name: str) -> AbstractContextManager[ArraySource]:
        return _opened(members.open(name), nthreads)

    if inner:
        with read(inner) as array:
            yield SeveralArrays.of(array)
    else:
        with errors_at(source.name):
            attrs, _ = read_attrs(members.front)
            arrays = {name: Array(members.open(name)) for name in members.named}
        coords = [entry for array in arrays.values() for entry in coord_entries(array.attrs)]
        used = {str(entry["array"]) for entry in coords if "array" in entry}
        names = tuple(name for name in arrays if name not in used)
        # The attribute in which xarray lists coordinates of no variable.
        unused = [name for name in names if arrays[name].attrs.get(COORDINATE) is True]
        listed = {"coordinates": " ".join(unused)} if unused else {}
        yield SeveralArrays(names, read, listed | attrs)


class _ArchiveWriter(ArrayWriter):
    """Writes arrays to an archive, whose attributes are in front of the arrays."""

    def __init__(self, attrs: Mapping[str, Any], job: CopyJob, sink: ByteSink) -> None:
        self._job = job
        self.archive = ArchiveWriter(sink, attrs)
        self._coords = CoordArrays(self.archive, self._write_coord)

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        job = self._job
        if not source.rows.shape:
            given = {k: v for k, v in job.options.items() if k not in ("chunks", "access")}
            job = replace(job, options=given)
        if COORDINATE not in source.attrs:
            store = self._coords.beside(name)
            attrs = stored_attrs(source.attrs, source.rows.shape, store)
            source = source._replace(attrs=attrs)
        with self.archive.member(name) as member:
            _write_array(source, member, job, add)

    def _write_coord(self, name: str, values: AnyArray, attrs: dict[str, Any]) -> None:
        job = replace(self._job, options={})
        source = ArraySource(Rows(values.shape, values.dtype, values.__getitem__), attrs=attrs)
        with self.archive.member(name) as member:
            _write_array(source, member, job, lambda nbytes: None)


@contextmanager
def _writing_archive(path: str, arrays: SeveralArrays, job: CopyJob) -> Iterator[_ArchiveWriter]:
    with committed(NewFile(path, path, path)) as sink:
        writer = _ArchiveWriter(arrays.attrs, job, sink)
        yield writer
        writer.archive.finish()


def _is_name(name: str) -> bool:
    try:
        return check_name(name) == name
    except ValueError:
        return False


_ARCHIVE = ArrayFormat(
    "archive",
    open_archive,
    _writing_archive,
    _rounded,
    place=label_or("arr_0"),
    is_safe=_is_name,
    has_groups=False,
)
copy_to_archive = _ARCHIVE.copy
