"""``blpk vrs copy``: copy all or part of a recording."""

import argparse
from typing import TYPE_CHECKING, Any

from ...plugin import (
    STATUS_NAMES,
    STDIO,
    Console,
    ExitCode,
    Place,
    UsageError,
    add_force_option,
    add_json_option,
    add_option,
    byte_size,
    check_output,
    double_pretty_size,
    print_done,
    shown_name,
)
from .recordings import add_filter_options, open_recording, times_of

if TYPE_CHECKING:
    from ..edit.copying import CopyReport
    from ..recording import Recording

# Those of vrs/format/compression.py, which is imported on use.
PRESETS = (
    *("none", "fast", "tight"),
    *("zfaster", "zfast", "zlight", "zmedium", "zheavy", "zhigh", "ztight", "zmax"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy all records of a recording, or those selected by the options, with other "
        "tags or another compression. Ids and serial numbers do not change. The last configuration "
        "and state record of each stream before --after are copied too."
    )
    parser.add_argument("sources", metavar="SRC", nargs=1, help="VRS file, - for standard input")
    add_copy_options(parser)
    add_option(parser, "--renumber", "number the instances of each type, starting from 1")


def add_copy_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``copy`` and ``merge`` share."""
    parser.add_argument("target", metavar="DST", help="VRS file to write")
    records = parser.add_argument_group("records")
    add_filter_options(records)
    add_option(
        records,
        "--decimate [ID=]SECONDS",
        "copy only data records at least SECONDS apart, of all streams or of one; may be repeated",
        action="append",
        default=[],
    )
    tags = parser.add_argument_group("tags")
    add_option(tags, "--file-tag KEY VALUE", "set a tag of the file", action="append", default=[])
    add_option(
        tags, "--remove-file-tag KEY", "remove a tag of the file", action="append", default=[]
    )
    add_option(
        tags,
        "--stream-tag ID KEY VALUE",
        "set a tag of a stream, or of the streams that match a pattern",
        action="append",
        default=[],
    )
    add_option(
        tags, "--remove-stream-tag ID KEY", "remove a tag of a stream", action="append", default=[]
    )
    output = parser.add_argument_group("output")
    add_option(
        output,
        "-c, --compression PRESET",
        f"compress all payloads again: {', '.join(PRESETS)} (default: copy them as stored)",
        choices=PRESETS,
    )
    add_option(
        output,
        "--index",
        "position of the index (default: front)",
        choices=("front", "end"),
        default="front",
    )
    add_option(
        output,
        "-z, --chunk-size SIZE",
        "split the copy into files DST, DST_1 and so on, each smaller than SIZE (suffixes K, M, G)",
        type=byte_size,
    )
    add_force_option(output, "overwrite an existing recording")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Copy a recording."""
    from ..edit.copying import copy

    console = Console(args)
    options = copy_options(args, console)
    with open_recording(args.sources[0], args.nthreads, console) as source:
        options.update(times_of([source], args))
        with console.progress() as progress:
            report = copy(source, args.target, renumber=args.renumber, progress=progress, **options)
        return report_copy(args, "vrs copy", [source], report)


def copy_options(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Return the options of `vrs.copy` and `vrs.merge`, except the times."""
    if args.target == STDIO:
        raise UsageError("a recording cannot be written to standard output: give a file")
    decimate = _decimation(args.decimate)
    check_output(args.target, [*map(Place, args.sources)], console, force=args.force)
    # Removed first: a tag that is removed and set has the new value.
    stream_tags: dict[str, dict[str, str | None]] = {}
    for name, key in args.remove_stream_tag:
        stream_tags.setdefault(name, {})[key] = None
    for name, key, value in args.stream_tag:
        stream_tags.setdefault(name, {})[key] = value
    return {
        "streams": args.stream,
        "types": args.types,
        "decimate": decimate,
        "tags": {**dict.fromkeys(args.remove_file_tag), **dict(args.file_tag)},
        "stream_tags": stream_tags,
        "compression": args.compression,
        "index": args.index,
        "chunk_nbytes": args.chunk_size,
        "overwrite": args.force,
        "nthreads": args.nthreads,
    }


def _decimation(texts: list[str]) -> dict[str, float] | None:
    """Return seconds by stream id; ``*`` stands for all streams."""
    found = {}
    for text in texts:
        name, _, seconds = text.rpartition("=")
        try:
            found[name or "*"] = float(seconds)
        except ValueError:
            raise UsageError(f"--decimate: expected SECONDS or ID=SECONDS, not '{text}'") from None
    return found or None


def report_copy(
    args: argparse.Namespace, command: str, sources: "list[Recording]", report: "CopyReport"
) -> int:
    """Print what was copied; return 3 if records of a source are missing."""
    is_whole = not any(source.report.gaps or source.report.nmissing for source in sources)
    code = ExitCode.OK if is_whole else ExitCode.DAMAGED
    document = {
        "paths": [*map(shown_name, args.sources)],
        "target": args.target,
        "status": STATUS_NAMES[code],
        "written": list(report.paths),
        "nstreams": report.nstreams,
        "nrecords": report.nrecords,
        "nskipped": report.nskipped,
        "nduplicates": report.nduplicates,
        "cbytes": report.nbytes,
        "notes": list(report.notes),
    }
    skipped = report.nskipped - report.nduplicates
    parts = [f"{report.nrecords} records of {report.nstreams} streams"]
    parts += [f"{skipped} skipped"] if skipped else []
    parts += [f"{report.nduplicates} duplicates"] if report.nduplicates else []
    parts.append(double_pretty_size(report.nbytes))
    parts += [f"in {len(report.paths)} files"] if len(report.paths) > 1 else []
    print_done(args, command, document, args.target, ", ".join(parts))
    return code
