"""Files made by hand, field by field, so that each field may be false.

Nothing here uses the writers of the package, because they would refuse such files.
"""

import json
import struct
import zlib
from typing import Any

from bloscpack.format.checksum import checksum_by_name

# Flags of a chunk.
BYTE_SHUFFLE, MEMCPY, BIT_SHUFFLE, NOT_SPLIT = 0x01, 0x02, 0x04, 0x10
BLOSCLZ, LZ4, SNAPPY, ZLIB, ZSTD = 0x00, 0x20, 0x40, 0x60, 0x80

ARRAY = {"dtype": "'|u1'", "shape": [4], "order": "C", "container": "numpy"}


def header(
    *,
    version: int = 3,
    options: int = 0,
    checksum: int = 0,
    typesize: int = 1,
    chunk_size: int = 0,
    last_chunk: int = 0,
    nchunks: int = 1,
    max_app_chunks: int = 0,
) -> bytes:
    fields = (options, checksum, typesize, chunk_size, last_chunk, nchunks, max_app_chunks)
    return struct.pack("<4sBBBBiiqq", b"blpk", version, *fields)


def memcpy_chunk(data: bytes, typesize: int = 1) -> bytes:
    """Return a chunk that holds `data` uncompressed."""
    nbytes = len(data)
    return (
        struct.pack("<BBBBIII", 2, 1, MEMCPY, typesize, nbytes, max(nbytes, 1), 16 + nbytes) + data
    )


def chunk(
    flags: int, typesize: int, nbytes: int, blocksize: int, blocks: list[list[bytes]]
) -> bytes:
    """Return a compressed chunk of `blocks`, each a list of streams."""
    starts, body = [], b""
    for streams in blocks:
        starts.append(16 + 4 * len(blocks) + len(body))
        body += b"".join(struct.pack("<i", len(stream)) + stream for stream in streams)
    cbytes = 16 + 4 * len(blocks) + len(body)
    head = struct.pack("<BBBBIII", 2, 1, flags, typesize, nbytes, blocksize, cbytes)
    return head + struct.pack(f"<{len(blocks)}i", *starts) + body


def section(
    metadata: Any = None,
    *,
    raw: bytes | None = None,
    compress: bool = False,
    checksum: int = 0,
    size: int | None = None,
) -> bytes:
    """Return a metadata section; `raw` replaces the JSON value, `size` the true size."""
    data = json.dumps(metadata).encode() if raw is None else raw
    stored = zlib.compress(data, 9) if compress else data
    fields = (checksum, int(compress), 6, len(data) if size is None else size)
    return struct.pack("<8sBBBBIII8s", b"JSON", 0, *fields, len(stored), len(stored), b"") + stored


def file_of(
    chunks: list[bytes],
    *,
    meta: bytes = b"",
    offsets: bool = False,
    checksum: str = "None",
    **fields: int,
) -> bytes:
    """Return a file of these chunks; `fields` replace true values of the header."""
    row = checksum_by_name(checksum)
    sizes = [int.from_bytes(one[4:8], "little") for one in chunks]
    true = {
        "options": offsets | 2 * bool(meta),
        "checksum": row.id,
        "chunk_size": sizes[0] if sizes else 0,
        "last_chunk": sizes[-1] if sizes else 0,
        "nchunks": len(chunks),
        "max_app_chunks": 0,
    }
    front = header(**(true | fields)) + meta
    spare = true["max_app_chunks"] if "max_app_chunks" not in fields else fields["max_app_chunks"]
    position = len(front) + (8 * (len(chunks) + spare) if offsets else 0)
    table = b""
    body = b""
    for one in chunks:
        table += struct.pack("<q", position + len(body))
        body += one + row.digest(one)
    table += b"\xff" * (8 * spare)
    return front + (table if offsets else b"") + body


def array_file(metadata: Any = None, data: bytes = b"abcd", **options: Any) -> bytes:
    """Return a file of one chunk with these metadata (a value, or a whole section as bytes)."""
    meta = metadata if isinstance(metadata, bytes) else section(metadata)
    return file_of([memcpy_chunk(data)], meta=meta, **options)
