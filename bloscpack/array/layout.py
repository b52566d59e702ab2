"""Layout of numpy arrays in a container: metadata, chunking of a new file, reading whole arrays.

An array is stored as its own memory: row by row along the first axis in C order, along the last
axis in Fortran order (which equals a C-order array of the reversed shape). The metadata are those
of bloscpack 0.16 (``dtype``, ``shape``, ``order``, ``container``), plus ``attrs`` and
``logical_dtype`` where needed.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from math import lcm, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..container.appender import Appender, default_clevel
from ..container.blocks import MIN_SAMPLED_NBYTES, SAMPLE_NBYTES
from ..container.growth import SPARE_PER_CHUNK, new_section
from ..container.reader import Container
from ..container.writer import Chunking, build_header
from ..exceptions import BloscpackError, FormatError, NotANumpyArray
from ..format.checksum import checksum_by_name
from ..format.codec import MAX_CHUNK_NBYTES, MAX_TYPESIZE, CodecParams, Shuffle
from ..format.header import Header
from ..format.metadata import DEFAULT_META_CHECKSUM, decode_data
from ..types import AnyArray
from .dtype import Dtype, pack_dtype, unpack_dtype

Path: TypeAlias = str | os.PathLike[str]
Description: TypeAlias = tuple[Dtype, tuple[int, ...], bool]

TARGET_CHUNK_NBYTES = 1 << 20
# Rows up to this size are never cut by default; larger ones are cut along the next axis.
_MAX_ROW_NBYTES = 64 << 20
_MAX_NDIM = 64  # numpy 2; numpy 1 has 32 and says so itself
# Parsed metadata of at most this size are cached; structured dtypes may need more.
_MAX_REMEMBERED_NBYTES = 1024

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


def array_metadata(dtype: Dtype, shape: tuple[int, ...], is_fortran: bool) -> dict[str, Any]:
    """Return the metadata that describe an array, in the key order of bloscpack 0.16.

    Raises
    ------
    ObjectNumpyArrayRejection
        `dtype` contains Python objects.
    """
    text, logical = pack_dtype(dtype)
    metadata = {
        "dtype": text,
        "shape": list(shape),
        "order": "F" if is_fortran else "C",
        "container": "numpy",
    }
    if logical is not None:
        metadata["logical_dtype"] = logical
    return metadata


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


def unpack_array_metadata(metadata: Any) -> Description:
    """Return (dtype, shape, is_fortran) from the metadata of an array.

    Raises
    ------
    NotANumpyArray
        The metadata do not describe an array.
    FormatError
        They describe an array, but break the format.
    """
    if not isinstance(metadata, dict) or metadata.get("container") != "numpy":
        raise NotANumpyArray(
            "the file does not hold a numpy array (its metadata lack container: numpy); "
            "unpack it as bytes"
        )
    dtype = unpack_dtype(metadata.get("dtype"), metadata.get("logical_dtype"))
    shape = metadata.get("shape")
    if not isinstance(shape, list) or len(shape) > _MAX_NDIM or not all(map(_is_length, shape)):
        raise FormatError("metadata: shape is not a list of lengths", field="shape")
    order = metadata.get("order", "C")
    if order not in ("C", "F"):
        raise FormatError(f"metadata: order {str(order)[:80]!r} is not 'C' or 'F'", field="order")
    return dtype, tuple(shape), order == "F"


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


@lru_cache(maxsize=256)
def _describe_stored(data: bytes, codec: str, nbytes: int) -> Description:
    return unpack_array_metadata(decode_data(data, codec, nbytes))


def describe_array(container: Container) -> Description:
    """Return (dtype, shape, is_fortran) of the array in `container`.

    Raises the errors of `unpack_array_metadata`.
    """
    header, data = container.metadata_header, container.stored_metadata
    if header is None or len(data) > _MAX_REMEMBERED_NBYTES:
        return unpack_array_metadata(container.metadata)
    # Equal dtypes and shapes give identical metadata: a set of small files is parsed only once.
    return _describe_stored(data, header.meta_codec, header.meta_size)


def read_array(container: Container, *, nthreads: int | None = None) -> AnyArray:
    """Return the whole array in `container` as a new, writable ndarray, in the order it was saved.

    Raises
    ------
    NotANumpyArray
        The metadata do not describe an array.
    FormatError, CodecError
        The file is damaged, or the metadata do not fit the chunks.
    """
    # Not `errors_at`: a context manager takes a tenth of the time that a small array takes.
    try:
        dtype, shape, is_fortran = describe_array(container)
        check_nbytes(container, dtype, shape)
        container.check_size(container.nbytes)
        result = new_array(shape, dtype, is_fortran)
        container.read_into(stored_view(result, is_fortran), nthreads=nthreads)
    except BloscpackError as err:
        err.at(path=container.name)
        raise
    return result


def check_nbytes(container: Container | Appender, dtype: Dtype, shape: tuple[int, ...]) -> None:
    """Check that the chunks hold exactly one array of this shape.

    Raises
    ------
    FormatError
        The decoded size of the chunks differs from that of the array.
    """
    nbytes = prod(shape) * dtype.itemsize
    if nbytes != container.nbytes:
        raise FormatError(
            f"metadata: shape {str(list(shape))[:80]} of {dtype} needs {nbytes} bytes, "
            f"the chunks hold {container.nbytes}",
            field="shape",
        )


def new_array(shape: tuple[int, ...], dtype: Dtype, is_fortran: bool) -> AnyArray:
    """Return a new array in the order of the file; the caller has checked its size.

    Raises
    ------
    FormatError
        The shape exceeds numpy's limits.
    """
    try:
        # np.ndarray, because np.empty turns S0 and U0 into S1 and U1.
        return np.ndarray(shape, dtype, order="F" if is_fortran else "C")
    except ValueError as err:
        raise FormatError(f"metadata: shape {str(list(shape))[:80]}: {err}", field="shape") from err


def stored_view(array: AnyArray, is_fortran: bool) -> memoryview:
    """Return the memory of `array` as writable bytes; it must be contiguous in the given order."""
    if array.nbytes == 0:
        return memoryview(bytearray())
    if array.ndim != 1:
        array = (array.T if is_fortran else array).reshape(-1)
    return array.view(np.uint8).data


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
) -> Layout:
    """Return the layout of an array of this dtype, shape and order; parameters as for `save`."""
    dtype, shape, fortran = description
    metadata = array_metadata(dtype, shape, fortran)
    if attrs:
        metadata["attrs"] = dict(attrs)
    if fortran:
        shape = shape[::-1]
        if isinstance(chunks, tuple):
            chunks = chunks[::-1]
    params = codec_params(codec, clevel, shuffle, dtype)
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


def rows_of_whole_chunks(chunk_size: int, nchunks: int, row_nbytes: int, nrows: int) -> int:
    """Return the smallest number of rows that fill whole chunks; `nrows` if there is one chunk.

    `chunk_size` and `row_nbytes` are in bytes.
    """
    if nchunks == 1 or not row_nbytes:
        return max(nrows, 1)
    return lcm(chunk_size, row_nbytes) // row_nbytes


def codec_params(
    codec: str, clevel: int | None, shuffle: str | int | bool, dtype: Dtype
) -> CodecParams:
    """Return the compression parameters for items of `dtype`; arguments as for `save`."""
    typesize = typesize_of(dtype)
    level = default_clevel(codec) if clevel is None else clevel
    return CodecParams(codec, level, _shuffle_for(shuffle, typesize), typesize)


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
