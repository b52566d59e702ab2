"""``blpk gulp``: gulp directories made, checked and described."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console.options import CommandParser, Subparsers, add_command, add_json_option
from ..console.output import Console, double_pretty_size, print_json, printable, result
from ..console.status import STATUS_NAMES, ExitCode
from . import ingest

if TYPE_CHECKING:
    from ...gulp.sanity import SanityReport


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers,
        "gulp",
        summary="make, check and describe gulp directories",
        description="Work on gulp directories, as GulpIO2 writes them.",
    )
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        dest="gulp_command",
        required=True,
        parser_class=CommandParser,
    )
    ingest.add_parser(commands)
    check = add_command(
        commands,
        "check",
        summary="look for damage",
        description="Check names, indexes, places of frames and sizes of files; nothing is "
        "changed. Also of a directory that cannot be opened.",
    )
    check.add_argument("--decode", action="store_true", help="decode every frame too")
    _add_directory(check)
    check.set_defaults(run=run_check)
    info = add_command(
        commands,
        "info",
        summary="say what is in a directory",
        description="Print how many chunks, items and frames there are, and their size.",
    )
    _add_directory(info)
    info.set_defaults(run=run_info)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="gulp directory")
    add_json_option(parser)


def run_check(args: argparse.Namespace) -> int:
    """Check a directory."""
    from ...gulp.sanity import check_directory

    console = Console(args)
    with console.progress() as progress:
        report = check_directory(
            args.directory, decode=args.decode, nthreads=args.nthreads, progress=progress
        )
    code = ExitCode.OK if report.ok else ExitCode.DAMAGED
    if args.json:
        print_json("gulp check", _document(args.directory, code, report))
    else:
        for problem in report.problems:
            result(printable(str(problem)))
        if report.ok:
            result(printable(f"{args.directory}: ok"))
    for notice in report.notices:
        console.note(notice)
    return code


def run_info(args: argparse.Namespace) -> int:
    """Describe a directory; what is wrong with it is left to ``check``, but not hidden."""
    from ...gulp.sanity import check_directory

    console = Console(args)
    report = check_directory(args.directory, records=False)
    code = ExitCode.OK if report.ok else ExitCode.DAMAGED
    if args.json:
        print_json("gulp info", _document(args.directory, code, report))
    else:
        result(f"chunks: {report.chunks}")
        result(f"items: {report.items}")
        result(f"frames: {report.frames}")
        result(f"data: {double_pretty_size(report.data_nbytes)}")
        result(f"index: {double_pretty_size(report.meta_nbytes)}")
    for problem in report.problems:
        console.note(str(problem))
    for notice in report.notices:
        console.note(notice)
    return code


def _document(directory: str, code: ExitCode, report: "SanityReport") -> dict[str, Any]:
    return {
        "path": directory,
        "status": STATUS_NAMES[code],
        "chunks": report.chunks,
        "items": report.items,
        "frames": report.frames,
        "data_nbytes": report.data_nbytes,
        "meta_nbytes": report.meta_nbytes,
        "problems": [
            {"file": Path(path).name, "message": message} for path, message in report.problems
        ],
        "notices": report.notices,
    }
