"""Copy of an array, in a Bloscpack file or a ``.npy`` file, to a new Bloscpack file.

Rows are read, written and compared in blocks of whole chunks, so memory holds one block: of a grid,
all chunks with the same rows.
"""

import io
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from math import prod
from typing import Any, NamedTuple

from numpy.lib import format as npy

from ..array.array import Array
from ..array.arraymetadata import new_array, stored_view
from ..array.attrs import plain
from ..array.chunkpieces import contiguous_run
from ..array.dtype import Dtype
from ..array.layout import Chunks, stored_bytes
from ..array.parts import PartsJob, parts
from ..container.appender import DEFAULT_CODEC
from ..exceptions import FormatError, TruncatedError, UnsupportedError
from ..format.codec import CODECS
from ..format.filekind import NPY_MAGIC
from ..format.header import DEFAULT_VERSION
from ..format.rounding import ATTRIBUTE, Rounding
from ..storage import disk
from ..storage.file import open_source
from ..storage.journal import replacing
from ..storage.protocol import ByteSource
from ..storage.update import temporary_path
from ..types import DEFAULT_BLOCK, AnyArray, Progress, nbytes_of
from .copyjob import Conversion, CopyJob, check_target, vanishing

# numpy reads no header of more than 10,000 bytes.
_NPY_HEAD_NBYTES = 16 << 10
_NPY_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArraySource(NamedTuple):
    """Array to be copied.

    Attributes
    ----------
    rows : array_like
        The array; ranges of its rows are read when they are taken.
    is_fortran : bool
        Whether it is stored in Fortran order.
    chunks : int, tuple of int or None
        Rows per chunk, or shape of the chunks of a grid; None for the default.
    attrs : dict
        Its attrs.
    keepbits : int or None
        Mantissa bits to which its items have been rounded.
    """

    rows: Any
    is_fortran: bool
    chunks: Chunks
    attrs: dict[str, Any]
    keepbits: int | None

    @property
    def nrows(self) -> int:
        """Number of rows; 1 for an array without dimensions."""
        shape = self.rows.shape
        return int(shape[-1 if self.is_fortran else 0]) if shape else 1

    @property
    def band_nbytes(self) -> int:
        """Decoded size of all chunks of a grid with the same rows; 0 if there is no grid."""
        if not isinstance(self.chunks, tuple):
            return 0
        rows_per_chunk = self.chunks[-1 if self.is_fortran else 0]
        return int(rows_per_chunk * self.rows.nbytes // self.nrows)


def array_source(source: ByteSource, *, nthreads: int | None) -> ArraySource:
    """Return the array in a file, without reading its items.

    Raises
    ------
    WrongKindError
        It is a file of another type.
    FormatError
        The file is damaged, or a ``.npy`` file of Python objects.
    """
    if bytes(source.read_at(0, len(NPY_MAGIC))) == NPY_MAGIC:
        rows = _NpyRows(source)
        return ArraySource(rows, rows.is_fortran, None, {}, None)
    array = Array(source, nthreads=nthreads)
    rounding = Rounding.stored(array._known_container().metadata, array.dtype, 0)
    keepbits = None if rounding is None else rounding.keepbits
    return ArraySource(array, array.is_fortran, _chunks(array), plain(array.attrs), keepbits)


class _NpyRows:
    """Array in a ``.npy`` file, read by ranges of rows, or of what is in one row.

    Raises
    ------
    FormatError
        The header is damaged, or the file is too short.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        stream = io.BytesIO(source.read_at(0, _NPY_HEAD_NBYTES))
        try:
            version = npy.read_magic(stream)
            if version not in _NPY_HEADERS:
                raise UnsupportedError(f".npy file: version {version}").at(path=source.name)
            self.shape, self.is_fortran, self.dtype = _NPY_HEADERS[version](stream)
        except ValueError as err:
            raise FormatError(f".npy file: {err}").at(path=source.name) from err
        self._start = stream.tell()
        if not all(type(length) is int and 0 <= length < 1 << 63 for length in self.shape):
            raise FormatError(f".npy file: shape {self.shape!r:.80}").at(path=source.name)
        # With fewer than two axes longer than 1, both orders have the same bytes.
        self.is_fortran = self.is_fortran and sum(length != 1 for length in self.shape) > 1
        nbytes = prod(self.shape) * self.dtype.itemsize
        if source.size() - self._start < nbytes and not self.dtype.hasobject:
            raise TruncatedError(
                f".npy file: found {source.size() - self._start} of {nbytes} bytes of items"
            ).at(path=source.name)

    def read(self, place: tuple[slice, ...]) -> AnyArray:
        """Return a part of the array whose items are adjacent in the file."""
        place += (slice(None),) * (len(self.shape) - len(place))
        sides = [range(length)[one] for length, one in zip(self.shape, place, strict=True)]
        result = new_array(tuple(map(len, sides)), self.dtype, self.is_fortran)
        content = stored_view(result, self.is_fortran)
        if content:
            step = -1 if self.is_fortran else 1
            run = contiguous_run(self.shape[::step], tuple(sides[::step]))
            if run is None:
                raise ValueError(f".npy file: items of {place} are not adjacent")
            position = self._start + run[0] * self.dtype.itemsize
            content[:] = self._source.read_at(position, len(content))
        return result

    __getitem__ = read


def _chunks(array: Array) -> Chunks:
    """Return the rows of a chunk, or its shape in a grid; None if chunks cut rows."""
    if not array.shape or not array.nbytes:
        return None
    if array.header.chunk_size < 0:
        return array.chunks
    row_nbytes = array.nbytes // array.shape[-1 if array.is_fortran else 0]
    nrows, rest = divmod(array.header.chunk_size, row_nbytes)
    return nrows if nrows > 0 and not rest else None


def copy_to_v3(src: Any, storage_options: Mapping[str, Any] | None, job: CopyJob) -> Conversion:
    """Copy an array to a Bloscpack file of version 3. Raises as `copy_to_array` does."""
    return copy_to_array(src, storage_options, job, is_v3=True)


def copy_to_array(
    src: Any, storage_options: Mapping[str, Any] | None, job: CopyJob, *, is_v3: bool = False
) -> Conversion:
    """Copy an array to a Bloscpack file.

    Raises
    ------
    TypeError, ValueError
        `keepbits` is out of range, or exceeds the bits to which the items were rounded before; or
        an option is not for arrays, or needs version 4 if the copy must be of version 3.
    UnsupportedError
        The items are not floats that can be rounded.
    FormatError
        The source is damaged, or the copy differs.
    """
    others = job.coding.keys() - {"codec"}
    if others or job.verbatim or (job.quality, job.preset) != (None, None):
        raise ValueError("quality, preset, verbatim, crf and tile are not for an array")
    if isinstance(src, list | tuple):
        raise TypeError("an array is copied from one file, not from a list")
    check_target(job.target, job.name, is_folder=False, overwrite=job.overwrite)
    with (
        closing(open_source(src, storage_options)) as opened,
        vanishing(temporary_path(job.target)) as temporary,
    ):
        source = array_source(opened, nthreads=job.nthreads)
        keepbits = source.keepbits if job.keepbits is None else job.keepbits
        if keepbits is not None:
            _check_dtype(source.rows.dtype)
        _write(source, temporary, keepbits, job, is_v3=is_v3)
        with replacing(job.target):
            disk.replace(temporary, job.target)
            disk.sync_folder(os.path.dirname(job.target))
    return Conversion("array", 1, source.nrows, 0, lossless=keepbits == source.keepbits)


def _check_dtype(dtype: Dtype) -> None:
    try:
        Rounding.of(dtype, 1)
    except TypeError as err:
        raise UnsupportedError(str(err)) from err


def _write(
    source: ArraySource, path: str, keepbits: int | None, job: CopyJob, *, is_v3: bool
) -> None:
    """Write a copy to a new file, and compare it."""
    rows, attrs = source.rows, source.attrs
    if keepbits is not None and _is_rounded_further(attrs, keepbits):
        attrs = {key: value for key, value in attrs.items() if key != ATTRIBUTE}
    chunking: dict[str, Any] = {"chunks": None if is_v3 and source.band_nbytes else source.chunks}
    chunking.update(job.chunking)
    with parts(
        path,
        shape=rows.shape,
        dtype=rows.dtype,
        order="F" if source.is_fortran else "C",
        **chunking,
        attrs=attrs,
        codec=job.coding.get("codec", DEFAULT_CODEC),
        keepbits=keepbits,
        sample=rows,
    ) as writing:
        if is_v3 and writing._header.format_version != DEFAULT_VERSION:
            raise ValueError(
                "version 3 has chunks of whole rows, compressed by Blosc: chunks must be a number "
                f"of rows, and codec one of {', '.join(CODECS)}"
            )
        # Comparing counts as much as writing.
        note = _Counter(job.progress, writing.nbytes * (2 if job.verify else 1)).add
        records = []
        # Each chunk of a grid is decoded at most twice, even if the copy has chunks of few rows.
        ranges = writing.split(max(nbytes_of(DEFAULT_BLOCK), source.band_nbytes))
        for start, stop in ranges:
            block = rows.read(_place(writing, start, stop))
            records.append(writing.write(start, block, nthreads=job.nthreads))
            note(block.nbytes)
        writing.commit(records, verify=False)
        if job.verify:
            with Array(path, nthreads=job.nthreads) as copy:
                _compare(source, copy, writing, ranges, keepbits, note)


def _is_rounded_further(attrs: Mapping[str, Any], keepbits: int) -> bool:
    found = attrs.get(ATTRIBUTE)
    return isinstance(found, int) and found > keepbits


class _Counter:
    """Count of the bytes done, for a progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, nbytes: int) -> None:
        self._done += nbytes
        if self._progress is not None:
            self._progress(self._done, self._total)


def _place(job: PartsJob, start: int, stop: int) -> Any:
    """Return the index of a range of rows."""
    return (slice(None),) * job.axis + (slice(start, stop),) if job.shape else ()


def _compare(
    source: ArraySource,
    copy: Array,
    job: PartsJob,
    ranges: list[tuple[int, int]],
    keepbits: int | None,
    note: Callable[[int], None],
) -> None:
    """Compare a copy with the rounded source.

    Raises
    ------
    FormatError
        They differ.
    """
    rounding = None if keepbits is None else Rounding.of(copy.dtype, keepbits)
    if copy.attrs != source.attrs | ({} if keepbits is None else {ATTRIBUTE: keepbits}):
        raise FormatError("the copy differs from its source and was removed: the attrs")
    for start, stop in ranges:
        place = _place(job, start, stop)
        expected: Any = stored_bytes(source.rows.read(place))
        if rounding is not None:
            expected = rounding.apply(expected)
        if expected != stored_bytes(copy.read(place)):  # as bytes: NaN is not equal to NaN
            raise FormatError(
                f"the copy differs from its source and was removed: rows {start} to {stop}"
            )
        note(len(expected))
