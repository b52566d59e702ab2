"""Chunks: names and ids, parameters, encoding, full and partial decoding.

A chunk begins with a 16-byte header (C-Blosc, README_CHUNK_FORMAT.rst) that holds its stored and
its decoded size. Both are checked against the bytes present before anything is allocated or
decoded, and the chunk is decoded into a buffer of exactly the declared size.

Chunks are of Blosc 1, or array chunks (`arraychunk`), which have the same 16 bytes in front. The
kernel of Blosc refuses array chunks, and only then is the version looked at: Blosc chunks pay
nothing. The module of array chunks is imported when the first one occurs.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..exceptions import CodecError, FormatError, NoSuchCodec, TruncatedError, UnsupportedError
from ..parallel.imports import compiled_kernels, importing
from ..types import BlockRun, BytesLike, StridedItems

with compiled_kernels():
    from .._ext import blosc as _blosc
    from .._ext import snappy as _snappy

if TYPE_CHECKING:  # most files need none
    from .arraychunk import ArrayChunkHead, ArrayChunkHeader
    from .rounding import Rounding
    from .statistics import Statistics

BLOSC_VERSION = _blosc.VERSION
# The kernel calls internal functions of C-Blosc, so it works only with the 1.21 series.
_EXPECTED_BLOSC = "1.21."
if not BLOSC_VERSION.startswith(_EXPECTED_BLOSC):
    raise ImportError(
        f"the compiled kernel is linked with C-Blosc {BLOSC_VERSION}; expected {_EXPECTED_BLOSC}x: "
        "build it again with the package 'blosc>=1.11.1,<1.12'"
    )
CHUNK_HEADER_SIZE = 1 + 1 + 1 + 1 + 4 + 4 + 4
MAX_CHUNK_NBYTES = _blosc.MAX_NBYTES  # 2^31 - 1 - 16: C-Blosc counts in int
MAX_TYPESIZE = 255  # one byte in the chunk header

_CHUNK_HEADER = Struct("<BBBBIII")
_BLOCK_START_SIZE = 4
_CHUNK_VERSION = 2  # BLOSC_VERSION_FORMAT; 3 to 5 are Blosc 2
ARRAY_CHUNK_VERSION = 0x82  # docs/formats/arraychunk.md
CHUNK_VERSIONS = (_CHUNK_VERSION, ARRAY_CHUNK_VERSION)  # first byte of a chunk
# Largest number of runs of blocks that are read for one selection; then their gaps are read, too.
_MAX_RUNS = 4096
_HEAD_NBYTES = Struct("<I")  # after the header of an array chunk: the size of everything in front

# Bits of the flags byte, stored on disk.
_FLAG_BYTE_SHUFFLE = 0x01
_FLAG_MEMCPY = 0x02
_FLAG_BIT_SHUFFLE = 0x04
_FLAG_NOT_SPLIT = 0x10

# Bits 5 to 7 of the flags byte, stored on disk: the format of the compressed streams.
STREAM_FORMATS = {0: "blosclz", 1: "lz4", 2: "snappy", 3: "zlib", 4: "zstd"}

# Largest expansion of a stream that its format allows: an upper bound for the decoded size of a
# valid chunk. LZ4 and BlosClz lengths grow by 255 per byte, a Snappy copy expands 3 bytes to 64, a
# DEFLATE match 2 bits to 258 bytes, and a Zstandard block 4 bytes to at most 128 KiB.
_MAX_EXPANSION = (256, 256, 64, 1040, 1 << 16, 0, 0, 0)  # by stream format

# Kernels for stream formats that a build of C-Blosc may lack, by name. Each decodes a stream into
# a buffer of its decoded size, and returns whether it filled the buffer exactly.
_DECODERS = {"snappy": _snappy.decompress_into}


class Shuffle(IntEnum):
    """Filter before the codec; the numbers are those of C-Blosc."""

    NONE = 0
    BYTE = 1
    BIT = 2


# Names for compression; lz4hc writes the lz4 format.
CODECS = _blosc.CODECS

# Creates a bytes object that is filled once; see the kernel.
new_bytes = _blosc.new_bytes


class ChunkHeader(NamedTuple):
    """Header of a chunk, its first 16 bytes."""

    # Format of the chunk and of its streams; of an array chunk, 0x82 and the revision.
    version: int
    versionlz: int
    flags: int  # filter, split and stream format; 0 in an array chunk
    typesize: int  # bytes per item
    nbytes: int  # decoded size in bytes
    blocksize: int  # decoded size of a block in bytes
    cbytes: int  # stored size in bytes, including this header

    @classmethod
    def unpack(cls, view: BytesLike, at: int = 0) -> "ChunkHeader":
        """Unpack and check the header at position `at` of `view`.

        Raises
        ------
        TruncatedError
            `view` has fewer than 16 bytes from `at` on.
        FormatError
            The sizes contradict each other or exceed the expansion that the codec allows.
        UnsupportedError
            It is a Blosc 2 chunk, or an array chunk of a later revision.
        """
        if len(view) - at < CHUNK_HEADER_SIZE:
            raise TruncatedError(
                f"Blosc header: found {max(len(view) - at, 0)} of {CHUNK_HEADER_SIZE} bytes"
            )
        # The same as `_make`, but saves a call.
        header = tuple.__new__(cls, _CHUNK_HEADER.unpack_from(view, at))
        version, _, flags, _, nbytes, _, cbytes = header
        if version != _CHUNK_VERSION:
            if version == ARRAY_CHUNK_VERSION:
                _array_chunk_types()[0](*header).check()
                return header
            if version > _CHUNK_VERSION:
                raise UnsupportedError(f"Blosc header: version {version} is not of Blosc 1")
            raise FormatError(f"Blosc header: version is {version}, expected {_CHUNK_VERSION}")
        if cbytes < CHUNK_HEADER_SIZE:
            raise FormatError(
                f"Blosc header: stored size {cbytes} is less than {CHUNK_HEADER_SIZE}"
            )
        if nbytes > MAX_CHUNK_NBYTES:
            raise FormatError(f"Blosc header: decoded size {nbytes} exceeds {MAX_CHUNK_NBYTES}")
        if flags & _FLAG_MEMCPY:
            if nbytes + CHUNK_HEADER_SIZE != cbytes:
                raise FormatError(
                    f"Blosc header: stored size {cbytes} does not match {nbytes} uncompressed bytes"
                )
        elif nbytes > cbytes * _MAX_EXPANSION[flags >> 5]:
            raise FormatError(
                f"Blosc header: {cbytes} bytes of {header.codec} cannot decode to {nbytes}"
            )
        return header

    @property
    def codec(self) -> str:
        """Name of the stream format, "array" of an array chunk; ``lz4hc`` chunks are ``lz4``."""
        if self.is_array:
            return "array"
        return STREAM_FORMATS.get(self.flags >> 5, f"unassigned ({self.flags >> 5})")

    @property
    def shuffle(self) -> Shuffle:
        """The filter."""
        if self.flags & _FLAG_BYTE_SHUFFLE:
            return Shuffle.BYTE
        return Shuffle.BIT if self.flags & _FLAG_BIT_SHUFFLE else Shuffle.NONE

    @property
    def is_array(self) -> bool:
        """Whether it is an array chunk."""
        return self.version == ARRAY_CHUNK_VERSION

    @property
    def is_memcpy(self) -> bool:
        """Whether the data are stored uncompressed."""
        return bool(self.flags & _FLAG_MEMCPY)

    def head_size(self, view: BytesLike) -> int:
        """Return the size in bytes of everything in front of the blocks; at most that of the chunk.

        `view` is the beginning of the chunk, of at least 20 bytes if the chunk has them.
        """
        if self.is_array:
            if len(view) < CHUNK_HEADER_SIZE + _HEAD_NBYTES.size:
                return self.cbytes
            size: int = _HEAD_NBYTES.unpack_from(view, CHUNK_HEADER_SIZE)[0]
            return min(size, self.cbytes)
        if self.is_memcpy or self.blocksize == 0:
            return CHUNK_HEADER_SIZE
        nblocks = -(-self.nbytes // self.blocksize)
        return min(CHUNK_HEADER_SIZE + _BLOCK_START_SIZE * nblocks, self.cbytes)

    @property
    def needs_expansion(self) -> bool:
        """Whether the streams have a decoder of ours, and this build of C-Blosc has none."""
        return self.codec in _DECODERS and not self.is_memcpy and self.codec not in CODECS

    @property
    def is_split(self) -> bool:
        """Whether each byte of an item has its own stream."""
        return not (self.flags & _FLAG_NOT_SPLIT or self.is_array)


class ItemEncoder(Protocol):
    """Encoder that knows the items of a chunk."""

    def encode(self, content: BytesLike, params: "CodecParams") -> bytes:
        """Return a chunk, of Blosc with these parameters if that is smaller.

        `content` may be a view of bytes with the axes of the chunk, and one for those of an item.
        """


@dataclass(frozen=True, slots=True)
class CodecParams:
    """Compression parameters of a chunk, checked on creation.

    Attributes
    ----------
    codec : str
        One of `CODECS`.
    clevel : int
        0 (store) to 9.
    shuffle : Shuffle
        The filter.
    typesize : int
        Bytes per item, 1 to 255.
    blocksize : int
        Bytes per block; 0 lets C-Blosc choose.
    residual : bool
        The data are residuals of a prediction. With Zstandard and a suitable block size they are
        mostly Huffman coded, at every level; otherwise the flag is ignored.
    rounding : Rounding, optional
        Rounding of the items before compression.
    items : ItemEncoder, optional
        Makes array chunks, where these are smaller than Blosc chunks.
    statistics : Statistics, optional
        Makes the statistics of chunks, which writers store in the trailer.
    """

    codec: str = "zstd"
    clevel: int = 3
    shuffle: int = Shuffle.BYTE
    typesize: int = 8
    blocksize: int = 0
    residual: bool = False
    rounding: "Rounding | None" = None
    items: ItemEncoder | None = None
    statistics: "Statistics | None" = None

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            hint = " (this build of C-Blosc lacks it)" if self.codec in STREAM_NAMES else ""
            raise NoSuchCodec(
                f"codec {self.codec!r} does not exist{hint}; choose from {', '.join(CODECS)}"
            )
        if not hasattr(self.clevel, "__index__"):
            raise TypeError(f"clevel must be an int from 0 to 9, not {self.clevel!r:.80}")
        if not 0 <= self.clevel <= 9:
            raise ValueError(f"clevel must be 0 to 9, not {self.clevel!r}")
        if self.shuffle not in (0, 1, 2):
            raise ValueError(f"shuffle must be 0, 1 or 2, not {self.shuffle!r}")
        if not 1 <= self.typesize <= MAX_TYPESIZE:
            raise ValueError(f"typesize must be 1 to {MAX_TYPESIZE}, not {self.typesize!r}")
        if not 0 <= self.blocksize <= MAX_CHUNK_NBYTES:
            raise ValueError(f"blocksize must be 0 to {MAX_CHUNK_NBYTES}, not {self.blocksize!r}")


STREAM_NAMES = frozenset(STREAM_FORMATS.values())


def encode(data: BytesLike, params: CodecParams) -> bytes:
    """Compress `data` to one new chunk. The GIL is released.

    `data` are contiguous bytes, or a contiguous view of bytes with several axes, as for
    `ItemEncoder.encode`.

    Raises
    ------
    ValueError
        `data` exceeds `MAX_CHUNK_NBYTES`, or is to be rounded and does not consist of whole items.
    CodecError
        C-Blosc failed.
    """
    if params.items is not None:
        return params.items.encode(data, params)
    if isinstance(data, memoryview) and data.ndim != 1:
        data = data.cast("B")
    if len(data) > MAX_CHUNK_NBYTES:
        raise ValueError(f"a chunk holds at most {MAX_CHUNK_NBYTES} bytes, not {len(data)}")
    if params.rounding is not None:
        data = params.rounding.apply(data)
    chunk = _blosc.compress(
        data,
        params.typesize,
        params.clevel,
        params.shuffle,
        params.codec.encode("ascii"),
        params.blocksize,
        params.residual,
    )
    if isinstance(chunk, int):
        raise CodecError(
            f"C-Blosc failed to compress {len(data)} bytes with {params} (code {chunk})",
            codec=params.codec,
            code=chunk,
        )
    return chunk


def encode_measured(data: BytesLike, params: CodecParams) -> tuple[bytes, bytes]:
    """Return a chunk, and the stored statistics of its items, which are empty without them.

    `data` are as for `encode`, which raises the same errors; they are rounded once for both.
    """
    statistics = params.statistics
    if statistics is None:
        return encode(data, params), b""
    if params.rounding is not None:
        view = memoryview(data)
        data = memoryview(params.rounding.apply(view.cast("B")))
        if view.shape is not None and view.ndim != 1:
            data = data.cast("B", view.shape)
        params = _rounded(params)
    record = statistics.record(data)  # first, as it also brings the items into the cache
    return encode(data, params), record


@lru_cache(maxsize=16)
def _rounded(params: CodecParams) -> CodecParams:
    """Return the parameters of items that are rounded already."""
    return replace(params, rounding=None)


def decode_into(chunk: BytesLike, out: BytesLike) -> None:
    """Decode `chunk` into `out`, a writable buffer of exactly the decoded size.

    The GIL is released; safe from many threads.

    Raises
    ------
    CodecError
        The chunk is damaged, or does not decode to ``len(out)`` bytes.
    """
    code = _blosc.decompress_into(chunk, out)
    if code != len(out):
        header = _check_whole(chunk)
        if header.is_array:
            _array_head(chunk).decode_into(chunk, out)
            return
        if header.needs_expansion:
            chunk = _expand(chunk, header)
            code = _blosc.decompress_into(chunk, out)
        if code != len(out):
            raise _decode_error(header, len(out), code)


def decode(chunk: BytesLike, nbytes: int) -> bytes:
    """Return the content of `chunk`, of `nbytes` bytes; errors are those of `decode_into`."""
    content, view = new_bytes(nbytes)
    with view:
        decode_into(chunk, view)
    return content


def uncompressed_content(chunk: BytesLike) -> memoryview | None:
    """Return a view of the content of a chunk, or None if it is compressed.

    Raises
    ------
    FormatError, CodecError
        The header of the chunk is invalid, or is that of a chunk of another size.
    """
    is_memcpy = _check_whole(chunk).is_memcpy
    return memoryview(chunk)[CHUNK_HEADER_SIZE:] if is_memcpy else None


def decode_range_into(chunk: BytesLike, start: int, out: BytesLike) -> None:
    """Decode bytes ``start`` to ``start + len(out)`` of the content of `chunk` into `out`.

    Only the Blosc blocks that hold these bytes are decoded. Raises as `decode_into` does.
    """
    code = _blosc.decompress_range_into(chunk, start, out)
    if code != len(out):
        header = _check_whole(chunk)
        if header.is_array:
            _array_head(chunk).decode_range_into(chunk, 0, start, out)
            return
        if header.needs_expansion:
            chunk = _expand(chunk, header)
            code = _blosc.decompress_range_into(chunk, start, out)
        if code != len(out):
            raise _decode_error(header, len(out), code)


def extent_of_range(head: BytesLike, start: int, stop: int) -> tuple[int, int]:
    """Return the stored range of the blocks that hold bytes `start` to `stop` of the content.

    `head` is the first `ChunkHeader.head_size` bytes of the chunk. If only the whole chunk can be
    decoded, the range starts at 0.

    Raises
    ------
    CodecError
        The head is damaged, or the chunk has no such bytes.
    """
    extent = _blosc.extent_of_range(head, start, stop)
    # The kernel does not look at the version, and leaves other chunks to C-Blosc as a whole.
    if (extent is None or not extent[0]) and head[:1] == bytes((ARRAY_CHUNK_VERSION,)):
        return _known_head(bytes(head)).extent_of_range(start, stop)
    if extent is None:
        raise CodecError(f"the chunk has no blocks for its bytes {start} to {stop}")
    return extent


def decode_blocks_into(
    head: BytesLike, stored: BytesLike, low: int, start: int, out: BytesLike
) -> None:
    """Decode bytes ``start`` to ``start + len(out)`` from `stored`, a part of a chunk.

    `head` is as in `extent_of_range`, which returns the needed part; `low` is the start of the
    part. Raises as `decode_into` does.
    """
    code = _blosc.decompress_blocks_into(head, stored, low, start, out)
    if code != len(out):
        header = ChunkHeader.unpack(head)
        if header.is_array:
            _known_head(bytes(head)).decode_range_into(stored, low, start, out)
            return
        raise _decode_error(header, len(out), code)


def runs_of_items(head: bytes, items: StridedItems) -> list[BlockRun] | None:
    """Return the runs of adjacent blocks of a chunk that hold `items`.

    None if they are one run of a Blosc chunk, or not a box of an array chunk. `head` is as in
    `extent_of_range`. Raises as that does.
    """
    if head[0] == ARRAY_CHUNK_VERSION:
        return _known_head(head).runs_of_items(items)
    header = ChunkHeader.unpack(head)
    size, starts = header.blocksize, [items.offset]
    low, high = 0, items.itemsize
    for length, stride in zip(items.shape, items.strides, strict=True):
        if 0 < size <= abs(stride) and length * len(starts) <= _MAX_RUNS:
            starts = [start + stride * index for start in starts for index in range(length)]
        else:
            low, high = low + min(stride, 0) * (length - 1), high + max(stride, 0) * (length - 1)
    found: list[tuple[int, int]] = []
    for start in sorted(starts) if len(starts) > 1 else ():
        first, stop = (start + low) // size, (start + high - 1) // size + 1
        if found and first <= found[-1][1]:
            first, stop = found[-1][0], max(stop, found.pop()[1])
        found.append((first, stop))
    if len(found) < 2:
        return None
    runs = [
        BlockRun(a, b, *extent_of_range(head, a * size, min(b * size, header.nbytes)))
        for a, b in found
    ]
    return runs if runs[0].low else None  # from 0: C-Blosc, which decodes it, needs the whole chunk


def decode_run_into(head: bytes, stored: BytesLike, run: BlockRun, out: BytesLike) -> None:
    """Decode the blocks of `run` from `stored` to their places in `out`, the whole content.

    Raises as `decode_into` does.
    """
    if head[0] == ARRAY_CHUNK_VERSION:
        _known_head(head).decode_run_into(stored, run, out)
        return
    size = ChunkHeader.unpack(head).blocksize
    start = run.first * size
    decode_blocks_into(head, stored, run.low, start, memoryview(out)[start : run.stop * size])


@cache
def _array_chunk_types() -> "tuple[type[ArrayChunkHeader], type[ArrayChunkHead]]":
    with importing:  # threads decode the first array chunk while the process may fork
        from .arraychunk import ArrayChunkHead, ArrayChunkHeader

    return ArrayChunkHeader, ArrayChunkHead


def _array_head(view: BytesLike) -> "ArrayChunkHead":
    return _array_chunk_types()[1].unpack(view)


# A read of some blocks asks for their extent and decodes them, often of one chunk many times.
@lru_cache(maxsize=64)
def _known_head(head: bytes) -> "ArrayChunkHead":
    return _array_head(head)


def _check_whole(chunk: BytesLike) -> ChunkHeader:
    header = ChunkHeader.unpack(chunk)
    if header.cbytes != len(chunk):
        raise CodecError(f"the chunk has {header.cbytes} bytes; got {len(chunk)}")
    return header


def _decode_error(header: ChunkHeader, nbytes: int, code: int) -> CodecError:
    if code == _blosc.NO_MEMORY:
        message = f"not enough memory for blocks of {header.blocksize} bytes"
    elif code == _blosc.WRONG_SIZE:
        message = f"the chunk decodes to {header.nbytes} bytes, expected {nbytes}"
    else:
        message = f"C-Blosc cannot decode the {header.cbytes} bytes of {header.codec} (code {code})"
    return CodecError(message, codec=header.codec, code=code)


def _expand(chunk: BytesLike, header: ChunkHeader) -> bytes:
    """Return the chunk with its streams stored uncompressed, so that C-Blosc can decode it.

    A Blosc-1 chunk is a header, the position of each block (u32) and the blocks. A block is one
    stream, or one stream per byte of an item. A stream is its size (i32) and its data, which are
    uncompressed if the size equals that of the decoded stream (c-blosc, blosc.c, ``blosc_d``).
    """
    codec = header.codec
    if not 0 < header.blocksize <= header.nbytes:
        raise CodecError(f"block size {header.blocksize} is not 1 to {header.nbytes}", codec=codec)
    view = memoryview(chunk)
    nblocks = -(-header.nbytes // header.blocksize)
    table = Struct(f"<{nblocks}I")
    if CHUNK_HEADER_SIZE + table.size > header.cbytes:
        raise CodecError(f"{nblocks} blocks do not fit into {header.cbytes} bytes", codec=codec)
    flags = header.flags & 0x1F | 1 << 5  # lz4; any codec accepts uncompressed streams
    # Before c-blosc 1.11, which added the flag, small blocks and wide items were not split either.
    may_split = header.is_split and 0 < header.typesize <= MAX_SPLITS
    may_split = may_split and header.blocksize // header.typesize >= _MIN_SPLIT_NBYTES
    starts = []
    parts: list[BytesLike] = []
    position = CHUNK_HEADER_SIZE + table.size
    for index, start in enumerate(table.unpack_from(view, CHUNK_HEADER_SIZE)):
        block_nbytes = min(header.blocksize, header.nbytes - index * header.blocksize)
        # C-Blosc does not split a shorter last block.
        nstreams = header.typesize if may_split and block_nbytes == header.blocksize else 1
        if block_nbytes % nstreams:
            raise CodecError(
                f"block {index}: {block_nbytes} bytes cannot be split into {nstreams} streams",
                codec=codec,
            )
        starts.append(position)
        for _ in range(nstreams):
            nbytes = block_nbytes // nstreams
            stream, start = _decoded_stream(view, start, nbytes, codec)
            parts += (_STREAM_SIZE.pack(nbytes), stream)
            position += _STREAM_SIZE.size + nbytes
    head = header._replace(flags=flags, cbytes=position)
    return b"".join((_CHUNK_HEADER.pack(*head), table.pack(*starts), *parts))


_STREAM_SIZE = Struct("<i")
MAX_SPLITS = 16  # c-blosc, blosc.c: MAX_SPLITS
_MIN_SPLIT_NBYTES = 128  # c-blosc, blosc.c: MIN_BUFFERSIZE


def _decoded_stream(view: memoryview, start: int, nbytes: int, codec: str) -> tuple[BytesLike, int]:
    """Return the decoded stream of `nbytes` at `start`, and its end."""
    first = start + _STREAM_SIZE.size
    size = _STREAM_SIZE.unpack_from(view, start)[0] if first <= len(view) else -1
    if not 0 < size <= len(view) - first:
        raise CodecError(
            f"stream of {size} bytes at offset {start} exceeds the chunk of {len(view)} bytes",
            codec=codec,
        )
    stored = view[first : first + size]
    if size == nbytes:
        return stored, first + size
    out = bytearray(nbytes)
    if not _DECODERS[codec](stored, out):
        raise CodecError(f"the {codec} stream at offset {start} is damaged", codec=codec)
    return out, first + size
