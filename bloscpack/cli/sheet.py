"""``blpk sheet``: one picture of many frames, slices or samples of a file of any type."""

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..display.contactsheet import MAX_COLUMNS, MAX_FRAMES, contact_sheet, sheet_width
from ..media import image
from ..storage.protocol import closed_on_error
from ..storage.sink import is_in_place
from ..types import AnyArray, IntArray
from .console.arrayout import check_suffix
from .console.inputfile import one_input, open_item
from .console.options import STDIO, add_option, positive
from .console.output import Console
from .console.outputfile import check_output, open_output
from .console.status import ExitCode, UsageError


class Tiles(NamedTuple):
    """Pictures for a sheet.

    Attributes
    ----------
    frames : iterable of ndarray
        The pictures, of shape (H, W) or (H, W, C).
    numbers : sequence of int or str
        Their numbers or names.
    unit : str
        Name of what they are: "frames".
    width : int
        Width of a picture in pixels.
    is_cmyk : bool
        Whether four channels are inverted CMYK, as in JPEG.
    notes : tuple of str
        Lines about how they are shown.
    """

    frames: Iterable[AnyArray]
    numbers: Sequence[int] | Sequence[str]
    unit: str
    width: int
    is_cmyk: bool = False
    notes: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a PNG with a grid of pictures: the slices of an array along its first axis, the "
        "frames of a clip or of a stream with images, one frame of each of several clips, or the "
        "thumbnails of a dataset. FILE::/NAME is one array, clip, stream or sample. "
        "Pictures that are not 8 bit are scaled: their smallest value is black, their largest is "
        "white."
    )
    parser.add_argument("file_", metavar="FILE", help="file, folder or URL, - for standard input")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the same as FILE::/NAME")
    parser.add_argument(
        "output", metavar="OUT_FILE", help="PNG file to write, - for standard output"
    )
    add_option(
        parser,
        "--select ITEMS",
        "a number, a range like 0:32:2, or numbers like 3,4,9 (default: at most "
        f"{MAX_FRAMES}, evenly spread)",
    )
    add_option(parser, "--columns N", "pictures per row", type=positive)
    add_option(parser, "--width PIXELS", "width of the sheet", type=positive)


def run(args: argparse.Namespace) -> int:
    """Write the sheet."""
    console = Console(args)
    _check_output_name(args)
    if args.name is not None:
        args.file_ = f"{args.file_}::/{args.name}"
    place = one_input(args.file_)
    args.file_ = str(place)
    check_output(args.output, [place], console, force=args.force)
    filetype, source, inner = open_item(place, args.kinds)
    with closed_on_error(source):
        # A context manager, which reads nothing before it is entered: it closes the source.
        opened = filetype.open_tiles(args, filetype, source, inner)
    with opened as tiles:
        _write(args, console, tiles)
    return ExitCode.OK


def _check_output_name(args: argparse.Namespace) -> None:
    """Refuse an output that is not named as a picture, as it may be meant as NAME."""
    check_suffix(args.output, "png")
    name = args.output
    if name != STDIO and not os.path.splitext(name)[1] and not is_in_place(name):
        raise UsageError(
            f"'{name}': OUT_FILE is a picture, *.png or -; 'sheet FILE {name} OUT.png' shows the "
            "part of this name"
        )


def _write(args: argparse.Namespace, console: Console, tiles: Tiles) -> None:
    """Write the picture, and print which tiles it has."""
    columns = args.columns or min(MAX_COLUMNS, max(1, len(tiles.numbers)))
    sheet = contact_sheet(
        tiles.frames,
        columns=columns,
        width=args.width or sheet_width(columns, tiles.width),
        is_cmyk=tiles.is_cmyk,
    )
    with open_output(args.output) as sink:
        sink.write(image.encode_png(sheet.pixels))
    numbers = _numbers_text(tiles.numbers)
    console.note(f"{sheet.shape[0]} rows of {sheet.shape[1]} {tiles.unit}: {numbers}")
    for note in (*tiles.notes, *sheet.notes):
        console.note(note)


def _numbers_text(numbers: IntArray | Sequence[int] | Sequence[str]) -> str:
    """Return the numbers of frames as text, abbreviated if they are evenly spaced; or names."""
    if len(numbers) and isinstance(numbers[0], str):
        return ", ".join(map(repr, numbers))
    steps = set(np.diff(numbers).tolist())
    if len(steps) == 1 and len(numbers) > 3:
        return f"{numbers[0]}, {numbers[1]}, ... {numbers[-1]}"
    return ", ".join(map(str, numbers))
