"""``blpk frames verify``: check every frame of sources of clips for damage."""

import argparse
from pathlib import Path

from ...damage.report import Report
from ...filetypes.open import open_frames
from ...filetypes.verify import verify
from ...frames.verify import verify as verify_clips
from ..console.endpoint import STDIO, check_input, read_any
from ..console.options import add_json_option
from ..console.output import Console
from ..console.reports import ReportForm, verify_each
from ..inputs.datasets import is_dataset_name
from ..inputs.storeinfo import is_store

FORM = ReportForm(damage={name: name for name in ("clip", "frames", "what")}, has_notices=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Read the metadata and every frame of every clip, and every other byte of a frame store, "
        "and report what is damaged."
    )
    parser.add_argument("files", metavar="STORE", nargs="+", help="frame store or gulp directory")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each source."""
    console, nthreads = Console(args), args.nthreads

    def verify_source(name: str) -> Report:
        check_input(name, "file")
        is_other = (name != STDIO and Path(name).is_dir()) or is_dataset_name(name)
        where = name if is_other else read_any(name)
        if is_other or not is_store(where):
            with (
                open_frames(where, nthreads=nthreads) as source,
                console.progress(unit="clips") as progress,
            ):
                return verify_clips(source, progress=progress)
        # All bytes of a frame store, including index segments that were merged since.
        with console.progress() as progress:
            return verify(where, nthreads=nthreads, progress=progress)

    return verify_each(args, "frames verify", verify_source, FORM)
