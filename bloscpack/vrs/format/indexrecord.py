"""Headers and payloads of the index records that we write.

Levels and limits are those of the reference (1.4.0, ``IndexRecord.cpp``). Layout:
docs/formats/vrs.md.
"""

from collections.abc import Collection

from . import zstd
from .format import (
    INDEX_TYPE_ID,
    RECORD_HEADER_SIZE,
    TIMESTAMP_MAX,
    Compression,
    RecordHeader,
    RecordType,
    StreamId,
)
from .recordindex import CLASSIC_VERSION, Entries, classic_nbytes, pack_index

MIN_ZSTD_RECORDS = 100
"""Fewest records for which an index before them is compressed."""
SPLIT_RECORDS = 100_000
"""Records in one Zstandard frame of a split index."""


def internal_header(
    type_id: int,
    version: int,
    nbytes: int,
    previous_size: int,
    compression: Compression = Compression.NONE,
    uncompressed_size: int = 0,
) -> bytes:
    """Return the header of a description or index record with a payload of `nbytes` bytes."""
    return RecordHeader(
        RECORD_HEADER_SIZE + nbytes,
        previous_size,
        StreamId(type_id, 0),
        version,
        TIMESTAMP_MAX,
        RecordType.DATA,
        compression,
        uncompressed_size,
    ).pack()


def classic_index(
    entries: Entries,
    stream_ids: Collection[StreamId],
    level: int | None,
    previous_size: int,
    room: int = 0,
) -> tuple[bytes, bytes]:
    """Return the header and the payload of a classic index that takes at least `room` bytes.

    `level` is that of Zstandard; None stores the index uncompressed.
    """
    nbytes, compression = 0, Compression.NONE
    if len(entries) and level is not None:
        nbytes, compression = classic_nbytes(len(entries), len(stream_ids)), Compression.ZSTD
    payload = pack_index(entries, stream_ids, level if nbytes else None)
    taken = max(len(payload), room)
    header = internal_header(
        INDEX_TYPE_ID, CLASSIC_VERSION, taken, previous_size, compression, nbytes
    )
    return header, payload


def index_nbytes(entries: Entries, stream_ids: Collection[StreamId], level: int | None) -> int:
    """Return the payload size in bytes of an index that stands before its records."""
    return len(pack_index(entries, stream_ids, None if len(entries) < MIN_ZSTD_RECORDS else level))


def pack_split(entries: Entries, level: int) -> bytes:
    """Return the payload of a compressed split index, one frame per `SPLIT_RECORDS` records."""
    starts = range(0, len(entries), SPLIT_RECORDS)
    return b"".join(zstd.compress(entries[k : k + SPLIT_RECORDS].tobytes(), level) for k in starts)
