"""Reader of Bloscpack files of bytes and arrays, written from docs/formats/bloscpack.md alone.

It makes all checks that the page requires. `describe` returns everything that a reader must find,
in the form of the files in tests/conformance.
"""

import ast
import contextlib
import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xxhash import xxh3_64_digest, xxh3_128_digest

from . import arraychunk
from .chunk_decoder import MAX_NBYTES, Chunk, decode_chunk, unpack_header
from .refused import RefusedError, need

NAMES = ("None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")
CHECKSUMS = (*NAMES, "xxh3_64", "xxh3_128")
SIZES = (0, 4, 4, 16, 20, 28, 32, 48, 64, 8, 16)
HEADER_SIZES = {1: 16, 2: 32, 3: 32, 4: 64}
MAX_COUNT = 2**63 - 1
# Features: chunks may be array chunks, and form a grid.
ARRAY_CHUNKS, GRID = 2, 4


def is_array(chunk: bytes) -> bool:
    return chunk[:1] == b"\x82"


def digest_of(checksum: int, data: bytes) -> bytes:
    if checksum in (1, 2):
        number = (zlib.adler32 if checksum == 1 else zlib.crc32)(data)
        return struct.pack("<I", number)
    if checksum == 9:
        return bytes(xxh3_64_digest(data))
    if checksum == 10:
        return bytes(xxh3_128_digest(data))
    return hashlib.new(NAMES[checksum], data).digest() if checksum else b""


@dataclass(frozen=True, slots=True)
class Header:
    version: int
    options: int
    checksum: int
    typesize: int
    chunk_size: int
    last_chunk: int
    nchunks: int
    spare: int
    features: int = 0

    @property
    def size(self) -> int:
        return HEADER_SIZES[self.version]


def read_header(file: bytes, known_features: int = 0) -> Header:
    need(b"blpk".startswith(file[:4]), "not-bloscpack", f"the file starts with {file[:4]!r}")
    need(len(file) >= 16, "truncated", "the header is cut")
    version = file[4]
    if version == 1:
        (nchunks,) = struct.unpack_from("<q", file, 8)
        need(file[5:8] == bytes(3) and nchunks >= 0, "format", "version 1: a field is wrong")
        return Header(1, 0, 0, 0, -1, -1, nchunks, 0)
    need(len(file) >= 32, "truncated", "the header is cut")
    need(version in HEADER_SIZES, "unsupported", f"format version {version}")
    options, checksum, *rest = struct.unpack_from("<BBBiiqq", file, 5)
    need(options < 4, "format", "an option bit is set that must be 0")
    features = 0
    if version == 4:
        checksum, features = _read_extension(file, known_features)
    need(checksum <= (10 if version == 4 else 8), "format", f"checksum {checksum}")
    header = Header(version, options, checksum, *rest, features)
    _check_header(header)
    return header


def _read_extension(file: bytes, known_features: int) -> tuple[int, int]:
    need(len(file) >= 64, "truncated", "the extended header is cut")
    magic, size, checksum, features, _ = struct.unpack_from("<4sHBxII", file, 32)
    need((magic, size) == (b"BLPX", 32), "format", "not an extended header")
    need(xxh3_64_digest(file[:56]) == file[56:64], "checksum", "the header is damaged")
    need(features & ~known_features == 0, "unsupported", f"features {features:#x}")
    return checksum, features


def _check_header(h: Header) -> None:
    need(-1 <= h.chunk_size <= MAX_NBYTES, "format", "chunk_size")
    need(-1 <= h.last_chunk <= MAX_NBYTES, "format", "last_chunk")
    need(h.nchunks >= -1 and h.spare >= 0, "format", "nchunks or max_app_chunks")
    need(h.nchunks + h.spare <= MAX_COUNT, "format", "nchunks and max_app_chunks")
    need(h.last_chunk != 0 or h.nchunks <= 1, "format", "last_chunk is 0")
    need(h.options & 1 or not h.spare, "format", "spare entries without a table")
    need(h.nchunks >= 0 or not (h.options & 1 or h.spare), "format", "a table of unknown length")
    if h.version == 2:
        need(not h.options & 2 and not h.spare, "format", "version 2 has no metadata")
    else:
        need(h.chunk_size < 0 or h.last_chunk <= h.chunk_size, "format", "last_chunk")


