"""Byte-for-byte copies of the files of a recording, beside its columns.

Uncompressed payloads come from the columns. Headers, compressed payloads and all bytes outside of
records are stored unchanged.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
from xxhash import xxh3_128

from ...plugin import BytesLike, FormatError, FrameStore, NotFoundError, disk
from ..format.format import RECORD_HEADER_SIZE
from ..read.content import Content
from .clipcolumns import BLOCK_NBYTES, Spool
from .payloadrows import StoredRagged, damaged
from .storedrecording import CLIP, StoredRecording
from .storeprogress import Counter

_READ_NBYTES = 1 << 20
_READ_RECORDS = 4096
# Behind size, previous size, type id, version, time, instance and type in a record header.
_COMPRESSION_AT = 4 + 4 + 4 + 4 + 8 + 2 + 1


def store_file(store: FrameStore, folder: str, content: Content) -> dict[str, Any]:
    """Append the bytes of the file that the columns do not hold: all but uncompressed payloads."""
    source, table = content.source, content.table
    order = np.argsort(table.position, kind="stable")
    ends: list[int] = [0]
    rest, headers = Spool(folder), Spool(folder)
    digest = xxh3_128()
    at, size = 0, source.size()

    def copy(until: int, spool: Spool | None) -> None:
        nonlocal at
        while at < until:
            piece = source.read_at(at, min(_READ_NBYTES, until - at))
            if not len(piece):
                raise FormatError(f"byte {at}: the file ends", offset=at)
            digest.update(piece)
            if spool is not None:
                spool.write(piece)
            at += len(piece)

    try:
        for row in order.tolist():
            start = table.offset.item(row)
            copy(start, rest)
            if at != start:
                raise FormatError(f"record {row} begins inside the one before it", offset=start)
            ends.append(rest.nbytes)
            header = bytes(source.read_at(start, RECORD_HEADER_SIZE))
            copy(start + RECORD_HEADER_SIZE, headers)
            if not header[_COMPRESSION_AT]:
                copy(start + table.size.item(row), None)
        copy(size, rest)
        ends.append(rest.nbytes)
        block = max(1, min(rest.nbytes, BLOCK_NBYTES))
        rest.pad(block)
        blocks = rest.iter_pieces(repeat(block, rest.nbytes // block))
        store.append(f"{CLIP}/rest", (np.frombuffer(each, np.uint8) for each in blocks))
        store.append(f"{CLIP}/rest:offsets", np.array(ends, np.int64))
        shape = (len(table), RECORD_HEADER_SIZE)
        store.append(f"{CLIP}/headers", headers.array(np.uint8, shape))
    finally:
        rest.close()
        headers.close()
    return {"parts": [part.nbytes for part in source.parts], "xxh3_128": digest.hexdigest()}


def iter_file(stored: StoredRecording, count: Counter | None = None) -> Iterator[BytesLike]:
    """Yield the bytes of the file in pieces.

    FormatError if they differ from those of the original.
    """
    digest = xxh3_128()
    for piece in _iter_pieces(stored, count):
        digest.update(piece)
        yield piece
    if digest.hexdigest() != stored.verbatim.get("xxh3_128"):
        raise damaged("the restored bytes differ from those of the file")


def _iter_pieces(stored: StoredRecording, count: Counter | None) -> Iterator[BytesLike]:
    store, total = stored.store, len(stored.records)
    try:
        rest = StoredRagged(
            store, {"id": f"{CLIP}/rest", "offsets": f"{CLIP}/rest:offsets"}, total + 1
        )
        headers = store[f"{CLIP}/headers"]
    except NotFoundError as err:
        raise damaged(str(err.args[0])) from err
    if headers.shape != (total, RECORD_HEADER_SIZE) or headers.dtype != np.uint8:
        raise damaged(f"headers of shape {headers.shape}")
    records = stored.records.iter_records(np.arange(total))
    for start in range(0, total, _READ_RECORDS):
        rows: Any = headers.read(slice(start, start + _READ_RECORDS))
        for number, header in enumerate(rows, start):
            yield from rest.iter_bytes(number)
            yield header.tobytes()
            form, row, payload = next(records)
            if not form.compressions[row]:
                yield payload
            if count is not None:
                count.add()
    yield from rest.iter_bytes(total)


def write_parts(
    pieces: Iterable[BytesLike], sizes: list[int], paths: Callable[[int], str]
) -> list[str]:
    """Write bytes to files of these sizes, durably."""
    made: list[str] = []
    content = _ByteStream(pieces)
    for number, size in enumerate(sizes):
        path = paths(number)
        fd = disk.create(path)
        made.append(path)
        with disk.closing(fd):
            at = 0
            for piece in content.take(size):
                with disk.naming(path):
                    disk.write_at(fd, at, piece)
                at += len(piece)
            with disk.naming(path):
                disk.sync(fd)
    content.check_end()
    return made


class _ByteStream:
    """Bytes of a recording, read in portions for its files."""

    def __init__(self, pieces: Iterable[BytesLike]) -> None:
        self._pieces = _gathered(pieces)
        self._left = b""

    def take(self, nbytes: int) -> Iterator[bytes]:
        """Yield the next `nbytes` bytes."""
        while nbytes:
            piece = self._left or next(self._pieces, b"")
            if not piece:
                raise damaged("its content is smaller than its files")
            piece, self._left = piece[:nbytes], piece[nbytes:]
            yield piece
            nbytes -= len(piece)

    def check_end(self) -> None:
        """Raise if bytes are left; the exhausted iterator also compares their digest."""
        if self._left or next(self._pieces, b""):
            raise damaged("its content is larger than its files")


def _gathered(pieces: Iterable[BytesLike]) -> Iterator[bytes]:
    """Yield small pieces joined to larger ones."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= _READ_NBYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)
