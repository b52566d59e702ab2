"""``blpk gulp check``: check a gulp directory for damage."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console.options import add_json_option
from ..console.output import Console, print_json, printable, result
from ..console.status import STATUS_NAMES, ExitCode

if TYPE_CHECKING:
    from ...gulp.sanity import SanityReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Check names, indexes, positions of frames and sizes of files. Nothing is changed. Works "
        "on directories that cannot be opened, too."
    )
    parser.add_argument("--decode", action="store_true", help="decode every frame too")
    add_directory(parser)


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``check`` and ``info``: the directory, and ``--json``."""
    parser.add_argument("directory", metavar="DIR", help="gulp directory")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Check a directory."""
    from ...gulp.sanity import check_directory

    console = Console(args)
    with console.progress() as progress:
        report = check_directory(
            args.directory, decode=args.decode, nthreads=args.nthreads, progress=progress
        )
    code = ExitCode.OK if report.ok else ExitCode.DAMAGED
    if args.json:
        print_json("gulp check", report_document(args.directory, code, report))
    else:
        for problem in report.problems:
            result(printable(str(problem)))
        if report.ok:
            result(printable(f"{args.directory}: ok"))
    for notice in report.notices:
        console.note(notice)
    return code


def report_document(directory: str, code: ExitCode, report: "SanityReport") -> dict[str, Any]:
    """Return the JSON fields of a report."""
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
