"""``blpk vrs check``: check every record of recordings for damage."""

import argparse
from typing import TYPE_CHECKING, Any

from ...storage.url import shown_name
from ..console.eachfile import run_each
from ..console.options import add_json_option
from ..console.output import Console, printable, result
from ..console.status import ExitCode
from ..inputs.recordings import open_recording

if TYPE_CHECKING:
    from ...vrs.verify import CheckReport

_NUMBERS = "nrecords", "nblocks", "nbytes", "nproblems"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Read every record, decompress it, compare it with the index, decode its "
        "metadata, and report what is damaged. Nothing is changed."
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="VRS file, - for standard input")
    parser.add_argument("--decode", action="store_true", help="decode images and audio too")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Check each file."""
    from ...vrs.verify import check_recording

    console = Console(args)

    def check(name: str) -> tuple[ExitCode, dict[str, Any]]:
        with open_recording(name, args.nthreads) as recording, console.progress() as progress:
            report = check_recording(
                recording, decode=args.decode, nthreads=args.nthreads, progress=progress
            )
        if not args.json:
            _print(console, name, report)
        return ExitCode.OK if report.ok else ExitCode.DAMAGED, {
            **{number: getattr(report, number) for number in _NUMBERS},
            "problems": [each._asdict() for each in report.problems],
            "notices": report.notices,
        }

    failed: dict[str, Any] = {**dict.fromkeys(_NUMBERS), "problems": [], "notices": []}
    return run_each(args, "vrs check", check, failed)


def _print(console: Console, name: str, report: "CheckReport") -> None:
    for problem in report.problems:
        result(printable(f"{shown_name(name)}: {problem}"))
    if report.nproblems > len(report.problems):
        result(printable(f"{shown_name(name)}: and {report.nproblems - len(report.problems)} more"))
    if report.ok:
        result(printable(f"{shown_name(name)}: ok"))
    for notice in report.notices:
        console.note(f"{shown_name(name)}: {notice}")
