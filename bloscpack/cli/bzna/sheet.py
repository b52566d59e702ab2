"""``blpk bzna sheet``: one picture of many samples of a dataset."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...display.contactsheet import spread
from ...filetypes.table import FileType
from ...storage.protocol import ByteSource
from ..console.arrayout import check_suffix
from ..console.options import positive
from ..console.output import Console
from ..console.outputfile import check_output
from ..console.selection import parse_range
from ..console.status import ExitCode, UsageError
from ..sheet import Tiles, write_sheet
from .datasets import THUMB, TRACKS, add_file, add_selection, choose, open_dataset

if TYPE_CHECKING:
    from ...benzina.dataset import Dataset

# More than a person can look at, and every picture has to be decoded.
_MAX_SELECTED = 10_000
_TILE_WIDTH = 240


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--columns", metavar="N", type=positive, help="pictures per row")
    parser.add_argument("--width", metavar="PIXELS", type=positive, help="width of the sheet")
    add_selection(parser)


def run(args: argparse.Namespace) -> int:
    """Write the sheet."""
    console = Console(args)
    check_suffix(args.output, "png")
    check_output(args.output, [args.file_], console, force=args.force)
    with open_dataset(args.file_, args.nthreads, splits=args.splits) as dataset:
        write_sheet(args, console, _tiles(args, choose(dataset, args)))
    return ExitCode.OK


@contextmanager
def open_tiles(
    args: argparse.Namespace, filetype: FileType, source: ByteSource, inner: str
) -> Iterator[Tiles]:
    """Open the thumbnails of a dataset for ``blpk sheet``."""
    with open_dataset(args.file_, args.nthreads, source=source) as dataset:
        yield _tiles(args, dataset[parse_range(args.select, len(dataset), "samples")])


def _tiles(args: argparse.Namespace, samples: "Dataset") -> Tiles:
    count = len(samples)
    positions = spread(count) if args.select is None else list(range(count))
    if len(positions) > _MAX_SELECTED:
        raise UsageError(f"--select: {len(positions)} samples; at most {_MAX_SELECTED} fit")
    track = TRACKS.get(getattr(args, "track", None) or "", THUMB)
    frames = (sample.decode(track) for sample in samples.samples(positions))
    numbers = [samples.indices[position] for position in positions]
    return Tiles(frames, numbers, "samples", _TILE_WIDTH)
