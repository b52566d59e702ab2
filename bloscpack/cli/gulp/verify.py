"""``blpk gulp verify``: check a gulp directory for damage."""

import argparse

from ...damage.report import Report
from ..console.options import add_json_option
from ..console.output import Console, print_json
from ..console.reports import ReportForm, print_notices, print_report, report_code
from ..console.status import STATUS_NAMES

_FORM = ReportForm(
    {
        "chunks": "nchunks",
        "items": "nitems",
        "frames": "nframes",
        "data_nbytes": "nbytes",
        "meta_nbytes": "meta_nbytes",
    },
    {"file": "file", "message": "what"},
    "problems",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check names, indexes, positions of frames and sizes of files. Nothing is changed. Works "
        "on directories that cannot be opened, too."
    )
    parser.add_argument("--decode", action="store_true", help="decode every frame too")
    add_directory(parser)


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``verify`` and ``info``: the directory, and ``--json``."""
    parser.add_argument("directory", metavar="DIR", help="gulp directory")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify a directory."""
    from ...gulp.verify import verify

    console = Console(args)
    with console.progress() as progress:
        report = verify(
            args.directory, decode=args.decode, nthreads=args.nthreads, progress=progress
        )
    if args.json:
        print_document(args, report)
        print_notices(console, args.directory, report)
    else:
        print_report(console, args.directory, report, is_folder=True)
    return report_code(report)


def print_document(args: argparse.Namespace, report: Report) -> None:
    """Print the JSON document of a report."""
    head = {"path": args.directory, "status": STATUS_NAMES[report_code(report)]}
    print_json(f"gulp {args.gulp_command}", head | _FORM.document(report))
