"""Layout of a new file of an array: its header, metadata, chunks and compression."""

import os
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..container.appender import default_clevel
from ..container.blocks import MIN_SAMPLED_NBYTES, SAMPLE_NBYTES
from ..container.growth import SPARE_PER_CHUNK, new_section
from ..container.writer import Chunking, build_header
from ..format.checksum import checksum_by_name
from ..format.codec import MAX_CHUNK_NBYTES, MAX_TYPESIZE, CodecParams, Shuffle
from ..format.header import Header
from ..format.metadata import DEFAULT_META_CHECKSUM
from ..format.rounding import Rounding
from ..types import AnyArray
from .arraymetadata import Description, array_metadata, stored_view
from .dtype import Dtype

Path: TypeAlias = str | os.PathLike[str]

TARGET_CHUNK_NBYTES = 1 << 20
# Rows up to this size are never cut by default; larger ones are cut along the next axis.
_MAX_ROW_NBYTES = 64 << 20

# Block sizes are compared on a sample of about 1/64 of the array; smaller samples mislead.
_MIN_SAMPLE_NBYTES = 128 << 10

_SHUFFLES = {
    "none": Shuffle.NONE,
    "byte": Shuffle.BYTE,
    "bit": Shuffle.BIT,
    0: Shuffle.NONE,
    1: Shuffle.BYTE,
    2: Shuffle.BIT,
}


def is_fortran(array: AnyArray) -> bool:
    """Return whether `array` is stored in Fortran order: F-contiguous but not C-contiguous."""
    flags = array.flags
    return flags.f_contiguous and not flags.c_contiguous


def stored_bytes(array: AnyArray) -> memoryview:
    """Return the bytes of `array` in storage order, copying only if it is not contiguous."""
    if array.nbytes == 0:  # ascontiguousarray would turn S0 into S1
        return memoryview(b"")
    array = np.asarray(array)  # reshaping a matrix or masked array would not give plain bytes
    fortran = is_fortran(array)
    return stored_view(array if fortran else np.ascontiguousarray(array), fortran)


def typesize_of(dtype: Dtype) -> int:
    """Return the typesize for the shuffle filter: the item size, if Blosc supports it.

    For larger items: 4 for unicode, the size of a character, else 1.
    """
    if 1 <= dtype.itemsize <= MAX_TYPESIZE:
        return dtype.itemsize
    return 4 if dtype.kind == "U" else 1


