"""``blpk vrs checksum``: a number that copies with the same content share."""

import argparse
from typing import Any

from .options import Subparsers, add_command, add_json_option
from .output import Console, error, print_json, printable, result
from .recordings import open_recording
from .status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, heaviest


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers,
        "checksum",
        summary="print the checksum of tags and records",
        description="Print the checksum of all tags and records: equal for files that differ only "
        "in compression, index and chunks, and equal to that of 'vrs checksum'.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="VRS file, - for standard input")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the checksum of each file."""
    console = Console(args)
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for name in args.files:
        code, message, checksum = ExitCode.OK, None, None
        try:
            with (
                open_recording(name, args.nthreads, console) as recording,
                console.progress() as progress,
            ):
                checksum = recording.checksum(progress=progress)
            if not args.json:
                result(printable(f"{checksum}  {name}"))
        except BrokenPipeError:
            raise
        except EXPECTED as err:
            code, message = exit_code(err), describe(err)
            error(message)
        status = STATUS_NAMES[code]
        documents.append({"path": name, "status": status, "checksum": checksum, "error": message})
        codes.append(code)
    if args.json:
        print_json("vrs checksum", {"files": documents})
    return heaviest(codes)
