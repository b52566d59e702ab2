"""Array in a Bloscpack file: opened as a source of a copy, and written as a copy of any source.

Rows are read, written and compared in blocks of whole chunks, so memory holds one block: of a grid,
all chunks with the same rows.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...array.array import Array
from ...array.attrs import plain
from ...array.dtype import Dtype
from ...array.layout import Chunks, stored_bytes
from ...array.parts import PartsJob, parts
from ...container.writer import DEFAULT_CODEC
from ...exceptions import FormatError, UnsupportedError
from ...format.codec import CODECS
from ...format.filekind import ARRAY
from ...format.header import DEFAULT_VERSION
from ...format.rounding import ATTRIBUTE, Rounding
from ...storage.protocol import ByteSource
from ..arraysource import PART_NBYTES, ArraySource
from ..copyjob import Conversion, CopyJob, Count, new_copy
from ..identify import no_archive


@contextmanager
def open_array(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[ArraySource]:
    """Yield the array in a Bloscpack file, without reading its items.

    WrongKindError if `inner` is not empty: it is not an archive.
    """
    if inner:
        raise no_archive(ARRAY, inner).at(path=source.name)
    with Array(source, nthreads=nthreads) as array:
        rounding = Rounding.stored(array._known_container().metadata, array.dtype, 0)
        keepbits = None if rounding is None else rounding.keepbits
        yield ArraySource(array, array.is_fortran, _chunks(array), plain(array.attrs), keepbits)


def _chunks(array: Array) -> Chunks:
    """Return the rows of a chunk, or its shape in a grid; None if chunks cut rows."""
    if not array.shape or not array.nbytes:
        return None
    if array.header.chunk_size < 0:
        return array.chunks
    row_nbytes = array.nbytes // array.shape[-1 if array.is_fortran else 0]
    nrows, rest = divmod(array.header.chunk_size, row_nbytes)
    return nrows if nrows > 0 and not rest else None


def copy_to_v3(source: ArraySource, job: CopyJob) -> Conversion:
    """Copy an array to a Bloscpack file of version 3. Raises as `copy_to_array` does."""
    return copy_to_array(source, job, is_v3=True)


def copy_to_array(source: ArraySource, job: CopyJob, *, is_v3: bool = False) -> Conversion:
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
    job.refuse_options_of_clips({"codec"})
    with new_copy(job) as temporary:
        lossless = write_rounded(source, temporary, job, is_v3=is_v3)
    return Conversion("array", 1, source.nrows, 0, lossless)


def write_rounded(source: ArraySource, path: str, job: CopyJob, *, is_v3: bool = False) -> bool:
    """Write a copy to a new file, and return whether no item was rounded any further."""
    keepbits = source.keepbits if job.keepbits is None else job.keepbits
    if keepbits is not None:
        _check_dtype(source.rows.dtype)
    _write(source, path, keepbits, job, is_v3=is_v3)
    return keepbits == source.keepbits


def _check_dtype(dtype: Dtype) -> None:
    try:
        Rounding.of(dtype, 1)
    except TypeError as err:
        raise UnsupportedError(str(err)) from err


def _write(
    source: ArraySource, path: str, keepbits: int | None, job: CopyJob, *, is_v3: bool
) -> None:
    rows, attrs = source.rows, source.attrs
    # `parts` refuses another number in the attrs, and sets that of `keepbits` itself.
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
        note = Count(job, writing.nbytes, of_bytes=True).add
        records = []
        # Each chunk of a grid is decoded at most twice, even if the copy has chunks of few rows.
        ranges = writing.split(max(PART_NBYTES, source.band_nbytes))
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
    """Compare a copy with the rounded source."""
    rounding = None if keepbits is None else Rounding.of(copy.dtype, keepbits)
    expected = source.attrs | ({} if keepbits is None else {ATTRIBUTE: keepbits})
    if json.dumps(plain(copy.attrs)) != json.dumps(expected):  # as text: NaN is not equal to NaN
        raise FormatError("the copy differs from its source and was removed: the attrs")
    for start, stop in ranges:
        place = _place(job, start, stop)
        found = source.rows.read(place)
        found = np.asfortranarray(found) if source.is_fortran else np.asarray(found, order="C")
        items: Any = stored_bytes(found)
        if rounding is not None:
            items = rounding.apply(items)
        if items != stored_bytes(copy.read(place)):  # as bytes, for the same reason
            raise FormatError(
                f"the copy differs from its source and was removed: rows {start} to {stop}"
            )
        note(len(items))
