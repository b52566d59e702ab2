"""``blpk vrs verify``: check every record of recordings for damage."""

import argparse

from ...damage.report import Report
from ..console.options import add_json_option
from ..console.output import Console
from ..console.reports import ReportForm, verify_each
from .recordings import open_recording

FORM = ReportForm(
    {"nrecords": "nchunks", "nblocks": "nblocks", "nbytes": "nbytes", "nproblems": "nfaults"},
    {"record": "record", "stream": "stream", "message": "what"},
    "problems",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read every record, decompress it, compare it with the index, decode its "
        "metadata, and report what is damaged. Nothing is changed."
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="VRS file, - for standard input")
    parser.add_argument("--decode", action="store_true", help="decode images and audio too")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each file."""
    from ...vrs.verify import verify

    console = Console(args)

    def verify_recording(name: str) -> Report:
        with open_recording(name, args.nthreads) as recording, console.progress() as progress:
            return verify(recording, decode=args.decode, nthreads=args.nthreads, progress=progress)

    return verify_each(args, f"vrs {args.vrs_command}", verify_recording, FORM)
