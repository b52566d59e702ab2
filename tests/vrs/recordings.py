"""Recordings made of a few lines, for tests of readers: bytes of a whole file."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bloscpack.vrs.description import Description, StreamTags, pack_description
from bloscpack.vrs.format import (
    DESCRIPTION_TYPE_ID,
    RECORD_HEADER_SIZE,
    TIMESTAMP_MAX,
    FileHeader,
    RecordHeader,
    RecordType,
    StreamId,
)
from bloscpack.vrs.payload import encode_payload

Formats = Mapping[str, Mapping[str, str]]
"""VRS tags by stream: ``{"1201-1": {"RF:Data:1": "data_layout"}}``."""


class Made(NamedTuple):
    """A record to be."""

    payload: bytes
    stream: str = "1201-1"
    record_type: RecordType = RecordType.DATA
    version: int = 1
    timestamp: float | None = None
    preset: str = "none"


def make_recording(formats: Formats, records: Iterable[Made]) -> bytes:
    """Return a recording without an index, which readers find by its headers."""
    header = FileHeader(1)
    description = Description(
        {StreamId.parse(key): StreamTags({}, dict(tags)) for key, tags in formats.items()}
    )
    packed = pack_description(description)
    size = RECORD_HEADER_SIZE + len(packed)
    id_ = StreamId(DESCRIPTION_TYPE_ID, 1)
    first = RecordHeader(size, 0, id_, 2, TIMESTAMP_MAX, RecordType.DATA)
    parts = [header.pack(), first.pack(), packed]
    for number, record in enumerate(records):
        compression, stored = encode_payload(record.payload, record.preset)
        previous, size = size, RECORD_HEADER_SIZE + len(stored)
        timestamp = float(number) if record.timestamp is None else record.timestamp
        parts += [
            RecordHeader(
                size,
                previous,
                StreamId.parse(record.stream),
                record.version,
                timestamp,
                record.record_type,
                compression,
                len(record.payload) if compression else 0,
            ).pack(),
            bytes(stored),
        ]
    return b"".join(parts)
