"""Oracle: Bloscpack files assembled and parsed with struct and hashlib only.

It checks nothing, so it can also make invalid files.
"""

import hashlib
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from .blosc_chunk import parse

NAMES = ("None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")
SIZES = (0, 4, 4, 16, 20, 28, 32, 48, 64)
HEADER = "<4sBBBBiiqq"


def digest(name: str, data: bytes) -> bytes:
    if name == "None":
        return b""
    if name in ("adler32", "crc32"):
        return struct.pack("<I", getattr(zlib, name)(data))
    return hashlib.new(name, data).digest()


def header(
    *,
    version: int = 3,
    options: int = 0,
    checksum: int = 0,
    typesize: int = 8,
    chunk_size: int = 0,
    last_chunk: int = 0,
    nchunks: int = 1,
    spare: int = 0,
) -> bytes:
    return struct.pack(
        HEADER,
        b"blpk",
        version,
        options,
        checksum,
        typesize,
        chunk_size,
        last_chunk,
        nchunks,
        spare,
    )


def assemble(
    chunks: Sequence[bytes],
    *,
    checksum: str = "adler32",
    offsets: bool | Sequence[int] = True,
    spare: int = 0,
    section: bytes = b"",
    trailing: bytes = b"",
    version: int = 3,
    typesize: int = 8,
    chunk_size: int | None = None,
    last_chunk: int | None = None,
    nchunks: int | None = None,
) -> bytes:
    """Return a file of these Blosc chunks; given values replace the correct ones."""
    nchunks = len(chunks) if nchunks is None else nchunks
    table_size = 8 * (nchunks + spare) if offsets else 0
    position = 32 + len(section) + table_size
    right, body = [], bytearray()
    for chunk in chunks:
        right.append(position + len(body))
        body += chunk + digest(checksum, chunk)
    entries = list(offsets) if isinstance(offsets, Sequence) else right
    entries = (entries + [-1] * (nchunks + spare))[: nchunks + spare]
    table = struct.pack(f"<{len(entries)}q", *entries) if offsets else b""
    sizes = [parse(chunk).nbytes for chunk in chunks] or [0]
    front = header(
        version=version,
        options=bool(offsets) | 2 * bool(section),
        checksum=NAMES.index(checksum),
        typesize=typesize,
        chunk_size=sizes[0] if chunk_size is None else chunk_size,
        last_chunk=sizes[-1] if last_chunk is None else last_chunk,
        nchunks=nchunks,
        spare=spare,
    )
    return front + section + table + body + trailing


@dataclass(frozen=True, slots=True)
class Parts:
    section: bytes
    offsets: list[int]
    chunks: list[bytes]
    starts: list[int]
    trailing: bytes


def take_apart(file: bytes) -> Parts:
    """Return the parts of a valid file of an array or of bytes after comparing every digest."""
    _, version, options, checksum, _, _, _, nchunks, spare = struct.unpack_from(
        HEADER, file.ljust(32, b"\0")
    )
    position = 32
    if version == 1:
        (nchunks,), options, checksum, spare, position = (
            struct.unpack_from("<q", file, 8),
            0,
            0,
            0,
            16,
        )
    if version == 4:
        checksum, position = file[38], 64
    section = b""
    if options & 2:
        reserved = struct.unpack_from("<I", file, position + 16)[0]
        size = 32 + reserved + SIZES[file[position + 9]]
        section = file[position : position + size]
        position += size
    offsets: list[int] = []
    if options & 1:
        offsets = list(struct.unpack_from(f"<{nchunks}q", file, position))
        position += 8 * (nchunks + spare)
    chunks, starts = [], []
    for _ in range(nchunks):
        size = parse(file[position : position + 16]).cbytes
        chunk = file[position : position + size]
        end = position + size + SIZES[checksum]
        assert digest(NAMES[checksum], chunk) == file[position + size : end]
        chunks.append(chunk)
        starts.append(position)
        position = end
    return Parts(section, offsets, chunks, starts, file[position:])
