"""``blpk vrs check``: read every record of recordings."""

import argparse
from typing import TYPE_CHECKING, Any

from .options import Subparsers, add_command, add_json_option
from .output import Console, error, print_json, printable, result
from .recordings import open_recording
from .status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, heaviest

if TYPE_CHECKING:
    from ..vrs.checking import CheckReport


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers,
        "check",
        summary="check recordings for damage",
        description="Read every record, decompress it, compare it with the index, decode its "
        "metadata, and say what is damaged. Nothing is changed.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="VRS file, - for standard input")
    parser.add_argument("--decode", action="store_true", help="decode images and audio too")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check each file."""
    console = Console(args)
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for name in args.files:
        code, document = _check(console, name, args)
        codes.append(code)
        documents.append(document)
    if args.json:
        print_json("vrs check", {"files": documents})
    return heaviest(codes)


def _check(
    console: Console, name: str, args: argparse.Namespace
) -> tuple[ExitCode, dict[str, Any]]:
    """Check one file; return its exit code and its JSON entry."""
    from ..vrs.checking import check_recording

    report: CheckReport | None = None
    message: str | None = None
    try:
        with open_recording(name, args.nthreads) as recording, console.progress() as progress:
            report = check_recording(
                recording, decode=args.decode, nthreads=args.nthreads, progress=progress
            )
        code = ExitCode.OK if report.ok else ExitCode.DAMAGED
        if not args.json:
            _print(console, name, report)
    except BrokenPipeError:
        raise
    except EXPECTED as err:
        code, message = exit_code(err), describe(err)
        error(message)
    return code, {
        "path": name,
        "status": STATUS_NAMES[code],
        "nrecords": report and report.nrecords,
        "nblocks": report and report.nblocks,
        "nbytes": report and report.nbytes,
        "nproblems": report and report.nproblems,
        "problems": [] if report is None else [each._asdict() for each in report.problems],
        "notices": [] if report is None else report.notices,
        "error": message,
    }


def _print(console: Console, name: str, report: "CheckReport") -> None:
    for problem in report.problems:
        result(printable(f"{name}: {problem}"))
    if report.nproblems > len(report.problems):
        result(printable(f"{name}: and {report.nproblems - len(report.problems)} more"))
    if report.ok:
        result(printable(f"{name}: ok"))
    for notice in report.notices:
        console.note(f"{name}: {notice}")
