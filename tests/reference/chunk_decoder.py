"""Decoder of Blosc-1 chunks in plain Python and numpy, from docs/formats/blosc-chunk.md alone."""

import struct
from typing import NamedTuple

import numpy as np

from .refused import need
from .streams import decode_stream

FORMATS = ("blosclz", "lz4", "snappy", "zlib", "zstd")
EXPANSION = (256, 256, 64, 1040, 65536)
BYTE_SHUFFLE, STORED, BIT_SHUFFLE, NOT_SPLIT = 0x01, 0x02, 0x04, 0x10
MAX_NBYTES = 2**31 - 1 - 16


class Chunk(NamedTuple):
    """Header of a chunk."""

    flags: int
    typesize: int
    nbytes: int
    blocksize: int
    cbytes: int

    @property
    def codec(self) -> str:
        return FORMATS[self.flags >> 5]

    @property
    def is_stored(self) -> bool:
        return bool(self.flags & STORED)

    @property
    def shuffle(self) -> str:
        return (
            "byte" if self.flags & BYTE_SHUFFLE else "bit" if self.flags & BIT_SHUFFLE else "none"
        )


def unpack_header(view: bytes) -> Chunk:
    """Return the checked header of the chunk at the beginning of `view`."""
    need(len(view) >= 16, "truncated", "the header of a chunk is cut")
    version, _, flags, typesize, nbytes, blocksize, cbytes = struct.unpack_from("<BBBBIII", view)
    need(version == 2, "unsupported" if version > 2 else "format", f"chunk version {version}")
    need(cbytes >= 16 and nbytes <= MAX_NBYTES, "format", "the sizes of a chunk are out of range")
    if flags & STORED:
        need(cbytes == nbytes + 16, "format", "an uncompressed chunk has another size")
    else:
        known = flags >> 5 < len(FORMATS)
        need(known and nbytes <= cbytes * EXPANSION[flags >> 5], "format", "it cannot expand so")
    return Chunk(flags, typesize, nbytes, blocksize, cbytes)


def decode_chunk(data: bytes) -> bytes:
    """Return the content of a whole chunk."""
    chunk = unpack_header(data)
    need(chunk.cbytes == len(data), "codec", "a chunk of another size")
    if chunk.is_stored:
        return data[16:]
    if not chunk.nbytes:
        return b""
    need(0 < chunk.blocksize <= chunk.nbytes and chunk.typesize, "codec", "bad block size")
    nblocks = -(-chunk.nbytes // chunk.blocksize)
    need(16 + 4 * nblocks <= len(data), "codec", "the block starts are cut")
    starts = struct.unpack_from(f"<{nblocks}I", data, 16)
    return b"".join(_decode_block(data, chunk, k, start) for k, start in enumerate(starts))


def _decode_block(data: bytes, chunk: Chunk, index: int, start: int) -> bytes:
    size = min(chunk.blocksize, chunk.nbytes - index * chunk.blocksize)
    nstreams = 1
    if (
        not chunk.flags & NOT_SPLIT
        and chunk.typesize <= 16
        and size == chunk.blocksize
        and size // chunk.typesize >= 128
    ):
        nstreams = chunk.typesize
    need(size % nstreams == 0, "codec", "a block is not a multiple of its streams")
    block, at, length = b"", start, size // nstreams
    for _ in range(nstreams):
        need(at + 4 <= len(data), "codec", "a stream starts behind the chunk")
        (stored,) = struct.unpack_from("<I", data, at)
        stream = data[at + 4 : at + 4 + stored]
        need(len(stream) == stored, "codec", "a stream ends behind the chunk")
        if stored != length:
            stream = decode_stream(chunk.flags >> 5, stream, length)
        block += stream
        at += 4 + stored
    if chunk.flags & BYTE_SHUFFLE:
        return unshuffle_bytes(block, chunk.typesize)
    return unshuffle_bits(block, chunk.typesize) if chunk.flags & BIT_SHUFFLE else block


def unshuffle_bytes(block: bytes, typesize: int) -> bytes:
    whole = len(block) // typesize * typesize
    if not whole:
        return block
    items = np.frombuffer(block[:whole], "u1").reshape(typesize, -1).T
    return items.tobytes() + block[whole:]


def unshuffle_bits(block: bytes, typesize: int) -> bytes:
    count = len(block) // typesize
    if count % 8 or not count:
        return block
    whole = count * typesize
    bits = np.unpackbits(np.frombuffer(block[:whole], "u1"), bitorder="little")
    # Bit i of row 8 k + b is bit b of byte k of item i.
    bits = bits.reshape(typesize, 8, count).transpose(2, 0, 1)
    return np.packbits(bits.reshape(-1), bitorder="little").tobytes() + block[whole:]
