"""``blpk verify``: check every chunk of files for damage."""

import argparse

from ..damage.report import Report
from ..filetypes.verify import verify_source
from .console.inputfile import check_input, open_whole
from .console.options import STDIO, add_classic_option, add_files, add_json_option
from .console.output import Console, is_for_people
from .console.reports import ReportForm, verify_each

FORM = ReportForm({"nchunks": "nchunks", "nbytes": "nbytes", "trailer": "trailer"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read and decode every chunk of each file, every record of a VRS recording, every sample "
        "of a Benzina dataset and every item of a Gulp directory, and report what is damaged."
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="rebuild a missing offset table or trailer if all data are intact",
    )
    parser.add_argument(
        "--decode",
        action="store_true",
        help="also decode the images of a Gulp directory, a recording or a dataset, and the audio "
        "of a recording",
    )
    add_files(parser)
    add_json_option(parser)
    add_classic_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each file."""
    console = Console(args)

    def verify_file(name: str) -> Report:
        with console.progress() as progress:
            check_input(name, "file")
            filetype, source = open_whole(name, "verified")
            fix = (source if name == STDIO else name) if args.fix else None
            return verify_source(
                filetype, source, fix, decode=args.decode, nthreads=args.nthreads, progress=progress
            )

    return verify_each(args, "verify", verify_file, FORM, for_people=is_for_people(args))
