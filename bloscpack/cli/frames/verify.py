"""``blpk frames verify``: check every frame of sources of clips for damage."""

import argparse

from ...damage.report import Report
from ...filetypes.open import frames_of
from ...filetypes.verify import verify_source
from ...frames.verify import verify as verify_clips
from ..console.options import add_json_option
from ..console.output import Console
from ..console.reports import ReportForm, verify_each
from .clips import open_clip_input

FORM = ReportForm(damage={name: name for name in ("clip", "frames", "what")}, has_notices=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read the metadata and every frame of every clip, and every other byte of a frame store, "
        "and report what is damaged."
    )
    parser.add_argument("files", metavar="STORE", nargs="+", help="frame store or gulp directory")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each source."""
    console, nthreads = Console(args), args.nthreads

    def verify_input(name: str) -> Report:
        filetype, source = open_clip_input(name)
        if filetype.name != "frames":
            with (
                frames_of(filetype, source, nthreads=nthreads) as clips,
                console.progress(unit="clips") as progress,
            ):
                return verify_clips(clips, progress=progress)
        # All bytes of a frame store, including index segments that were merged since.
        with console.progress() as progress:
            return verify_source(filetype, source, nthreads=nthreads, progress=progress)

    return verify_each(args, "frames verify", verify_input, FORM)
