"""``blpk compact``: write files again without what was removed from them."""

import argparse
import os

from ..filetypes.compact import compact
from .console.inputfile import check_input, each_input
from .console.output import Console, printable, result
from .console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write each file again without what was removed from it and without earlier versions, and "
        "replace it when the new one is complete. Stored chunks are copied as they are."
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="frame store, array, archive, or pattern"
    )


def run(args: argparse.Namespace) -> int:
    """Compact each file, and print its sizes."""
    console = Console(args)
    for place in each_input(args.files):
        if place.inner:
            raise UsageError(f"a part of a file cannot be compacted alone: '{place}'")
        check_input(place, "file")
        before = os.path.getsize(place.path)
        with console.progress() as progress:
            compact(place.path, progress=progress)
        after = os.path.getsize(place.path)
        result(printable(f"{place.shown}: {before} bytes, now {after}"))
    return ExitCode.OK
