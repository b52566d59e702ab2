"""``blpk bzna sheet``: one picture of many samples of a dataset."""

import argparse

from ...display.contactsheet import contact_sheet
from ...media import image
from ..console.arrayout import check_suffix
from ..console.options import count
from ..console.output import Console
from ..console.outputfile import check_output, open_output
from ..console.status import ExitCode, UsageError
from ..frames.sheet import MAX_COLUMNS, numbers_text, sheet_width, spread
from .datasets import THUMB, TRACKS, add_file, add_selection, choose, open_dataset

# More than a person can look at, and every picture has to be decoded.
_MAX_SELECTED = 10_000
_TILE_WIDTH = 240


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Write a PNG with thumbnails beside and below each other, in the order of the samples."
    )
    add_file(parser)
    parser.add_argument(
        "output", metavar="OUT_FILE", help="PNG file to write, - for standard output"
    )
    parser.add_argument(
        "--track",
        choices=tuple(TRACKS),
        help="show the thumbnails or the pictures (default: thumb)",
    )
    parser.add_argument("--columns", metavar="N", type=count, help="pictures per row")
    parser.add_argument("--width", metavar="PIXELS", type=count, help="width of the sheet")
    add_selection(parser)


def run(args: argparse.Namespace) -> int:
    """Write the sheet."""
    if args.columns == 0 or args.width == 0:
        raise UsageError("--columns and --width must be at least 1")
    console = Console(args)
    check_suffix(args.output, "png")
    check_output(args.output, [args.file_], console, force=args.force)
    with open_dataset(args.file_, args.nthreads, splits=args.splits) as dataset:
        samples = choose(dataset, args)
        positions = spread(len(samples)).tolist()
        if args.select is not None:
            positions = list(range(len(samples)))
        if len(positions) > _MAX_SELECTED:
            raise UsageError(f"--select: {len(positions)} samples; at most {_MAX_SELECTED} fit")
        track = TRACKS.get(args.track, THUMB)
        columns = args.columns or min(MAX_COLUMNS, max(1, len(positions)))
        frames = (sample.decode(track) for sample in samples.samples(positions))
        sheet = contact_sheet(
            frames, columns=columns, width=args.width or sheet_width(columns, _TILE_WIDTH)
        )
        numbers = [samples.indices[position] for position in positions]
    with open_output(args.output) as sink:
        sink.write(image.encode_png(sheet.pixels))
    console.note(f"{sheet.shape[0]} rows of {sheet.shape[1]} samples: {numbers_text(numbers)}")
    return ExitCode.OK
