"""``blpk gulp info``: describe a gulp directory."""

import argparse

from ..console.output import Console, double_pretty_size, print_json, result
from ..console.status import ExitCode
from .check import add_directory, report_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = "Print the numbers of chunks, items and frames, and their size."
    add_directory(parser)


def run(args: argparse.Namespace) -> int:
    """Describe a directory, and print its problems to standard error."""
    from ...gulp.sanity import check_directory

    console = Console(args)
    report = check_directory(args.directory, records=False)
    code = ExitCode.OK if report.ok else ExitCode.DAMAGED
    if args.json:
        print_json("gulp info", report_document(args.directory, code, report))
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