class Layout(NamedTuple):
    """Layout of an array in a new file, computed from its description without its data.

    Attributes
    ----------
    header : Header
        Header with the number and sizes of chunks.
    section : bytes
        Metadata section.
    chunking : Chunking
        Division of the stored bytes into chunks.
    params : CodecParams
        Compression parameters, with the block size left to C-Blosc.
    """

    header: Header
    section: bytes
    chunking: Chunking
    params: CodecParams

    @property
    def sample_extent(self) -> tuple[int, int] | None:
        """Stored bytes (start, stop) of the sample on which block sizes are compared.

        Part of a chunk in the middle; None if the array is too small to sample.
        """
        nbytes, chunk_size = self.chunking.nbytes, self.chunking.chunk_size
        if nbytes < MIN_SAMPLED_NBYTES:
            return None
        start = nbytes // 2 // chunk_size * chunk_size
        count = min(chunk_size, max(nbytes // 64, _MIN_SAMPLE_NBYTES), SAMPLE_NBYTES)
        return start, min(start + count, nbytes)


def plan_layout(
    description: Description,
    *,
    chunks: int | tuple[int, ...] | None,
    codec: str,
    clevel: int | None,
    shuffle: str | int | bool,
    checksum: str | None,
    attrs: Mapping[str, Any] | None,
    keepbits: int | None,
) -> Layout:
    """Return the layout of an array of this dtype, shape and order; parameters as for `save`."""
    dtype, shape, fortran = description
    metadata, params = plan_content(
        description, codec=codec, clevel=clevel, shuffle=shuffle, attrs=attrs, keepbits=keepbits
    )
    if fortran:
        shape = shape[::-1]
        if isinstance(chunks, tuple):
            chunks = chunks[::-1]
    nbytes = prod(shape) * dtype.itemsize
    chunking = Chunking.of(nbytes, chunk_nbytes(shape, dtype.itemsize, chunks))
    header = build_header(
        chunking,
        checksum=checksum_by_name(checksum),
        typesize=params.typesize,
        offsets=True,
        max_app_chunks=SPARE_PER_CHUNK * chunking.nchunks,
        meta_checksum=checksum_by_name(DEFAULT_META_CHECKSUM),
    )
    return Layout(header, new_section(metadata), chunking, params)


def plan_content(
    description: Description,
    *,
    codec: str,
    clevel: int | None,
    shuffle: str | int | bool,
    attrs: Mapping[str, Any] | None,
    keepbits: int | None,
) -> tuple[dict[str, Any], CodecParams]:
    """Return the metadata of an array and its compression parameters; parameters as for `save`.

    These do not depend on the chunks, nor on the number of rows.
    """
    dtype = description[0]
    metadata = array_metadata(*description)
    attrs = dict(attrs or {})
    rounding = None
    if keepbits is not None:
        rounding = Rounding.of(dtype, keepbits)
        rounding.record(attrs)
        metadata["keepbits"] = rounding.keepbits
    if attrs:
        metadata["attrs"] = attrs
    typesize = typesize_of(dtype)
    level = default_clevel(codec) if clevel is None else clevel
    params = CodecParams(codec, level, _shuffle_for(shuffle, typesize), typesize, rounding=rounding)
    return metadata, params


def _shuffle_for(shuffle: str | int | bool, typesize: int) -> Shuffle:
    if shuffle == "auto":
        return Shuffle.BYTE if typesize > 1 else Shuffle.NONE
    try:
        return _SHUFFLES[shuffle]
    except KeyError:
        raise ValueError(
            f"shuffle must be 'auto', 'none', 'byte' or 'bit', not {shuffle!r}"
        ) from None


def chunk_nbytes(shape: tuple[int, ...], itemsize: int, chunks: Any) -> int:
    """Return the size of a chunk, in whole rows of the stored `shape`."""
    row = prod(shape[1:]) * itemsize
    if chunks is None:
        return _default_chunk_nbytes(shape, itemsize)
    if isinstance(chunks, tuple):
        if len(chunks) != len(shape) or chunks[1:] != shape[1:] or not chunks:
            raise ValueError(
                f"chunks must be whole rows, (n, {', '.join(map(str, shape[1:]))}) in the order "
                f"the array is stored, not {chunks}"
            )
        chunks = chunks[0]
    if isinstance(chunks, bool) or not hasattr(chunks, "__index__"):
        raise TypeError(f"chunks must be a number of rows or a shape, not {chunks!r}")
    if not shape:
        raise ValueError("an array without dimensions has no rows: chunks does not apply")
    nbytes = int(chunks) * row
    if int(chunks) < 1 or nbytes > MAX_CHUNK_NBYTES:
        raise ValueError(
            f"chunks of {chunks} rows are {nbytes} bytes; there must be at least one row and at "
            f"most {MAX_CHUNK_NBYTES} bytes"
        )
    return nbytes


def _default_chunk_nbytes(shape: tuple[int, ...], itemsize: int) -> int:
    if itemsize > MAX_CHUNK_NBYTES:
        raise ValueError(f"an item of {itemsize} bytes exceeds {MAX_CHUNK_NBYTES}")
    for axis in range(len(shape)):
        row = prod(shape[axis + 1 :]) * itemsize
        limit = _MAX_ROW_NBYTES if axis == 0 else TARGET_CHUNK_NBYTES
        if 0 < row <= limit:
            return max(1, TARGET_CHUNK_NBYTES // row) * row
    return max(itemsize, TARGET_CHUNK_NBYTES // (itemsize or 1) * itemsize)
