"""The blocks of a chunk: how large they are made, and how they are read by themselves.

A block has no checksum of its own: blocks are read alone only of chunks whose checksum was
compared, or need not be.
"""

from dataclasses import replace

from ..exceptions import CodecError, FormatError
from ..format.codec import (
    MAX_SPLITS,
    ChunkHeader,
    CodecParams,
    decode_blocks_into,
    encode,
    extent_of_range,
)
from ..parallel.threads import map_ordered
from ..storage.protocol import ByteSource
from ..types import BytesLike
from .chunk import PROBE_NBYTES

# Decoded sizes of a block that are tried. LZ4 has a stream for each byte of the items, in blocks of
# at least 64 KiB.
_SMALL_BLOCKS = {
    "zstd": (16 << 10, 32 << 10, 64 << 10),
    "lz4": (64 << 10, 128 << 10, 256 << 10),
    "lz4hc": (64 << 10, 128 << 10, 256 << 10),
}
# What small blocks may cost in size.
_MAX_GROWTH = 1.028
# Smaller blocks than this part of a chunk are slower to write and gain little.
_MAX_BLOCKS = 32
# Content of at least so many bytes is worth trying, on a sample of at most as many as the other.
MIN_SAMPLED_NBYTES = 4 << 20
SAMPLE_NBYTES = 512 << 10


def with_small_blocks(
    params: CodecParams, sample: BytesLike, chunk_nbytes: int, *, nthreads: int = 1
) -> CodecParams:
    """Return `params` with the smallest blocks that hardly compress worse than C-Blosc's choice.

    Part of a chunk then costs little more to decode than its bytes.

    Parameters
    ----------
    params : CodecParams
        With the block size that C-Blosc chooses.
    sample : bytes-like
        Some of the content, compressed with each candidate.
    chunk_nbytes : int
        Size of a chunk, of which a block is at least a thirty-second part.
    nthreads : int
        Threads that try.
    """
    splits = params.codec != "zstd" and 1 < params.typesize <= MAX_SPLITS
    tried = [params]
    for nbytes in _SMALL_BLOCKS.get(params.codec, ()) if params.clevel else ():
        if nbytes * _MAX_BLOCKS >= chunk_nbytes:
            # C-Blosc counts the bytes of one stream where there are several.
            tried.append(replace(params, blocksize=nbytes // params.typesize if splits else nbytes))

    def size_with(candidate: CodecParams) -> int:
        return len(encode(sample, candidate))

    # All of the iterator is used: one that is dropped midway swallows an interrupt.
    own, *sizes = map_ordered(size_with, tried[:2], nthreads)
    for small in tried[1:]:
        nbytes = sizes.pop() if sizes else size_with(small)
        if nbytes <= _MAX_GROWTH * own:
            return small
    return params


def read_head(source: ByteSource, offset: int, nbytes: int) -> bytes:
    """Return the Blosc header and the block starts of the chunk of `nbytes` at `offset`.

    Raises
    ------
    FormatError
        No such chunk is there.
    """
    head = source.read_at(offset, PROBE_NBYTES)
    header = ChunkHeader.unpack(head)
    if header.head_size > len(head):
        head = source.read_at(offset, header.head_size)
    if header.nbytes != nbytes:
        raise FormatError(f"decodes to {header.nbytes} bytes, not {nbytes}", offset=offset)
    return bytes(head[: header.head_size])


def read_blocks_into(
    source: ByteSource, head: tuple[int, bytes], start: int, out: BytesLike
) -> bool:
    """Read and decode the blocks of bytes ``start`` to ``start + len(out)`` of a chunk.

    Parameters
    ----------
    source : ByteSource
        The file.
    head : (int, bytes)
        Offset of the chunk, and what `read_head` gives.

    Returns
    -------
    bool
        False where the whole chunk is needed: its codec has no such blocks, or it is not what it
        was. Then whoever reads all of it finds the words for it.
    """
    offset, front = head
    try:
        low, high = extent_of_range(front, start, start + len(out))
        if low == 0:
            return False
        stored = source.read_at(offset + low, high - low)
        if len(stored) < high - low:
            return False
        decode_blocks_into(front, stored, low, start, out)
    except CodecError:
        return False
    return True
