"""Blocks of a chunk: the choice of their size, and reading some of them.

A block has no checksum of its own. Blocks are read separately only if the checksum of their chunk
has already been compared, or verification is off.
"""

from dataclasses import replace

from ..exceptions import BloscpackError, FormatError, TruncatedError
from ..format.codec import (
    MAX_SPLITS,
    ChunkHeader,
    CodecParams,
    decode_blocks_into,
    decode_run_into,
    encode,
    extent_of_range,
)
from ..parallel.threads import map_ordered
from ..storage.coalescing import LOCAL, REMOTE, plan_runs
from ..storage.protocol import ByteSource
from ..types import BlockRun, BytesLike
from .chunktable import check_room
from .front import PROBE_NBYTES

# Block sizes to try, in decoded bytes. LZ4 splits a block into a stream per byte of an item, so its
# blocks are at least 64 KiB.
_SMALL_BLOCKS = {
    "zstd": (16 << 10, 32 << 10, 64 << 10),
    "lz4": (64 << 10, 128 << 10, 256 << 10),
    "lz4hc": (64 << 10, 128 << 10, 256 << 10),
}
# Largest growth of the compressed size that small blocks may cause.
_MAX_GROWTH = 1.028
# Largest number of blocks per chunk: more made writing a fifth slower, and rows little cheaper.
_MAX_BLOCKS = 32
# Smallest content for which sizes are tried, and size of the sample, in bytes.
MIN_SAMPLED_NBYTES = 4 << 20
SAMPLE_NBYTES = 512 << 10
# Of the default level of Zstandard, a lower one to try, which takes less than half of the time; the
# growth of the compressed size that it may cause, and the size of the sample in bytes.
_QUICK_LEVEL, _MAX_QUICK_GROWTH, _QUICK_NBYTES = 2, 1.01, 128 << 10


def with_small_blocks(
    params: CodecParams, sample: BytesLike, chunk_nbytes: int, *, nthreads: int = 1
) -> CodecParams:
    """Return `params` with the smallest block size that compresses about as well as the default.

    With small blocks, reading part of a chunk decodes few bytes besides the requested ones.

    Parameters
    ----------
    params : CodecParams
        Parameters with the block size that C-Blosc chooses.
    sample : bytes-like
        Sample of the content, compressed with each candidate.
    chunk_nbytes : int
        Size of a chunk in bytes; a block is at least 1/32 of it.
    nthreads : int
        Number of threads for the trials.
    """
    splits = params.codec != "zstd" and 1 < params.typesize <= MAX_SPLITS
    rounding = params.rounding
    # The blocks of array chunks are not chosen here.
    trial = replace(params, rounding=None, items=None)
    if rounding is not None:  # once, and not in each trial
        sample = rounding.apply(sample[: len(sample) // rounding.itemsize * rounding.itemsize])
    tried = [trial]
    for nbytes in _SMALL_BLOCKS.get(params.codec, ()) if params.clevel else ():
        if nbytes * _MAX_BLOCKS >= chunk_nbytes:
            # With several streams per block, C-Blosc takes the size of one stream.
            tried.append(replace(trial, blocksize=nbytes // params.typesize if splits else nbytes))

    def size_with(candidate: CodecParams) -> int:
        return len(encode(sample, candidate))

    # The iterator is exhausted, because one that is dropped midway swallows an interrupt.
    own, *sizes = map_ordered(size_with, tried[:2], nthreads)
    for small in tried[1:]:
        nbytes = sizes.pop() if sizes else size_with(small)
        if nbytes <= _MAX_GROWTH * own:
            return replace(params, blocksize=small.blocksize)
    return params


def with_quick_level(params: CodecParams, sample: BytesLike) -> CodecParams:
    """Return `params` of the default level with a lower one that compresses about as well.

    `sample` is a chunk, of which the beginning is compressed with both.
    """
    if params.codec != "zstd" or params.clevel <= _QUICK_LEVEL or params.items is not None:
        return params
    some = memoryview(sample).cast("B")[:_QUICK_NBYTES]
    quick = replace(params, clevel=_QUICK_LEVEL)
    is_small = len(encode(some, quick)) <= _MAX_QUICK_GROWTH * len(encode(some, params))
    return quick if is_small else params


def read_head(source: ByteSource, offset: int, nbytes: int) -> bytes:
    """Return the part in front of the blocks of the chunk of `nbytes` at `offset`.

    Raises
    ------
    FormatError
        It is not a chunk, or of another decoded size.
    """
    head = source.read_at(offset, PROBE_NBYTES)
    header = ChunkHeader.unpack(head)
    size = header.head_size(head)
    if size > len(head):
        head = _read_part(source, offset, 0, size)
    if header.nbytes != nbytes:
        raise FormatError(
            f"decoded size is {header.nbytes} bytes, expected {nbytes}", offset=offset
        )
    return bytes(head[:size])


def read_blocks_into(
    source: ByteSource, head: tuple[int, bytes], start: int, out: BytesLike
) -> bool:
    """Read and decode the blocks of bytes ``start`` to ``start + len(out)`` of a chunk.

    Parameters
    ----------
    source : ByteSource
        The file.
    head : (int, bytes)
        Offset of the chunk, and the result of `read_head`.

    Returns
    -------
    bool
        False if the whole chunk must be read: its codec does not support partial decoding, or
        the chunk has changed or is damaged. Reading the whole chunk then raises the proper
        error.
    """
    offset, front = head
    try:
        low, high = extent_of_range(front, start, start + len(out))
        if low == 0:  # C-Blosc decodes this codec, and needs the whole chunk
            return False
        stored = _read_part(source, offset, low, high)
        decode_blocks_into(front, stored, low, start, out)
    except BloscpackError:
        return False
    return True


def read_runs_into(
    source: ByteSource, head: tuple[int, bytes], runs: list[BlockRun], out: BytesLike
) -> bool:
    """Read runs of blocks of a chunk, and decode them to their places in `out`, its content.

    The result is as that of `read_blocks_into`.
    """
    offset, front = head
    policy = REMOTE if source.has_latency else LOCAL
    lows, highs = [run.low for run in runs], [run.high for run in runs]
    try:
        for first, last, low, high in plan_runs(lows, highs, policy):
            stored = memoryview(_read_part(source, offset, low, high))
            for run in runs[first:last]:
                decode_run_into(front, stored[run.low - low : run.high - low], run, out)
    except BloscpackError:
        return False
    return True


def _read_part(source: ByteSource, offset: int, low: int, high: int) -> BytesLike:
    """Return bytes `low` to `high` of the chunk at `offset`; TruncatedError without them."""
    nbytes = high - low
    if nbytes > LOCAL.max_nbytes:  # the read allocates them, and a hostile chunk may claim 4 GiB
        check_room(source, "chunk", offset + low, nbytes)
    stored = source.read_at(offset + low, nbytes)
    if len(stored) < nbytes:
        raise TruncatedError(f"chunk: found {len(stored)} of {nbytes} bytes", offset=offset + low)
    return stored
