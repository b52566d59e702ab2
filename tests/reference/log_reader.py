"""Reader of logs, files that change, written from docs/formats/log.md alone."""

import struct
from typing import Any

from xxhash import xxh3_64_digest

from . import arraychunk
from .array_reader import (
    ARRAY_CHUNKS,
    GRID,
    SIZES,
    File,
    ReadChunk,
    describe_file,
    is_array,
    read_header,
    read_metadata,
)
from .chunk_decoder import decode_chunk, unpack_header
from .refused import RefusedError, need

LOG = 0x20
Row = tuple[int, int, bytes]


def read_log(file: bytes) -> File:
    """Return everything in the last state of a log of one array."""
    need(read_header(file, LOG).features == LOG, "unsupported", "not a log of one array")
    end, groups = _last_commit(file)
    rows = _leaves(file, groups, end)
    need(len(rows) == 1, "format", "more than one group")
    group = _extent(file, rows[0], end)
    need(len(group) >= 40, "format", "a node is cut")
    name_nbytes, flags, front_nbytes, tree = struct.unpack_from("<HHI32s", group)
    need(flags in (0, 1), "unsupported", "flags of a node")
    start = 72 if flags else 40
    need(len(group) == start + name_nbytes + front_nbytes, "format", "more than one node")
    front = group[start + name_nbytes :]
    header = read_header(front, ARRAY_CHUNKS | GRID)
    metadata = read_metadata(front, header.size, 10)[0] if header.options & 2 else None
    rows = _leaves(file, tree, end)
    need(len(rows) == header.nchunks, "format", "nchunks")
    chunks, content = [], []
    for number, row in enumerate(rows):
        data = _extent(file, row, end)
        head = arraychunk.unpack_header(data) if is_array(data) else unpack_header(data)
        need(head.cbytes + SIZES[header.checksum] == len(data), "format", "size of a chunk")
        is_last = number == header.nchunks - 1
        promised = header.last_chunk if is_last else header.chunk_size
        need(promised in (head.nbytes, -1), "format", "a chunk has another decoded size")
        chunk = data[: head.cbytes]
        content.append(arraychunk.decode(chunk) if is_array(chunk) else decode_chunk(chunk))
        chunks.append(ReadChunk(row[0], head, data[head.cbytes :]))
    if flags:
        leaves = _leaves(file, group[40:72], end)
        sizes = [len(_extent(file, row, end)) for row in leaves]
        steps = range(0, len(chunks), 256)
        need(sizes == [32 * min(256, len(chunks) - at) for at in steps], "format", "statistics")
    return File(header, metadata, None, chunks, b"".join(content), end, "absent")


def _last_commit(file: bytes) -> tuple[int, bytes]:
    """Return the end of the log, and the tree of groups."""
    found = []
    for at in (4096, 4224, 8192, 8320):
        stored = file[at : at + 128]
        if stored[:8] == b"BLPKCMIT" and xxh3_64_digest(stored[:120]) == stored[120:]:
            sequence, end, groups, *added, flags = struct.unpack_from(
                "<Q8xQ8x32s20xQI8s2xH", stored, 8
            )
            found.append((sequence, flags & 1, end, groups, tuple(added)))
    need(bool(found), "format", "no commit is intact")
    for sequence, is_confirmed, end, groups, added in sorted(found, reverse=True):
        if is_confirmed or sequence < max(found)[0] or _is_complete(file, added, end):
            return end, groups
    raise RefusedError("format", "no commit is complete")


def _is_complete(file: bytes, added: Row, end: int) -> bool:
    """Return whether all extents are in the file that an unconfirmed commit lists."""
    try:
        rows = list(struct.iter_unpack("<QI8s", _extent(file, added, end))) if added[1] else []
        need(added[1] + sum(row[1] for row in rows) <= 4 << 20, "format", "size of a list")
        for row in rows:
            _extent(file, row, end)
    except RefusedError:
        return False
    return True


def _leaves(file: bytes, tree: bytes, end: int) -> list[Row]:
    """Return the rows of the leaves of a tree."""
    *root, depth, count = struct.unpack("<QI8sIQ", tree)
    need(count and count <= 1024**depth and depth <= 7, "format", "depth of a tree")
    need(not depth or count > 1024 ** (depth - 1), "format", "depth of a tree")
    rows: list[Any] = [tuple(root)]
    for level in range(depth - 1, -1, -1):
        pages = [_extent(file, row, end) for row in rows]
        need(all(len(page) % 20 == 0 for page in pages), "format", "size of a page")
        rows = [row for page in pages for row in struct.iter_unpack("<QI8s", page)]
        need(len(rows) == -(-count // 1024**level), "format", "rows of a level")
    return rows


def _extent(file: bytes, row: Row, end: int) -> bytes:
    at, nbytes, digest = row
    need(at >= 8448 and at + nbytes <= end, "format", f"an extent at {at}")
    need(at + nbytes <= len(file), "truncated", f"the extent at {at} is cut")
    data = file[at : at + nbytes]
    need(xxh3_64_digest(data) == digest, "checksum", f"the extent at {at} is damaged")
    return data


def describe(file: bytes) -> dict[str, Any]:
    """Return everything that a reader must find in a log."""
    return describe_file(read_log(file))
