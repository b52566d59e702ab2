"""``blpk vrs checksum``: print a checksum of the content of recordings."""

import argparse
from typing import Any

from ...plugin import Console, ExitCode, Place, add_json_option, printable, result, run_each
from .recordings import open_recording


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the checksum of all tags and records. It is equal for files that differ only in "
        "compression, index and chunks, and equal to that of the reference tool 'vrs checksum'."
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="VRS file, - for standard input")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the checksum of each file."""
    console = Console(args)

    def check(place: Place) -> tuple[ExitCode, dict[str, Any]]:
        with (
            open_recording(str(place), args.nthreads, console) as recording,
            console.progress() as progress,
        ):
            checksum = recording.checksum(progress=progress)
        if not args.json:
            result(printable(f"{checksum}  {place.shown}"))
        return ExitCode.OK, {"checksum": checksum}

    return run_each(args, "vrs checksum", check, {"checksum": None})
