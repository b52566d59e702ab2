"""Recordings, streams, records and blocks as JSON values.

Numbers are unchanged, except for floats that JSON lacks: these are the strings "NaN", "Infinity"
and "-Infinity". Bytes of texts that are not UTF-8 become lone surrogates, which JSON escapes. A
fault in a block is its ``error``; the other blocks are still listed.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict
from enum import IntEnum
from typing import Any, NamedTuple

from ...plugin import BloscpackError, FormatError
from ..block.audio import AudioSpec
from ..block.pixels import QUALITY_UNDEFINED, ImageSpec
from ..format.format import RECORD_TYPE_NAMES
from ..format.recordformat import defined_formats, defined_layouts
from ..layout.datalayout import DataLayout
from ..read.iteration import iter_readable
from ..read.record import Block, CustomSpec, Record
from ..recording import Recording
from ..sequence import RecordSequence
from ..stream import Stream

Document = dict[str, Any]

# Records whose columns are converted to lists at once.
_BATCH = 4096


class StreamFormat(NamedTuple):
    """Definition of the records of a stream that have one type and format version."""

    record_type: str  # in lower case, such as ``"data"``
    version: int
    text: str  # the record format
    layouts: dict[int, str]  # definitions of the metadata blocks, by block index


def stream_formats(stream: Stream) -> list[StreamFormat]:
    """Return the definitions in the tags of a stream; no record is read."""
    tags = stream.vrs_tags
    found = []
    for kind, name in RECORD_TYPE_NAMES.items():
        for version, text in defined_formats(tags, kind).items():
            layouts = defined_layouts(tags, kind, version)
            found.append(StreamFormat(name, version, text, layouts))
    return found


def field_lines(definition: str) -> list[str]:
    """Return a line for each piece of a layout: key, type, number of elements and unit.

    The line of a damaged definition says so.
    """
    try:
        layout = DataLayout.from_json(definition)
    except FormatError as err:
        return [str(err)]
    lines = []
    for key, piece in zip(layout.keys, layout.pieces, strict=True):
        size = f" of {piece.size}" if piece.size else ""
        unit = piece.tags.get("unit")
        lines.append(f"{key}: {piece.short_type}{size}{f', {unit}' if unit else ''}")
    return lines


def json_value(value: Any) -> Any:
    """Return a value of `DataLayout.decode` as a JSON value; bytes of ``char`` become Latin-1."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list | tuple):
        return [json_value(one) for one in value]
    if isinstance(value, dict):
        return {key: json_value(one) for key, one in value.items()}
    return value


def spec_document(spec: ImageSpec | AudioSpec | CustomSpec) -> Document:
    """Return the known properties of a block, without those that are 0, empty or undefined.

    Enumerations are written as in format strings: ``"raw"``, ``"grey8"``, ``"int16le"``.
    """
    found: Document = {}
    for name, value in asdict(spec).items():
        if name == "buffer_size" or (name == "codec_quality" and value == QUALITY_UNDEFINED):
            continue
        if value or (name == "key_frame_timestamp" and value is not None):
            found[name] = str(value) if isinstance(value, IntEnum) else json_value(value)
    return found


def block_document(block: Block) -> Document:
    """Return the kind and size of a block, and its metadata values or its properties."""
    document: Document = {"kind": block.kind, "nbytes": block.nbytes}
    try:
        if block.kind == "metadata":
            document["values"] = json_value(block.values())
            return document
        spec = block.spec
        if isinstance(spec, ImageSpec | AudioSpec | CustomSpec):
            document.update(spec_document(spec))
        if block.kind != "unsupported":
            memoryview(block.data)  # raises if the data are missing
    except BloscpackError as err:
        document["error"] = str(err)
    return document


def record_document(record: Record) -> Document:
    """Return the properties of a record, and its blocks.

    A fault in one block is in its document.
    """
    return {
        **record_entry(record),
        "blocks": [block_document(block) for block in record.blocks],
        "note": record.note,
    }


def record_entry(record: Record) -> Document:
    """Return the properties of a record, without its blocks."""
    return {
        "record": record.record_index,
        "stream": record.stream_id,
        "type": record.record_type,
        "timestamp": json_value(record.timestamp),
        "version": record.format_version,
        "nbytes": len(record.payload),
    }


def stream_document(stream: Stream) -> Document:
    """Return the properties of a stream; its VRS tags define its records."""
    return {
        "id": stream.id,
        "name": stream.name,
        "flavor": stream.flavor,
        "serial_number": stream.serial_number,
        "records": stream.counts,
        "time_range": _times(stream.time_range),
        "formats": [
            {"type": each.record_type, "version": each.version, "format": each.text}
            for each in stream_formats(stream)
        ],
        "tags": stream.tags,
        "vrs_tags": stream.vrs_tags,
    }


def recording_document(recording: Recording) -> Document:
    """Return the properties of a recording and its streams."""
    header, source = recording.header, recording.source
    return {
        "version": header.version,
        "creation_id": header.creation_id,
        "index": recording.index_kind,
        "parts": [part.source.name for part in source.parts],
        "cbytes": source.size(),
        "records": len(recording),
        "time_range": _times(recording.time_range),
        "tags": recording.file_tags,
        "streams": [stream_document(stream) for stream in recording.streams.values()],
        "faults": recording.report.lines(),
    }


def _times(limits: tuple[float, float] | None) -> list[Any] | None:
    return None if limits is None else [json_value(limit) for limit in limits]


def iter_entries(recording: Recording, records: RecordSequence) -> Iterator[Document]:
    """Yield the index entry of each record; no record is read."""
    table, rows = recording.table, records.rows
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        columns = (table.timestamp, table.stream, table.record_type, table.offset, table.size)
        listed = (column[part].tolist() for column in columns)
        for row, time, stream, kind, offset, size in zip(part.tolist(), *listed, strict=True):
            yield {
                "record": row,
                "stream": str(table.streams[stream]),
                "type": RECORD_TYPE_NAMES[kind],
                "timestamp": json_value(time),
                "offset": offset,
                "cbytes": size,
            }


def iter_documents(records: RecordSequence) -> Iterator[Document]:
    """Yield the document of each record; a damaged one has number, stream and ``error``."""
    for place, record in iter_readable(records):
        try:
            if isinstance(record, BloscpackError):
                raise record
            yield record_document(record)
        except BloscpackError as err:
            one = records[place : place + 1]
            yield {"record": int(one.rows[0]), "stream": one.stream_ids[0], "error": err.args[0]}
