"""Cards of a recording and of a stream, for notebooks."""

from collections.abc import Iterator
from typing import Any

from ..plugin import Markup, clip_picture, fields, first_rows, guarded, joined

_RECORD_TYPES = ("configuration", "state", "data")


def recording_card(recording: Any) -> str:
    """Return the card of a VRS recording, with a row for each of its first streams."""
    streams = recording.streams

    def row(id_: str) -> Iterator[object]:
        stream = streams[id_]
        counts = stream.counts
        yield from (id_, stream.name, *(counts[each] for each in _RECORD_TYPES))
        yield _range_text(stream.time_range)

    table = fields(
        {
            "file": recording.name or "memory",
            "records": len(recording),
            "time": lambda: _range_text(recording.time_range),
            "index": recording.index_kind,
            "tags": lambda: recording.file_tags or None,
        }
    )
    names = ("stream", "name", *_RECORD_TYPES, "time")
    return joined(table, first_rows(names, streams, row))


def _range_text(times: tuple[float, float] | None) -> str | None:
    return None if times is None else f"{times[0]:.6g} s to {times[1]:.6g} s"


def stream_card(stream: Any) -> str:
    """Return the card of a stream, with a contact sheet if it has images."""
    table = fields(
        {
            "stream": stream.id,
            "name": stream.name,
            "flavor": stream.flavor or None,
            "records": lambda: ", ".join(f"{n} {name}" for name, n in stream.counts.items()),
            "time": lambda: _range_text(stream.time_range),
            "tags": lambda: stream.tags or None,
        }
    )

    frames = guarded(lambda: clip_picture(stream.frames) if stream.has_images else Markup())
    return joined(table, frames)
