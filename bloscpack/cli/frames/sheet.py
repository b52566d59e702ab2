"""``blpk frames sheet``: one picture of many frames of a clip."""

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

from ...display.contactsheet import contact_sheet
from ...exceptions import BloscpackError
from ...frames.protocol import Clip, frame_indices
from ...media import image
from ...types import AnyArray, IntArray
from ..console.arrayout import check_suffix
from ..console.options import count
from ..console.output import Console
from ..console.outputfile import check_output, open_output
from ..console.status import ExitCode, UsageError
from .clips import open_clips, parse_frames

MAX_FRAMES = 48
MAX_COLUMNS = 8
_MAX_TILE_WIDTH = 240


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Write a PNG with a grid of frames of a clip. Frames that "
        "are not 8 bit are scaled: their smallest value is black, their largest is white."
    )
    parser.add_argument("file_", metavar="STORE", help="frame store or gulp directory")
    parser.add_argument("id", metavar="ID", help="clip")
    parser.add_argument(
        "output", metavar="OUT_FILE", help="PNG file to write, - for standard output"
    )
    parser.add_argument(
        "--select",
        metavar="FRAMES",
        help="a number, a range like 0:32:2, or numbers like 3,4,9 (default: at most "
        f"{MAX_FRAMES}, evenly spread)",
    )
    parser.add_argument("--columns", metavar="N", type=count, help="frames per row")
    parser.add_argument("--width", metavar="PIXELS", type=count, help="width of the picture")


def run(args: argparse.Namespace) -> int:
    """Write the sheet."""
    console = Console(args)
    if args.columns == 0 or args.width == 0:
        raise UsageError("--columns and --width must be at least 1")
    check_suffix(args.output, "png")
    selection = None if args.select is None else parse_frames(args.select)
    check_output(args.output, [args.file_], console, force=args.force)
    with open_clips(args.file_, args.nthreads) as source:
        clip = source[args.id]
        try:
            indices = frame_indices(selection, len(clip)).indices
            if selection is None:
                indices = spread(len(clip))
            columns = args.columns or min(MAX_COLUMNS, max(1, len(indices)))
            width = args.width or _default_width(clip, columns)
            sheet = contact_sheet(
                _read(clip, indices), columns=columns, width=width, is_cmyk=_is_cmyk(clip)
            )
        except BloscpackError:
            raise
        except (ValueError, IndexError) as err:
            raise ValueError(f"clip {clip.id!r:.80}: {err}") from err
    with open_output(args.output) as sink:
        sink.write(image.encode_png(sheet.pixels))
    console.note(f"{sheet.shape[0]} rows of {sheet.shape[1]} frames: {numbers_text(indices)}")
    for note in sheet.notes:
        console.note(note)
    return ExitCode.OK


def spread(nframes: int) -> IntArray:
    """Return the numbers of at most `MAX_FRAMES` frames, evenly spread."""
    shown = min(nframes, MAX_FRAMES)
    return np.arange(shown, dtype=np.int64) * nframes // max(1, shown)


def _default_width(clip: Clip, columns: int) -> int:
    """Return a width at which frames are enlarged only if they are narrower than 32 pixels."""
    frame = clip.shape[1:]
    frame_width = frame[1] if len(frame) > 1 else (frame[0] if frame else 1)
    return sheet_width(columns, frame_width)


def sheet_width(columns: int, frame_width: int) -> int:
    """Return the width of a sheet; frames narrower than 32 pixels are enlarged to 32."""
    return columns * (min(_MAX_TILE_WIDTH, max(32, frame_width)) + 4) + 4


def _read(clip: Clip, indices: IntArray) -> Iterator[AnyArray]:
    """Yield frames one by one, as images may differ in shape."""
    return (clip.read(index) for index in indices.tolist())


def _is_cmyk(clip: Clip) -> bool:
    """Return whether a clip consists of JPEG images with four channels."""
    if len(clip.shape) != 4 or clip.shape[3] != 4 or not len(clip):
        return False
    images = clip.read_images([0])
    return images is not None and image.probe(images[0]).kind == "jpeg"


def numbers_text(indices: IntArray | Sequence[int]) -> str:
    """Return the numbers of frames as text, abbreviated if they are evenly spaced."""
    steps = set(np.diff(indices).tolist())
    if len(steps) == 1 and len(indices) > 3:
        return f"{indices[0]}, {indices[1]}, ... {indices[-1]}"
    return ", ".join(map(str, indices))