def read_metadata(file: bytes, at: int, last_checksum: int) -> tuple[Any, int]:
    """Return the metadata and the end of their section."""
    need(len(file) >= at + 32, "truncated", "the metadata header is cut")
    magic, _, checksum, codec, level, size, reserved, stored = struct.unpack_from(
        "<8sBBBBIII", file, at
    )
    need(magic == b"JSON\0\0\0\0", "unsupported", f"metadata of {magic!r}")
    need(checksum <= last_checksum and codec <= 1 and level <= 9, "format", "metadata header")
    need(stored <= reserved, "format", "meta_comp_size exceeds max_meta_size")
    need(codec or size == stored, "format", "meta_size is not meta_comp_size")
    need(size <= max(16 << 20, 64 * stored), "format", "the metadata expand too much")
    behind = at + 32 + reserved
    end = behind + SIZES[checksum]
    need(end <= len(file), "truncated", "the metadata are cut")
    data = file[at + 32 : at + 32 + stored]
    early = file[at + 32 + stored :][: SIZES[checksum]]
    digest = digest_of(checksum, data)
    need(digest in (file[behind:end], early), "checksum", "the metadata are damaged")
    if codec == 1:
        try:
            data = zlib.decompressobj().decompress(data, size + 1)
        except zlib.error as err:
            raise RefusedError("format", f"the metadata do not decompress: {err}") from err
    need(len(data) == size, "format", "the metadata have another size")
    try:
        return json.loads(data), end
    except ValueError as err:
        raise RefusedError("format", "the metadata are not JSON") from err


@dataclass(frozen=True, slots=True)
class ReadChunk:
    offset: int
    head: Chunk
    digest: bytes


@dataclass(frozen=True, slots=True)
class File:
    header: Header
    metadata: Any
    table: tuple[int, ...] | None
    chunks: list[ReadChunk]
    content: bytes
    end: int
    trailer: str


