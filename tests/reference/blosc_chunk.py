"""Oracle: a Blosc-1 chunk header read byte by byte (C-Blosc 1.21, README_CHUNK_FORMAT.rst)."""

from typing import NamedTuple


class ParsedChunk(NamedTuple):
    version: int
    versionlz: int
    shuffle: str
    is_memcpy: bool
    is_split: bool
    codec: str
    typesize: int
    nbytes: int
    blocksize: int
    cbytes: int


def parse(chunk: bytes) -> ParsedChunk:
    def number(at: int) -> int:
        return sum(chunk[at + i] * 256**i for i in range(4))

    flags = chunk[2]
    shuffle = "byte" if flags & 1 else "bit" if flags & 4 else "none"
    codec = ["blosclz", "lz4", "snappy", "zlib", "zstd"][flags // 32]
    return ParsedChunk(
        chunk[0],
        chunk[1],
        shuffle,
        bool(flags & 2),
        not flags & 16,
        codec,
        chunk[3],
        number(4),
        number(8),
        number(12),
    )
