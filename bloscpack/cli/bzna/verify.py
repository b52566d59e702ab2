"""``blpk bzna verify``: check every sample of datasets for damage."""

import argparse
from contextlib import closing

from ...damage.report import Report
from ..console.options import add_json_option
from ..console.output import Console
from ..console.reports import ReportForm, verify_each
from .datasets import identify_dataset, not_a_dataset

FORM = ReportForm({"nsamples": "nchunks", "nbytes": "nbytes"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check the positions of samples, parse every sample, compare its target, name and "
        "thumbnail with those of the dataset, and report what is damaged. Nothing is changed."
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Benzina dataset, - for standard input"
    )
    parser.add_argument(
        "--decode", action="store_true", help="decode every picture and thumbnail too"
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each dataset."""
    from ...benzina.verify import verify

    console = Console(args)

    def verify_dataset(name: str) -> Report:
        is_dataset, source = identify_dataset(name)
        with closing(source), console.progress() as progress:
            report = verify(source, decode=args.decode, nthreads=args.nthreads, progress=progress)
        if report.damage and not report.nchunks and not is_dataset:
            raise not_a_dataset(name, report.damage[0].what)
        return report

    return verify_each(args, "bzna verify", verify_dataset, FORM)
