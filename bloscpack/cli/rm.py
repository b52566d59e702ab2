"""``blpk rm``: remove parts of files."""

import argparse

from ..filetypes.compact import open_parts
from .console.inputfile import check_input, each_input
from .console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Remove clips of frame stores, or arrays of archives. All parts of a file are removed in "
        "one step, or none. Their space is given back where the system can do so; 'blpk compact' "
        "gives back the rest."
    )
    parser.add_argument("parts", metavar="FILE::/NAME", nargs="+", help="clip or array")


def run(args: argparse.Namespace) -> int:
    """Remove the parts, file by file."""
    names: dict[str, list[str]] = {}
    for place in each_input(args.parts):
        if not place.inner:
            raise UsageError(f"expected FILE::/NAME, not '{place}': rm does not remove whole files")
        check_input(place.whole, "file")
        names.setdefault(place.path, []).append(place.inner)
    for path, parts in names.items():
        with open_parts(path) as store:
            for name in parts:
                del store[name]
    return ExitCode.OK
