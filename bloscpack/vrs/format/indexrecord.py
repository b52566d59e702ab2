"""Headers and payloads of the index records that we write.

Levels and limits are those of the reference (1.4.0, ``IndexRecord.cpp``). Layout:
docs/formats/vrs.md.
"""

from collections.abc import Collection

from . import zstd
from .format import (
    RECORD_HEADER_SIZE,
    TIMESTAMP_MAX,
    Compression,
    RecordHeader,
    RecordType,
    StreamId,
)
from .recordindex import Entries, classic_nbytes, pack_index

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
    entries: Entries, stream_ids: Collection[StreamId], level: int | None
) -> tuple[bytes, Compression, int]:
    """Return the payload, compression and uncompressed size of a classic index.

    `level` is that of Zstandard; None stores the index uncompressed.
    """
    if level is None or not len(entries):
        return pack_index(entries, stream_ids, None), Compression.NONE, 0
    nbytes = classic_nbytes(len(entries), len(stream_ids))
    return pack_index(entries, stream_ids, level), Compression.ZSTD, nbytes


def index_nbytes(entries: Entries, stream_ids: Collection[StreamId], level: int | None) -> int:
    """Return the payload size in bytes of an index that stands before its records."""
    if len(entries) < MIN_ZSTD_RECORDS:
        level = None
    return len(classic_index(entries, stream_ids, level)[0])


def pack_split(entries: Entries, level: int) -> bytes:
    """Return the payload of a compressed split index, one frame per `SPLIT_RECORDS` records."""
    starts = range(0, len(entries), SPLIT_RECORDS)
    return b"".join(zstd.compress(entries[k : k + SPLIT_RECORDS].tobytes(), level) for k in starts)
