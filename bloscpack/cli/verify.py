"""``blpk verify``: check every chunk of files for damage."""

import argparse

from ..damage.report import Report
from ..filetypes.verify import verify_source
from .console.inputfile import check_input, open_input
from .console.options import STDIO, add_json_option
from .console.output import Console
from .console.reports import ReportForm, verify_each

FORM = ReportForm({"nchunks": "nchunks", "nbytes": "nbytes", "trailer": "trailer"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Read and decode every chunk of each file, or read every sample of a Benzina dataset, "
        "and report what is damaged."
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="rebuild a missing offset table or trailer if all data are intact",
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Bloscpack file or Benzina dataset, - for input"
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each file."""
    console = Console(args)

    def verify_file(name: str) -> Report:
        with console.progress() as progress:
            check_input(name, "file")
            filetype, source = open_input(name)
            fix = (source if name == STDIO else name) if args.fix else None
            return verify_source(filetype, source, fix, nthreads=args.nthreads, progress=progress)

    return verify_each(args, "verify", verify_file, FORM)