def read_file(file: bytes) -> File:
    """Return everything in a file of bytes or of an array."""
    header = read_header(file, ARRAY_CHUNKS | GRID)
    at, metadata = header.size, None
    if header.options & 2:
        metadata, at = read_metadata(file, at, 10 if header.version == 4 else 8)
    front, table = at, None
    if header.options & 1:
        count = header.nchunks + header.spare
        need(count <= (len(file) - at) // 8, "truncated", "the offset table is cut")
        table = struct.unpack_from(f"<{count}q", file, at)
        at += 8 * count
    chunks: list[ReadChunk] = []
    content = []
    while len(chunks) < header.nchunks if header.nchunks >= 0 else at < len(file):
        head, end = _chunk_at(file, at, header.checksum)
        chunk, digest = file[at : at + head.cbytes], file[at + head.cbytes : end]
        last = len(chunks) == header.nchunks - 1 if header.nchunks >= 0 else end == len(file)
        promised = header.last_chunk if last else header.chunk_size
        need(promised in (head.nbytes, -1), "format", "a chunk has another decoded size")
        need(digest_of(header.checksum, chunk) == digest, "checksum", f"chunk at {at} is damaged")
        content.append(arraychunk.decode(chunk) if is_array(chunk) else decode_chunk(chunk))
        chunks.append(ReadChunk(at, head, digest))
        at = end
    trailer = read_trailer(file, header, front, table, chunks, at)
    if trailer == "absent":
        _check_end(file, header, table, at)
    return File(header, metadata, table, chunks, b"".join(content), at, trailer)


def _chunk_at(file: bytes, at: int, checksum: int) -> tuple[Chunk, int]:
    """Return the header of the chunk at a position, and the end of its digest."""
    view = file[at : at + 16]
    head = arraychunk.unpack_header(view) if is_array(view) else unpack_header(view)
    end = at + head.cbytes + SIZES[checksum]
    need(end <= len(file), "truncated", f"the chunk at {at} is cut")
    return head, end


def _check_end(file: bytes, header: Header, table: tuple[int, ...] | None, at: int) -> None:
    """Refuse a file that has more chunks than it declares."""
    if table is not None:
        spare = table[header.nchunks : header.nchunks + 1]
        need(spare in ((), (-1,)), "format", "nchunks is too small: the table has another entry")
    elif at < len(file) and header.checksum:
        try:
            head, end = _chunk_at(file, at, header.checksum)
        except RefusedError:
            return
        found = file[at + head.cbytes : end]
        follows = digest_of(header.checksum, file[at : at + head.cbytes]) == found
        need(not follows, "format", "nchunks is too small: another chunk follows")


def read_trailer(
    file: bytes,
    header: Header,
    front: int,
    table: tuple[int, ...] | None,
    chunks: list[ReadChunk],
    end: int,
) -> str:
    """Return the state of the trailer: "valid", "stale" or "absent"."""
    tail = file[-64:]
    if header.version < 3 or tail[:8] != b"BLPKTRLR" or len(tail) < 64:
        return "absent"
    version, size, head_nbytes, offset, nbytes, nchunks = struct.unpack_from("<HHIQQQ", tail, 8)
    pages_nbytes = 16 * -(-nchunks // 4096)
    covered = file[len(file) - pages_nbytes - head_nbytes - 64 :]
    if (
        version != 1
        or head_nbytes > 65536
        or size not in (0, 32)
        or nbytes != (8 + size) * nchunks + pages_nbytes + head_nbytes + 64
        or offset + nbytes != len(file)
        or nchunks > offset // 16
        or pages_nbytes > 4 << 20
        or xxh3_64_digest(covered[:-8]) != tail[56:]
    ):
        return "absent"
    head = covered[pages_nbytes : pages_nbytes + head_nbytes]
    if xxh3_64_digest(file[:front]) != tail[48:56]:
        need(_is_stale(head, file[:front], header), "format", "the front differs from its copy")
        return "stale"
    digests = file[offset : offset + 8 * nchunks]
    for page in range(-(-nchunks // 4096)):
        some = slice(4096 * page, min(4096 * (page + 1), nchunks))
        entries = b"" if table is None else struct.pack(f"<{len(table[some])}q", *table[some])
        own = digests[8 * some.start : 8 * some.stop]
        need(xxh3_64_digest(entries) == covered[16 * page :][:8], "checksum", "the offset table")
        need(xxh3_64_digest(own) == covered[16 * page + 8 :][:8], "checksum", "the digests")
    need(offset == end and nchunks == len(chunks), "format", "the trailer is of another file")
    for number, chunk in enumerate(chunks):
        stored = file[chunk.offset : chunk.offset + chunk.head.cbytes]
        known = digests[8 * number :][:8]
        need(known in (bytes(8), xxh3_64_digest(stored)), "checksum", f"chunk {number}")
    if size:
        statistics = file[offset + 8 * nchunks :][: 32 * nchunks]
        need(xxh3_64_digest(statistics) == tail[40:48], "checksum", "the statistics")
    return "valid"


def _is_stale(copy: bytes, front: bytes, header: Header) -> bool:
    """Return whether a program that ignores the trailer can have changed its copy to this front."""
    before = read_header(copy)
    same = ("version", "options", "features", "checksum", "typesize", "chunk_size")
    if before == header:
        return len(copy) == len(front) and copy[header.size + 32 :] != front[header.size + 32 :]
    return (
        not header.features & GRID
        and all(getattr(before, name) == getattr(header, name) for name in same)
        and before.nchunks + before.spare == header.nchunks + header.spare
        and _nbytes(header) > _nbytes(before)
    )


def _nbytes(header: Header) -> int:
    return (header.nchunks - 1) * header.chunk_size + header.last_chunk


def read_array(found: File) -> np.ndarray[Any, np.dtype[Any]] | None:
    """Return the array of a file, None if it holds bytes."""
    meta = found.metadata
    if not isinstance(meta, dict) or meta.get("container") != "numpy":
        return None
    dtype = parse_dtype(meta["dtype"])
    if "logical_dtype" in meta:
        logical = parse_logical(meta["logical_dtype"])
        need(logical.itemsize == dtype.itemsize, "format", "logical_dtype has another size")
        dtype = logical
    shape, order = meta["shape"], meta.get("order", "C")
    nbytes = dtype.itemsize * prod(shape)
    if found.header.features & GRID:
        return _read_grid(found, dtype, tuple(shape), order)
    need(nbytes == len(found.content), "format", f"shape needs {nbytes} bytes")
    return np.ndarray(shape, dtype, found.content, order=order)


def _read_grid(
    found: File, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any
) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an array that is stored as parts along all axes, in C order of the grid."""
    array = np.zeros(shape, dtype, order=order)
    stored, chunks = array, tuple(found.metadata["chunks"])
    if order == "F":
        stored, chunks = array.T, chunks[::-1]
    counts = [-(-length // step) for length, step in zip(stored.shape, chunks, strict=True)]
    need(found.header.chunk_size == -1, "format", "chunk_size of a grid")
    need((prod(counts) or 1) == len(found.chunks), "format", "the grid has another size")
    at = 0
    for place, chunk in zip(np.ndindex(*counts), found.chunks, strict=False):
        box = tuple(slice(p * n, (p + 1) * n) for p, n in zip(place, chunks, strict=True))
        part = stored[box]
        need(part.nbytes == chunk.head.nbytes, "format", f"the chunk at {place} has another size")
        content = found.content[at : at + part.nbytes]
        part[...] = np.frombuffer(content, dtype).reshape(part.shape)
        at += part.nbytes
    return array


def parse_dtype(text: Any) -> np.dtype[Any]:
    if isinstance(text, str):
        with contextlib.suppress(ValueError, SyntaxError):
            text = ast.literal_eval(text)
    if isinstance(text, str):
        need(text.lstrip("<>|=")[:1] != "O", "object-dtype", "Python objects")
        return np.dtype(text)
    if len(text) == 1 and text[0][0] == "":
        return parse_dtype(text[0][1])
    names, titles, formats, offsets, at = [], [], [], [], 0
    for number, (name, kind, *shape) in enumerate(text):
        title, name = name if isinstance(name, list | tuple) else (None, name)
        item = parse_dtype(kind)
        item = np.dtype((item, tuple(shape[0]))) if shape else item
        if name or not str(kind).startswith("|V"):
            names.append(name or f"f{number}")
            titles.append(title)
            formats.append(item)
            offsets.append(at)
        at += item.itemsize
    return _structure(names, titles, formats, offsets, at)


def parse_logical(value: Any) -> np.dtype[Any]:
    if isinstance(value, str):
        if value[0] in "<>|=":
            return np.dtype(value)
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, value))
    if "base" in value:
        return np.dtype((parse_logical(value["base"]), tuple(value["shape"])))
    formats = [parse_logical(each) for each in value["formats"]]
    return _structure(value["names"], value["titles"], formats, value["offsets"], value["itemsize"])


def _structure(names: Any, titles: Any, formats: Any, offsets: Any, itemsize: int) -> np.dtype[Any]:
    fields = {"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize}
    if any(title is not None for title in titles):
        fields["titles"] = titles
    return np.dtype(fields)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def describe(file: bytes) -> dict[str, Any]:
    """Return everything that a reader must find in a file."""
    return describe_file(read_file(file))


def describe_file(found: File) -> dict[str, Any]:
    """Return the description of a file that was read."""
    header = found.header
    array = read_array(found)
    described: dict[str, Any] = {
        "kind": "bytes" if array is None else "array",
        "header": {
            "format_version": header.version,
            "checksum": CHECKSUMS[header.checksum],
            "typesize": header.typesize,
            "chunk_size": header.chunk_size,
            "last_chunk": header.last_chunk,
            "nchunks": header.nchunks,
            "max_app_chunks": header.spare,
        },
        "metadata": found.metadata,
        "offsets": None if found.table is None else list(found.table),
        "chunks": [
            {
                "offset": chunk.offset,
                "cbytes": chunk.head.cbytes,
                "nbytes": chunk.head.nbytes,
                "digest": chunk.digest.hex(),
                "codec": chunk.head.codec,
                "shuffle": chunk.head.shuffle,
                "typesize": chunk.head.typesize,
                "blocksize": chunk.head.blocksize,
                "uncompressed": chunk.head.is_stored,
            }
            for chunk in found.chunks
        ],
        "chunks_end": found.end,
        "trailer": found.trailer,
        "content": {"nbytes": len(found.content), "sha256": sha256(found.content)},
    }
    if array is not None:
        described["array"] = {
            "dtype": array.dtype.name if array.dtype.isbuiltin == 2 else str(array.dtype.str),
            "shape": list(array.shape),
            "order": found.metadata.get("order", "C"),
            "attrs": found.metadata.get("attrs", {}),
            "sha256": sha256(array.tobytes()),
        }
    return described
