"""``blpk verify``: check every chunk of files for damage."""

import argparse
from typing import Any

from ..damage.report import Report
from ..filetypes.verify import verify as verify_file
from ..storage.url import shown_name
from .console.describe import damage_documents
from .console.eachfile import run_each
from .console.endpoint import check_input, read_any
from .console.options import add_json_option
from .console.output import Console, printable, result
from .console.status import ExitCode
from .inputs.datasets import is_dataset_name


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

    def check(name: str) -> tuple[ExitCode, dict[str, Any]]:
        with console.progress() as progress:
            check_input(name, "file")
            where = name if is_dataset_name(name) else read_any(name)
            report = verify_file(where, nthreads=args.nthreads, progress=progress, fix=args.fix)
        if not args.json:
            print_report(console, name, report)
        return ExitCode.OK if report.ok else ExitCode.DAMAGED, {
            "nchunks": report.nchunks,
            "nbytes": report.nbytes,
            "trailer": report.trailer,
            "damage": damage_documents(report.damage),
            "notices": report.notices,
        }

    failed: dict[str, Any] = {
        "nchunks": None,
        "nbytes": None,
        "trailer": None,
        "damage": [],
        "notices": [],
    }
    return run_each(args, "verify", check, failed)


def print_report(console: Console, name: str, report: Report) -> None:
    """Print one line per damage, or "ok"; notices go to standard error."""
    for line in map(str, report.damage) if report.damage else ["ok"]:
        result(printable(f"{shown_name(name)}: {line}"))
    for line in report.notices:
        console.note(f"{shown_name(name)}: {line}")
