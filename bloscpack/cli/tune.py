"""``blpk tune``: try settings on a sample of a file, and name the best."""

import argparse

from ..filetypes.identify import identify
from ..filetypes.table import ARRAYS, FileType
from ..storage.file import Place
from .console.inputfile import check_input, one_input, readable
from .console.options import STDIO, add_classic_option, add_json_option, add_option, byte_size
from .console.output import Console, is_for_people, print_json, results
from .console.status import ExitCode
from .console.trialtable import PATIENCE, trials_document, trials_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Save a sample of a file with other settings. Print the size of each trial and how fast "
        "one thread writes and reads it, and the call with the best settings: the smallest that is "
        f"read at least 1/{PATIENCE:g} as fast as the default one.\n\n"
        "For an array, which may be in a .npy file and the like, codecs, levels, filters and "
        "shapes of chunks are tried. For clips of any other file these are the presets of a frame "
        "store; for a recording, the compressions of its records."
    )
    parser.add_argument("file_", metavar="FILE", help="file, folder or URL, - for standard input")
    add_option(
        parser,
        "--sample SIZE",
        "largest decoded size of the sample (default: 16M; 4M for a recording)",
        type=byte_size,
    )
    add_json_option(parser)
    add_classic_option(parser)


def run(args: argparse.Namespace) -> int:
    """Try settings, and print them."""
    console = Console(args)
    place = one_input(args.file_)
    check_input(place, "file")
    tuned = _filetype(place).tune(args, console, place)
    if args.json:
        print_json("tune", {"path": place.shown, **trials_document(tuned)})
        return ExitCode.OK
    results(trials_text(tuned, is_for_people=is_for_people(args)))
    return ExitCode.OK


def _filetype(place: Place) -> FileType:
    """Return the type whose settings are tried."""
    if place.path == STDIO:
        return ARRAYS
    filetype, source = identify(readable(place.whole))
    source.close()
    return filetype or ARRAYS  # a file of another library, or one that its error names
