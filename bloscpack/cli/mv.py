"""``blpk mv``: rename a part of a file."""

import argparse

from ..filetypes.compact import open_parts
from ..storage.file import Place
from .console.inputfile import check_input, one_input
from .console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Give a clip of a frame store, or an array of an archive, another name; it keeps its place."
    )
    parser.add_argument("part", metavar="FILE::/OLD", help="clip or array")
    parser.add_argument("name", metavar="NEW", help="new name, which no other may have")


def run(args: argparse.Namespace) -> int:
    """Rename."""
    place = one_input(args.part)
    if not place.inner:
        raise UsageError(f"expected FILE::/OLD, not '{place}': mv does not rename whole files")
    if not args.name:
        raise UsageError("NEW must not be empty: no command could name the part again")
    if Place.of(args.name).inner:
        raise UsageError(f"NEW is the new name alone, not FILE::/NEW: '{args.name}'")
    check_input(place.whole, "file")
    with open_parts(place.path) as store:
        store.rename(place.inner, args.name)
    return ExitCode.OK
