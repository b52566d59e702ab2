"""Recordings from a few lines, for tests of readers, as bytes of a whole file."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bloscpack.vrs.format.format import RecordType, StreamId

from .recordingfiles import Rec, build

Formats = Mapping[str, Mapping[str, str]]
"""VRS tags by stream: ``{"1201-1": {"RF:Data:1": "data_layout"}}``."""


class Made(NamedTuple):
    """A record to write."""

    payload: bytes
    stream: str = "1201-1"
    record_type: RecordType = RecordType.DATA
    version: int = 1
    timestamp: float | None = None
    preset: str = "none"


def make_recording(formats: Formats, records: Iterable[Made]) -> bytes:
    """Return a recording without an index; a record without a time gets its number as time."""
    built = [
        Rec(
            float(number) if record.timestamp is None else record.timestamp,
            record.payload,
            StreamId.parse(record.stream),
            record.record_type,
            record.version,
            preset=record.preset,
        )
        for number, record in enumerate(records)
    ]
    streams = {
        tuple(StreamId.parse(id_)): {"user": {}, "vrs": dict(tags)} for id_, tags in formats.items()
    }
    return bytes(build(built, "none", streams=streams, creation_id=1).data)
