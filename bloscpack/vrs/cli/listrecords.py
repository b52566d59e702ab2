"""``blpk vrs list``: list records, one line per record."""

import argparse
from typing import Any

from ...plugin import Console, ExitCode, add_json_option, print_json, result, shown_name
from .recordings import add_file, add_filter_options, add_selection, choose, open_recording


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print for each record: its number in order of time, time in seconds, "
        "stream, type, and its bytes in the file. No record is read."
    )
    add_file(parser)
    add_filter_options(parser)
    add_selection(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """List records."""
    from ..export.documents import iter_entries

    with open_recording(args.file_, args.nthreads, Console(args)) as recording:
        entries = iter_entries(recording, choose(recording, args))
        if args.json:
            print_json("vrs list", {"path": shown_name(args.file_), "records": entries})
            return ExitCode.OK
        for entry in entries:
            result(_line(entry))
    return ExitCode.OK


def _line(entry: dict[str, Any]) -> str:
    return (
        f"{entry['record']:>8}  {entry['timestamp']!s:<20}  {entry['stream']:<10}  "
        f"{entry['type']:<13}  {entry['cbytes']:>10}"
    )
