"""Description of a recording, for ``blpk info``."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...storage.protocol import ByteSource
from ...storage.url import shown_name
from ..console.output import (
    Console,
    double_pretty_size,
    is_for_people,
    printable,
    results,
)
from ..console.status import ExitCode
from .recordings import open_recording

if TYPE_CHECKING:
    from ...vrs.recording import Recording
    from ...vrs.stream import Stream

_MAX_VALUE = 200
_KINDS = ("configuration", "state", "data")  # of records


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option of ``blpk vrs info``."""
    parser.add_argument("--fields", action="store_true", help="list the fields of metadata")


def show(args: argparse.Namespace, source: ByteSource) -> int:
    """Describe a recording without reading a record, and print its problems as notes."""
    from ...vrs.export.documents import recording_document

    with open_recording(args.file_, args.nthreads, Console(args), source) as recording:
        if args.json:
            head = {"path": shown_name(args.file_), "kind": "recording"}
            args.documents.append(head | recording_document(recording))
        elif is_for_people(args):
            results(_summary(recording))
        else:
            fields = getattr(args, "fields", False)  # only 'blpk vrs info' has the option
            results(map(printable, _text(recording, fields=fields)))
    return ExitCode.OK


def _summary(recording: "Recording") -> Iterator[str]:
    from ..console.table import attrs_text, exact_size_text, summary_text  # on use

    parts, size = recording.source.parts, exact_size_text(recording.source.size())
    fields = (
        ("kind", "VRS recording"),
        ("records", len(recording)),
        ("time", _duration(recording.time_range)),
        ("stored", f"{size} in {len(parts)} files" if len(parts) > 1 else size),
        ("tags", attrs_text(recording.file_tags)),
        ("index", recording.index_kind),
        ("format", f"version {recording.header.version}"),
    )
    rows = [
        (
            stream.id,
            *(str(stream.counts[kind]) for kind in _KINDS),
            _duration(stream.time_range) or "-",
            f"{stream.name}, {stream.flavor}" if stream.flavor else stream.name,
        )
        for stream in recording.streams.values()
    ]
    return summary_text(fields, ("stream", *_KINDS, "time", "name"), rows, right=_KINDS)


def _duration(limits: tuple[float, float] | None) -> str | None:
    """Return the first and the last time, in seconds."""
    return None if limits is None else f"{limits[0]:.3f} to {limits[1]:.3f} s"


def _text(recording: "Recording", *, fields: bool) -> Iterator[str]:
    parts = recording.source.parts
    yield "kind: VRS recording"
    yield f"version: {recording.header.version}"
    yield f"index: {recording.index_kind}"
    yield f"stored: {double_pretty_size(recording.source.size())}" + (
        f" in {len(parts)} files" if len(parts) > 1 else ""
    )
    yield f"records: {len(recording)}"
    yield f"time: {_times(recording.time_range)}"
    yield from _tags("tags", recording.file_tags, "")
    for stream in recording.streams.values():
        yield from _stream(stream, fields=fields)


def _times(limits: tuple[float, float] | None) -> str:
    return "none" if limits is None else f"{limits[0]!r} to {limits[1]!r} s"


def _tags(title: str, tags: dict[str, str], indent: str) -> Iterator[str]:
    if tags:
        yield f"{indent}{title}:"
    for key, value in tags.items():
        more = f"... ({len(value)} characters)" if len(value) > _MAX_VALUE else ""
        yield f"{indent}  {key[:_MAX_VALUE]}: {value[:_MAX_VALUE]}{more}"


def _stream(stream: "Stream", *, fields: bool) -> Iterator[str]:
    from ...vrs.export.documents import field_lines, stream_formats

    flavor = f", {stream.flavor}" if stream.flavor else ""
    yield f"stream {stream.id}: {stream.name}{flavor}"
    counts = ", ".join(f"{count} {kind}" for kind, count in stream.counts.items() if count)
    yield f"  records: {counts or 'none'}"
    if counts:
        yield f"  time: {_times(stream.time_range)}"
    for form in stream_formats(stream):
        yield f"  {form.record_type} version {form.version}: {form.text[:_MAX_VALUE]}"
        for index, definition in form.layouts.items() if fields else ():
            for line in field_lines(definition):
                yield f"    block {index}, {line[:_MAX_VALUE]}"
    yield from _tags("tags", stream.tags, "  ")
