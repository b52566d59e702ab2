"""VRS recordings: streams on a time line, records at a time, columns, audio.

Images are shown as frames of the clip of their stream (`clips`). Records are found by the time of
the cursor. Columns and audio are reduced to the extremes in each bin.
"""

from typing import Any

import numpy as np

from ..plugin import AnyArray
from ..view.protocol import Answer, Query, QueryError, Work, document, packet
from ..view.raster import Extremes, as_numbers
from ..view.session import ViewedFile
from .column.numberfields import NumberField, number_fields, read_numbers
from .export.documents import field_lines, record_document, recording_document, stream_formats
from .framesource import RecordingSource
from .stream import Stream

MAX_BINS = 2000
# Most records of which a column is read, and most whose audio is read.
MAX_COLUMN_RECORDS = 1 << 21
MAX_AUDIO_RECORDS = 4000
_MAX_COMPONENTS = 16
_TYPES = ("data", "configuration", "state")


def describe(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return tags and streams of a recording, with their fields and layouts."""
    source: RecordingSource = file.open()
    found = recording_document(source.recording)
    keys = list(source.keys())
    streams = []
    for stream, row in zip(source.recording.streams.values(), found["streams"], strict=True):
        work.step()
        row.pop("vrs_tags", None)
        fields = [each._asdict() for each in number_fields(stream)]
        row |= {"fields": fields, "layouts": _layouts(stream)}
        row["clip"] = keys.index(stream.id) if stream.id in keys else None
        row["audio"] = any("audio/" in each["format"] for each in row["formats"])
        streams.append(row)
    return document(found | {"streams": streams})


def _layouts(stream: Stream) -> list[dict[str, Any]]:
    return [
        {
            "type": each.record_type,
            "version": each.version,
            "block": block,
            "fields": field_lines(definition),
        }
        for each in stream_formats(stream)
        for block, definition in each.layouts.items()
    ]


def _stream_of(file: ViewedFile, query: Query) -> Stream:
    source: RecordingSource = file.open()
    streams = list(source.recording.streams.values())
    if not streams:
        raise QueryError("the recording has no streams")
    stream: Stream = streams[query.integer("stream", 0, 0, len(streams) - 1)]
    return stream


def timeline(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return how many records each stream has in each bin of time."""
    recording = file.open().recording
    nbins = query.integer("bins", 300, 1, MAX_BINS)
    limits = recording.time_range
    if limits is None or not np.isfinite(limits).all():
        return packet({"start": 0, "stop": 0}, np.zeros((0, nbins), np.uint32))
    rows = []
    for stream in recording.streams.values():
        work.step()
        times = stream.records.timestamps
        times = times[np.isfinite(times)]
        stop = limits[1] if limits[1] > limits[0] else limits[0] + 1
        rows.append(np.histogram(times, nbins, (limits[0], stop))[0].astype(np.uint32))
    counts = np.array(rows, np.uint32).reshape(len(rows), nbins)
    return packet({"start": limits[0], "stop": limits[1]}, counts)


def record(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return the record of a stream that is nearest to a time, and its number as a frame."""
    stream = _stream_of(file, query)
    source: RecordingSource = file.open()
    kind = query.word("type", _TYPES)
    found = source.recording.nearest(query.number("time", 0.0), stream.id, kind)
    frame = None
    if kind == "data" and stream.id in source:
        rows = source[stream.id].rows
        at = int(np.searchsorted(rows, found.record_index))
        frame = at if at < len(rows) and rows[at] == found.record_index else None
    work.step()
    return document({"frame": frame, "record": record_document(found)})


def column(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return one field over time, as a line for each component."""
    stream = _stream_of(file, query)
    kind = query.word("type", _TYPES)
    name = query.text("field", None)
    block = query.integer("block", 0, 0, 255) if query.text("block") else None
    count = stream.counts[kind]
    if count > MAX_COLUMN_RECORDS:
        raise QueryError(f"{count} records are more than {MAX_COLUMN_RECORDS}")
    work.step()
    times, numbers, missing = read_numbers(stream, NumberField(kind, name, block))
    head = {"missing": missing, "ncomponents": numbers.shape[1]}
    return _lines(times, numbers[:, :_MAX_COMPONENTS], query, head)


def _lines(times: AnyArray, numbers: AnyArray, query: Query, head: dict[str, Any]) -> Answer:
    """Return times and values, or the extremes of each component in each bin of time."""
    nbins = query.integer("bins", 600, 1, MAX_BINS)
    if len(times) <= 2 * nbins:
        return packet(head | {"form": "values"}, times, numbers.T)
    start, stop = float(times[0]), float(times[-1])
    lows, highs = [], []
    for component in numbers.T:
        extremes = Extremes(stop - start or 1.0, nbins)
        extremes.add(times - start, component)
        low, high = extremes.bins()
        lows.append(low)
        highs.append(high)
    middles = start + (np.arange(nbins) + 0.5) * ((stop - start) / nbins)
    return packet(head | {"form": "extremes"}, middles, np.array(lows), np.array(highs))


def audio(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return the smallest and largest sample of each record of audio; evenly spaced if many."""
    records = _stream_of(file, query).data
    step = max(1, -(-len(records) // MAX_AUDIO_RECORDS))
    times, lows, highs = [], [], []
    for index in range(0, len(records), step):
        work.step()
        found = records[index]
        for block in found.audio_blocks:
            samples = as_numbers(np.asarray(block)).reshape(len(block), -1)
            if not len(samples):
                continue
            # At most 64 bins of a record.
            edges: AnyArray = np.unique(np.arange(64) * len(samples) // 64)
            lows.append(np.minimum.reduceat(samples.min(1), edges))
            highs.append(np.maximum.reduceat(samples.max(1), edges))
            rates = [spec.sample_rate for spec in found.audio_specs]
            rate = rates[0] if rates and rates[0] else 1
            times.append(found.timestamp + edges / rate)
    if not times:
        raise QueryError("the stream has no audio")
    columns = [np.concatenate(each).astype("f8") for each in (times, lows, highs)]
    return packet(
        {"form": "extremes", "step": step}, columns[0], columns[1][None], columns[2][None]
    )
