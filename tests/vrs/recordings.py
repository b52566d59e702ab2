"""Recordings from a few lines, for tests of readers, as bytes of a whole file."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bloscpack import vrs
from bloscpack.vrs.format.format import RecordType, StreamId
from bloscpack.vrs.layout.pieces import Piece, format_definition

from ..counting import CountingBytes
from .recordingfiles import Rec, build

STREAM = "1201-1"

Formats = Mapping[str, Mapping[str, str]]
"""VRS tags by stream: ``{"1201-1": {"RF:Data:1": "data_layout"}}``."""


class Made(NamedTuple):
    """A record to write."""

    payload: bytes
    stream: str = STREAM
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


def layout(*pieces: tuple[Any, ...]) -> str:
    """Return the definition of pieces given as (label, type, size)."""
    return format_definition(Piece(*piece) for piece in pieces)


def opened(formats: Mapping[str, str], records: Iterable[Made]) -> vrs.Recording:
    """Open a recording of one stream."""
    return vrs.open(make_recording({STREAM: formats}, records))


def counted(formats: Mapping[str, str], records: Iterable[Made]) -> tuple[vrs.Recording, Any]:
    """Open a recording of one stream; return it with the list of its reads."""
    source = CountingBytes(make_recording({STREAM: formats}, records))
    return vrs.open(source), source.reads
