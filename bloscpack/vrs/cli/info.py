"""Description of a recording, for ``blpk info``."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...plugin import ByteSource, Console, Description, add_option, attrs_text, exact_size_text
from .recordings import open_recording

if TYPE_CHECKING:
    from ..stream import Stream

_KINDS = ("configuration", "state", "data")  # of records


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option of ``blpk vrs info``."""
    add_option(parser, "--fields", "list the fields of metadata")


def about(args: argparse.Namespace, source: ByteSource) -> Description:
    """Describe a recording without reading a record, and print its problems as notes."""
    from ..export.documents import recording_document

    has_fields = getattr(args, "fields", False)  # only 'blpk vrs info' has the option
    with open_recording(args.file_, args.nthreads, Console(args), source) as recording:
        parts, size = recording.source.parts, exact_size_text(recording.source.size())
        streams = recording.streams.values()
        return Description(
            {"kind": "recording", **recording_document(recording)},
            (
                ("kind", "VRS recording"),
                ("records", len(recording)),
                ("time", _duration(recording.time_range)),
                ("stored", f"{size} in {len(parts)} files" if len(parts) > 1 else size),
                ("tags", attrs_text(recording.file_tags)),
                ("index", recording.index_kind),
                ("format", f"version {recording.header.version}"),
            ),
            ("stream", *_KINDS, "time", "name"),
            [
                (
                    stream.id,
                    *(str(stream.counts[kind]) for kind in _KINDS),
                    _duration(stream.time_range) or "-",
                    f"{stream.name}, {stream.flavor}" if stream.flavor else stream.name,
                )
                for stream in streams
            ],
            right=_KINDS,
            more=[line for stream in streams for line in _formats(stream, has_fields=has_fields)],
        )


def _duration(limits: tuple[float, float] | None) -> str | None:
    """Return the first and the last time, in seconds."""
    return None if limits is None else f"{limits[0]!r} to {limits[1]!r} s"


def _formats(stream: "Stream", *, has_fields: bool) -> Iterator[str]:
    """Yield the tags of a stream and the formats of its records, with or without all fields."""
    from ..export.documents import field_lines, stream_formats

    if stream.tags:
        yield f"{stream.id} tags: {attrs_text(stream.tags)}"
    for form in stream_formats(stream):
        yield f"{stream.id} {form.record_type} version {form.version}: {form.text}"
        for index, definition in form.layouts.items() if has_fields else ():
            for line in field_lines(definition):
                yield f"    block {index}, {line}"
