"""Layout of a new file of an array: its header, metadata, chunks and compression."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

import numpy as np

from ..container.blocks import MIN_SAMPLED_NBYTES, SAMPLE_NBYTES, with_small_blocks
from ..container.defaults import DEFAULT_CODEC, default_clevel, default_shuffle, spare_entries
from ..container.writer import Chunking, build_header, features_of, new_section, write_container
from ..format.checksum import checksum_by_name
from ..format.chunkgrid import ChunkGrid
from ..format.codec import MAX_CHUNK_NBYTES, MAX_TYPESIZE, CodecParams, Shuffle
from ..format.header import UNKNOWN, Header
from ..format.metadata import DEFAULT_META_CHECKSUM, attr_values
from ..format.rounding import Rounding
from ..parallel.imports import importing
from ..parallel.threads import resolve_nthreads
from ..storage.protocol import ByteSink
from ..types import Access, AnyArray, Codec, Progress
from ..types import Shuffle as ShuffleName
from .arraymetadata import Description, array_metadata, statistics_type, stored_view
from .dtype import Dtype

if TYPE_CHECKING:  # most files need none
    from .chunkcodec.chunkencoder import ArrayItems

Chunks: TypeAlias = int | tuple[int, ...] | str | None
"""Rows per chunk, the shape of a chunk, "auto", or None for the default."""

AUTO = "auto"  # as codec: array chunks, or Blosc chunks where they are smaller
TARGET_CHUNK_NBYTES = 1 << 20
# Rows up to this size are never cut by default; larger ones are cut along the next axis.
_MAX_ROW_NBYTES = 64 << 20

# Limits of automatic chunks of an array whose first length is not known: rows of a chunk, and size
# of a row of the grid.
_MAX_SERIES = 1024
_MAX_GRID_ROW_NBYTES = 64 << 20
# Longest last axis that counts as channels of a picture.
_MAX_CHANNELS = 4

# Block sizes are compared on a sample of about 1/64 of the array; smaller samples mislead.
_MIN_SAMPLE_NBYTES = 128 << 10

_SHUFFLES = {
    "none": Shuffle.NONE,
    "byte": Shuffle.BYTE,
    "bit": Shuffle.BIT,
    0: Shuffle.NONE,  # and False; 1 also stands for True
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
    return stored_view(np.ascontiguousarray(with_axes_stored(array)), False)


def typesize_of(dtype: Dtype) -> int:
    """Return the typesize for the shuffle filter: the item size, if Blosc supports it.

    For larger items: 4 for unicode, the size of a character, else 1.
    """
    if 1 <= dtype.itemsize <= MAX_TYPESIZE:
        return dtype.itemsize
    return 4 if dtype.kind == "U" else 1


class SaveOptions(TypedDict, total=False):
    """Options that decide the content of a new file, as `bloscpack.save` documents them."""

    chunks: Chunks
    access: Access | None
    codec: Codec
    clevel: int | None
    shuffle: ShuffleName
    checksum: str | None
    attrs: Mapping[str, Any] | None
    keepbits: int | None
    stats: bool


class Settings(NamedTuple):
    """Settings of a new file: options and defaults."""

    chunks: Chunks = None
    access: Access | None = None
    codec: str = DEFAULT_CODEC
    clevel: int | None = None
    shuffle: str | int | bool = "auto"
    checksum: str | None = "crc32"
    attrs: Mapping[str, Any] | None = None
    keepbits: int | None = None
    stats: bool = False


SAVE_DEFAULTS = Settings._field_defaults


class Layout(NamedTuple):
    """Layout of an array in a new file, computed from its description without its data.

    Attributes
    ----------
    header : Header
        Header with the number and sizes of chunks.
    section : bytes
        Metadata section.
    division : Chunking or ChunkGrid
        Division of the array into chunks: runs of its stored bytes, or a grid.
    params : CodecParams
        Compression parameters, with the block size left to C-Blosc.
    """

    header: Header
    section: bytes
    division: Chunking | ChunkGrid
    params: CodecParams

    @property
    def chunk_size(self) -> int:
        """Decoded size in bytes of all chunks but the last, or those at the edges of a grid."""
        division = self.division
        return division.chunk_nbytes if isinstance(division, ChunkGrid) else division.chunk_size

    @property
    def front_nbytes(self) -> int:
        """Size of everything before the first chunk, in bytes."""
        return self.header.size + len(self.section) + self.header.table_size

    def write(
        self,
        sink: ByteSink,
        array: AnyArray,
        *,
        nthreads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write a file of the array, which the layout was planned for, to an empty sink."""
        stored = with_axes_stored(array)
        threads = resolve_nthreads(nthreads, array.nbytes)
        params, sample = self.params, self.sample(stored)
        if sample is not None:
            params = with_small_blocks(params, sample, self.chunk_size, nthreads=threads)
        write_container(
            sink,
            self.header,
            self.section,
            self.cut(stored),
            params,
            nthreads=threads,
            nbytes=self.division.nbytes,
            progress=progress,
            trailer=True,
        )

    @property
    def _sample_nbytes(self) -> int:
        """Size of the sample on which block sizes are compared; 0 if the array is too small."""
        nbytes = self.division.nbytes
        if nbytes < MIN_SAMPLED_NBYTES:
            return 0
        return min(self.chunk_size, max(nbytes // 64, _MIN_SAMPLE_NBYTES), SAMPLE_NBYTES)

    def sample_rows(self, row_nbytes: int) -> tuple[int, int] | None:
        """Return the rows (start, stop) with the sample on which block sizes are compared.

        They contain a chunk in the middle, or its beginning; None if the array is too small. Rows
        are those of the array as it is stored.
        """
        count = self._sample_nbytes
        if not count:
            return None
        if isinstance(self.division, ChunkGrid):
            side = self.division.box(self._middle)[0]
            return side.start, side.stop
        start = self._middle * self.chunk_size
        stop = min(start + count, self.division.nbytes)
        return start // row_nbytes, -(-stop // row_nbytes)

    def sample(self, stored: AnyArray, first: int = 0) -> memoryview | None:
        """Return the sample on which block sizes are compared; None if the array is too small.

        `stored` has the rows `sample_rows` at least, in C order, beginning with row `first`.
        """
        count = self._sample_nbytes
        if not count:
            return None
        if isinstance(self.division, ChunkGrid):
            side, *others = self.division.box(self._middle)
            box = [slice(one.start, one.stop) for one in others]
            rows = slice(side.start - first, side.stop - first)
            return stored_bytes(np.ascontiguousarray(stored[(rows, *box)]))[:count]
        row_nbytes = stored.nbytes // stored.shape[0] if stored.ndim else stored.nbytes
        start = self._middle * self.chunk_size - first * row_nbytes
        return _run_of(stored, start, min(start + count, stored.nbytes))

    @property
    def _middle(self) -> int:
        """Index of a chunk in the middle."""
        division = self.division
        if not isinstance(division, ChunkGrid):
            return division.nbytes // 2 // division.chunk_size
        index = 0
        for count in division.counts:
            index = index * count + count // 2
        return index

    def cut(self, stored: AnyArray) -> Iterable[memoryview]:
        """Yield the chunks of the array, or of rows of it that are whole chunks.

        `stored` is in C order; that of an array in Fortran order is its transpose.
        """
        division = self.division
        if isinstance(division, ChunkGrid):
            return cut_grid(stored, division.with_rows(stored.shape[0]))
        return cut_runs(stored, division.chunk_size)


def with_axes_stored(array: AnyArray) -> AnyArray:
    """Return `array` with its axes as they are stored: reversed if it is in Fortran order."""
    array = np.asarray(array)  # reshaping a matrix or masked array would not give plain bytes
    return array.T if is_fortran(array) else array


def cut_runs(stored: AnyArray, chunk_size: int) -> Iterable[memoryview]:
    """Yield runs of the bytes of an array in C order, views if it is contiguous."""
    if stored.flags.c_contiguous or not stored.nbytes:
        content = stored_view(stored, False)
        if len(content) <= chunk_size:
            return (content,)
        return Chunking.of(len(content), chunk_size).cut(content)
    end = stored.nbytes
    return (_run_of(stored, at, min(at + chunk_size, end)) for at in range(0, end, chunk_size))


def _run_of(stored: AnyArray, start: int, stop: int) -> memoryview:
    """Return bytes `start` to `stop` of an array in C order: a view if it is contiguous."""
    if stored.flags.c_contiguous:
        return stored_view(stored, False)[start:stop]
    row = stored.nbytes // len(stored)
    first, last = start // row, -(-stop // row)
    if last - first == 1:
        return _run_of(stored[first, ...], start - first * row, stop - first * row)
    if last - first == 2:  # rows may be much larger than the parts of them
        border = (first + 1) * row
        parts = _run_of(stored, start, border), _run_of(stored, border, stop)
        return memoryview(b"".join(parts))
    block = np.ascontiguousarray(stored[first:last])
    return stored_view(block, False)[start - first * row : stop - first * row]


def cut_grid(stored: AnyArray, grid: ChunkGrid) -> Iterator[memoryview]:
    """Yield the chunks of an array in a grid; its axes are those of the grid.

    Each is a view of bytes with the axes of the chunk and one for the bytes of an item.
    """
    for index in range(grid.nchunks):
        box = tuple(slice(side.start, side.stop) for side in grid.box(index))
        content = stored_bytes(np.ascontiguousarray(stored[box]))
        if content:
            content = content.cast("B", (*grid.lengths(index), stored.itemsize))
        yield content


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape of an array, given as numpy takes it; ValueError if it is not one."""
    lengths = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if not all(hasattr(n, "__index__") and not isinstance(n, bool) and n >= 0 for n in lengths):
        raise ValueError(f"shape must be a tuple of lengths, not {shape!r:.80}")
    return tuple(map(int, lengths))


def plan_layout(description: Description, settings: Settings) -> Layout:
    """Return the layout of an array of this dtype, shape and order."""
    division = divide(description, settings.chunks, settings.access)
    metadata, params = plan_content(description, settings, division)
    if isinstance(division, ChunkGrid):
        last_chunk = division.size(division.nchunks - 1)
        chunking = Chunking(division.nchunks, UNKNOWN, last_chunk)
    else:
        chunking = division
    header = build_header(
        chunking,
        checksum=checksum_by_name(settings.checksum),
        typesize=params.typesize,
        offsets=True,
        max_app_chunks=spare_entries(chunking.nchunks),
        meta_checksum=checksum_by_name(DEFAULT_META_CHECKSUM),
        features=features_of(params, has_grid=isinstance(division, ChunkGrid)),
    )
    return Layout(header, new_section(metadata), division, params)


@lru_cache(maxsize=256)
def default_layout(dtype: Dtype, shape: tuple[int, ...], is_fortran: bool) -> Layout:
    """Return the layout without options: arrays of a set are often of one type and shape."""
    return plan_layout((dtype, shape, is_fortran), Settings())


def divide(description: Description, chunks: Chunks, access: str | None) -> Chunking | ChunkGrid:
    """Return the division of an array into chunks; `chunks` and `access` as for `save`.

    It is a grid only if chunks cut an axis other than the first one as stored.
    """
    dtype, shape, fortran = description
    itemsize = dtype.itemsize
    if fortran:
        shape = shape[::-1]
        if isinstance(chunks, tuple):
            chunks = chunks[::-1]
    _check_access(access)
    if isinstance(chunks, str):
        chunks = _auto_chunks(shape, itemsize, chunks, access)
    elif access is not None and not isinstance(chunks, tuple):
        raise ValueError(f"access={access!r} needs chunks='auto', or the shape of a chunk")
    if isinstance(chunks, tuple):
        lengths = _checked_chunks(shape, chunks)
        if lengths[1:] != shape[1:] and prod(shape[1:]) * itemsize:
            grid = ChunkGrid(shape, lengths, itemsize, fortran)
            if grid.chunk_nbytes > MAX_CHUNK_NBYTES:
                raise ValueError(
                    f"chunks of {lengths[:: -1 if fortran else 1]} items are {grid.chunk_nbytes} "
                    f"bytes; there may be at most {MAX_CHUNK_NBYTES}"
                )
            # Without items, the file does not say how large they are.
            return grid if prod(shape) else replace(grid, itemsize=0)
        chunks = lengths[0]
    return Chunking.of(prod(shape) * itemsize, chunk_nbytes(shape, itemsize, chunks))


def grid_chunks(division: Chunking | ChunkGrid | None) -> tuple[int, ...] | None:
    """Return the shape of a chunk in the order of the array's axes; None without a grid."""
    if not isinstance(division, ChunkGrid):
        return None
    return division.chunks[:: -1 if division.is_fortran else 1]


def _checked_chunks(shape: tuple[int, ...], chunks: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of a chunk, cut to the array along all axes but the first."""
    if not shape:
        raise ValueError("an array without dimensions has no rows: chunks does not apply")
    if len(chunks) != len(shape):
        raise ValueError(
            f"chunks has {len(chunks)} lengths, expected one for each of {len(shape)} axes"
        )
    for length in chunks:
        if isinstance(length, bool) or not hasattr(length, "__index__"):
            raise TypeError(f"chunks must be a number of rows or a shape, not {chunks!r}")
        if int(length) < 1:
            raise ValueError(f"chunks must be at least 1 along each axis, not {chunks}")
    first, *others = map(int, chunks)
    return first, *(min(step, n) for step, n in zip(others, shape[1:], strict=True))


def _auto_chunks(
    shape: tuple[int, ...], itemsize: int, chunks: str, access: str | None
) -> tuple[int, ...] | None:
    """Return the shape of chunks of about 1 MiB for a way of access; None: the default.

    `shape` is that of the array as it is stored. The length of the first axis is 0 if it is not
    known yet.
    """
    if chunks != "auto":
        raise TypeError(f"chunks must be a number of rows, a shape or 'auto', not {chunks!r}")
    if access == "rows" or len(shape) < 2 or not prod(shape[1:]) * itemsize:
        return None
    most = max(TARGET_CHUNK_NBYTES // itemsize, 1)
    first = shape[0]
    if not first:  # rows of the grid are held in memory until they are full
        row_nbytes = prod(shape[1:]) * itemsize
        first = min(_MAX_SERIES, max(_MAX_GRID_ROW_NBYTES // row_nbytes, 1))
    lengths = (first, *shape[1:])
    if access == "series":
        first = min(first, most)
        found = (first, *_cut_evenly(lengths[1:], most // first))
    elif access == "tiles":
        # A short last axis of channels is part of the picture.
        naxes = 3 if shape[-1] <= _MAX_CHANNELS and len(shape) > 2 else 2
        tile = _cut_evenly(lengths[-naxes:], most)
        left = most // prod(tile)
        leading: list[int] = []
        for length in lengths[:-naxes][::-1]:
            leading.append(max(min(length, left), 1))
            left //= leading[-1]
        found = (*leading[::-1], *tile)
    else:
        found = _cut_evenly(lengths, most)
    return found


def _check_access(access: str | None) -> None:
    if access not in (None, "rows", "tiles", "series"):
        raise ValueError(f"access must be 'rows', 'tiles' or 'series', not {access!r}")


def _cut_evenly(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the shape of a chunk of up to `most` items, of about equal length along all axes.

    Every axis is cut into equal parts, so that no chunk at an edge is much smaller than others.
    """
    lengths: dict[int, int] = {}
    left = max(most, 1)
    # Short axes are not cut; the longer ones share what is left.
    for place, axis in enumerate(sorted(range(len(shape)), key=shape.__getitem__)):
        # The root of 1000 is 9.999999999999998.
        edge = max(int(left ** (1 / (len(shape) - place)) + 1e-9), 1)
        count = ceil(shape[axis] / edge)
        lengths[axis] = -(-shape[axis] // count) if count else 1
        left = max(left // lengths[axis], 1)
    return tuple(lengths[axis] for axis in range(len(shape)))


def item_encoder(description: Description, access: str | None = None) -> "ArrayItems | None":
    """Return the encoder for array chunks; None if the dtype has none."""
    with importing:  # on use: most files have no array chunks
        from .chunkcodec.chunkencoder import ArrayItems, kind_of

    dtype, shape, is_fortran = description
    if kind_of(dtype) is None:
        return None
    return ArrayItems(dtype, shape[-2::-1] if is_fortran else shape[1:], access)


def plan_content(
    description: Description, settings: Settings, division: Chunking | ChunkGrid | None = None
) -> tuple[dict[str, Any], CodecParams]:
    """Return the metadata of an array and its compression parameters.

    These do not depend on the number of rows; of the chunks, only the shape of a grid is in them.
    """
    dtype = description[0]
    metadata = array_metadata(*description, grid_chunks(division))
    values = attr_values(settings.attrs)
    rounding = None
    if settings.keepbits is not None:
        rounding = Rounding.of(dtype, settings.keepbits)
        rounding.record(values)
        metadata["keepbits"] = rounding.keepbits
    if values:
        metadata["attrs"] = values
    typesize = typesize_of(dtype)
    codec, items = settings.codec, None
    if codec == AUTO:
        hint = settings.access if settings.access == "series" and "chunks" in metadata else None
        codec, items = DEFAULT_CODEC, item_encoder(description, hint)
        if hint is not None and items is not None:
            metadata["access"] = hint  # for rows that are appended
    level = default_clevel(codec) if settings.clevel is None else settings.clevel
    filter_ = _shuffle_for(settings.shuffle, typesize)
    statistics = statistics_type().of(dtype) if settings.stats else None
    params = CodecParams(
        codec, level, filter_, typesize, rounding=rounding, items=items, statistics=statistics
    )
    return metadata, params


def auto_params(description: Description) -> CodecParams:
    """Return the compression parameters of ``codec="auto"`` and otherwise the defaults."""
    return plan_content(description, Settings(codec=AUTO))[1]


def _shuffle_for(shuffle: str | int | bool, typesize: int) -> Shuffle:
    if shuffle == "auto":
        return default_shuffle(typesize)
    try:
        return _SHUFFLES[shuffle]
    except KeyError:
        raise ValueError(
            f"shuffle must be 'auto', 'none', 'byte' or 'bit', not {shuffle!r}"
        ) from None


def chunk_nbytes(shape: tuple[int, ...], itemsize: int, chunks: int | None) -> int:
    """Return the size of a chunk of some rows of the stored `shape`; by default about 1 MiB."""
    row = prod(shape[1:]) * itemsize
    if chunks is None:
        return _default_chunk_nbytes(shape, itemsize)
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
