"""``blpk verify``: check every chunk of files for damage."""

import argparse
import os
from collections.abc import Iterator

from ..damage.report import Report
from ..filetypes.table import FILETYPES
from ..filetypes.verify import verify_source
from ..storage.file import Place
from .console.inputfile import open_whole
from .console.options import (
    STDIO,
    add_classic_option,
    add_files,
    add_json_option,
    add_option,
    series,
)
from .console.output import Console
from .console.reports import verify_each


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts = (f"every {each.unit} of {each.kind.name}" for each in FILETYPES if each.has_decode)
    parser.description = (
        f"Read and decode {series('every chunk of each file', *parts)}, and report what is damaged."
    )
    add_option(parser, "--fix", "rebuild a missing offset table or trailer if all data are intact")
    add_option(
        parser,
        "--decode",
        "also decode the images of a folder, a recording or a dataset, and the audio of a "
        "recording",
    )
    add_option(
        parser,
        "-r, --recursive",
        "also check every file below a folder; those of other types are only counted",
    )
    add_files(parser)
    add_json_option(parser)
    add_classic_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verify each file."""
    console = Console(args)
    if args.recursive:
        found = {name: [*_walk(name)] for name in args.files if os.path.isdir(name)}
        args.walked = {path for paths in found.values() for path in paths}
        args.files = [path for name in args.files for path in found.get(name, [name])]

    def verify_file(place: Place) -> Report:
        with console.progress() as progress:
            filetype, source = open_whole(place, "verified", args.kinds)
            fix = (Place(source) if place.path == STDIO else place) if args.fix else None
            return verify_source(
                filetype, source, fix, decode=args.decode, nthreads=args.nthreads, progress=progress
            )

    return verify_each(args, verify_file)


def _walk(folder: str) -> Iterator[str]:
    """Yield every file below a folder, a folder of one type as a whole, and unreadable folders."""
    parts = tuple(suffix for each in FILETYPES if each.is_folder for suffix in each.suffixes)
    unreadable: list[OSError] = []
    for root, folders, names in os.walk(folder, onerror=unreadable.append):
        folders.sort()
        if any(name.lower().endswith(parts) for name in names):
            yield root
        for name in sorted(names):
            path = os.path.join(root, name)
            # Not a pipe, which would have to be written to; a link to a missing file is an error.
            is_file = os.path.isfile(path) or not os.path.exists(path)
            is_own = name.startswith(".bloscpack-")  # of a writer that is at work
            if is_file and not is_own and not name.lower().endswith(parts):
                yield path
    yield from (os.fsdecode(err.filename) for err in unreadable)
