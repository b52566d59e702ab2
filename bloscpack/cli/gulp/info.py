"""``blpk gulp info``: describe a gulp directory."""

import argparse
import os

from ..console.output import Console, double_pretty_size, result
from ..console.reports import print_notices, report_code
from .verify import add_directory, print_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = "Print the numbers of chunks, items and frames, and their size."
    add_directory(parser)


def run(args: argparse.Namespace) -> int:
    """Describe a directory, and print its damage to standard error."""
    from ...gulp.verify import verify

    console = Console(args)
    report = verify(args.directory, records=False)
    if args.json:
        print_document(args, report)
    else:
        result(f"chunks: {report.nchunks}")
        result(f"items: {report.nitems}")
        result(f"frames: {report.nframes}")
        result(f"data: {double_pretty_size(report.nbytes)}")
        result(f"index: {double_pretty_size(report.meta_nbytes)}")
    for damage in report.damage:
        console.note(os.path.join(args.directory, str(damage)))
    print_notices(console, args.directory, report)
    return report_code(report)
