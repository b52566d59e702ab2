"""``blpk show``: an array, a frame or a column as a picture or a plot in the terminal."""

import argparse
from contextlib import closing
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..archive.reader import Archive
from ..array.array import Array
from ..array.selection import parse_selection
from ..display.colormap import colour
from ..display.contactsheet import is_cmyk, pictured
from ..display.halfblocks import half_blocks, plain_text, sixel
from ..display.lineplot import columns_of, text_plot
from ..display.thumbnail import has_colours, index_text, window
from ..filetypes.open import frames_of
from ..filetypes.table import ARCHIVES, ARRAYS
from ..frames.protocol import FrameSource
from ..storage.file import Place
from ..storage.url import shown_name
from ..types import AnyArray
from .console import terminal
from .console.describe import dtype_text
from .console.inputfile import only, open_item
from .console.options import add_json_option, add_option, ranged
from .console.output import Console, binary_stdout, print_json, printable, results
from .console.selection import Index, parse_selection_text, strip_brackets, take_name
from .console.status import ExitCode, UsageError

# Without a selection, at most this many chunks are decoded, and this many bytes of them.
_MAX_CHUNKS, _MAX_NBYTES = 64, 64 << 20
# Largest selection that is read, in decoded bytes.
_MAX_SELECTED = 256 << 20
_PLOT_LINES = 12
_SIXEL_SIDE = 640  # pixels
_MAX_NAMES = 8
_MAX_WIDTH = 1000


class Shown(NamedTuple):
    """Values to show, and what they are."""

    values: AnyArray
    label: str  # names from the file: to be printed with `printable`
    is_color: bool = False  # whether the last axis has colours
    is_cmyk: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show part of a file in the terminal: a heat map of an array, a frame of a clip, a sample, "
        "or a line plot of values along one axis. FILE::/NAME is an array of an archive, a clip, a "
        "sample or a stream of images; FILE::/STREAM/FIELD is a field of the records of a stream. "
        "In a pipe, the picture is plain text."
    )
    parser.add_argument("file_", metavar="FILE", help="file or folder, - for input")
    # The first of them is the selection, if it is alone and can be one: see `take_name`.
    parser.add_argument("selection", metavar="NAME", nargs="?", help="the same as FILE::/NAME")
    parser.add_argument(
        "second",
        metavar="SELECTION",
        nargs="?",
        help="a numpy index of integers, slices and ..., like '3,:,::2'; of a clip, the first "
        "entry is the frame (default: the middle)",
    )
    how = parser.add_mutually_exclusive_group()
    add_option(how, "--sixel", "draw pixels, with sixel graphics")
    add_option(how, "--blocks", "draw half blocks, in colour")
    add_option(how, "--plain", "draw plain characters, without colour")
    add_json_option(how)
    add_option(
        parser,
        "--width N",
        "columns of the picture (default: those of the terminal)",
        type=lambda text: ranged(text, 1, _MAX_WIDTH),
    )


def run(args: argparse.Namespace) -> int:
    """Show it."""
    console = Console(args)
    place = only(take_name(args), args.file_)
    index = None if args.selection is None else parse_selection_text(args.selection)
    shown = _read(place, index, args.nthreads)
    if args.json:
        print_json(
            "show",
            {
                "path": shown_name(args.file_),
                "selection": args.selection and strip_brackets(args.selection),
                "shown": shown.label,
                "shape": shown.values.shape,
                "dtype": dtype_text(shown.values.dtype),
            },
        )
        return ExitCode.OK
    columns, lines = terminal.size()
    results(_drawn(args, shown, args.width or columns, max(2, lines - 2)))
    binary_stdout()  # flushes: the label follows the picture
    console.note(printable(shown.label))
    return ExitCode.OK


def _read(place: Place, index: Index | None, nthreads: int | None) -> Shown:
    filetype, source, inner = open_item(place)
    if filetype is ARCHIVES:
        with Archive(source, nthreads=nthreads) as archive:
            chosen = _only(archive, place.shown)
            with archive[chosen] as array:
                return _of_array(array, f"{chosen} ", index)
    if filetype is ARRAYS:
        with Array(source, nthreads=nthreads) as array:
            return _of_array(array, f"{place.inner} " if place.inner else "", index)
    with closing(frames_of(filetype, source, nthreads=nthreads)) as opened:
        clips = pictured(opened)
        return _of_clips(clips, place.path, inner, index)


def _only(names: Archive, where: str) -> str:
    """Return the only name, or raise an error that lists the first ones."""
    if len(names) == 1:
        return str(next(iter(names)))
    first = ", ".join(repr(each)[:80] for each, _ in zip(names, range(_MAX_NAMES), strict=False))
    raise ValueError(
        f"{where}: {len(names)} arrays; name one, such as '{where}::/NAME', of: {first}"
    )


def _of_array(array: Array, label: str, index: Index | None) -> Shown:
    if index is None:
        index = window(array, _MAX_CHUNKS, _MAX_NBYTES)
    text = index_text(index)
    try:
        nbytes = prod(parse_selection(index, array.shape).shape) * array.dtype.itemsize
    except IndexError as err:
        raise ValueError(f"selection {text}: {err}") from None
    if nbytes > _MAX_SELECTED:
        raise ValueError(
            f"selection {text} has {nbytes} bytes, more than the {_MAX_SELECTED} that are shown: "
            "select less"
        )
    return _as_picture(array.read(index), f"{label}{text}")


def _as_picture(values: AnyArray, label: str, *, cmyk: bool = False) -> Shown:
    """Reduce values to a plane, colours or a line: at the middle of the axes before."""
    is_color = has_colours(values.shape, values.dtype)
    if not values.size:
        raise ValueError(f"{label}: shape {values.shape} has nothing to show")
    middles = []
    while values.ndim > 2 + is_color:
        middles.append(len(values) // 2)
        values = values[middles[-1]]
    note = f", of that {index_text((*middles, slice(None)))}" if middles else ""
    return Shown(values, f"{label}{note}", is_color, cmyk)


def _of_clips(clips: FrameSource, outer: str, inner: str, index: Index | None) -> Shown:
    recording: Any = getattr(clips, "recording", None)
    if recording is not None and "/" in inner:
        stream, _, field = inner.partition("/")
        values = recording.streams[stream].field(field)
        if not isinstance(values, np.ndarray):
            raise ValueError(f"{inner!r:.80}: its values differ in length and cannot be shown")
        try:
            chosen = values if index is None else values[index]
        except IndexError as err:
            raise ValueError(f"{inner!r:.80}: {err}") from None
        label = f"{stream} {field} of {len(values)} records"
        return _as_picture(np.atleast_1d(chosen), label)
    if not inner and not len(clips):
        raise ValueError(f"{shown_name(outer)}: no clips to show")
    clip = clips[inner or clips.keys()[0]]
    if not len(clip):
        raise ValueError(f"clip {clip.id!r:.80}: no frames to show")
    if index is None:
        index = (len(clip) // 2,)
    elif not isinstance(index[0], int):
        raise UsageError("a clip is shown one frame at a time: begin SELECTION with a number")
    try:
        frame = clip.read(index[0])
        values = frame[index[1:]] if len(index) > 1 else frame
    except IndexError as err:
        raise ValueError(f"clip {clip.id!r:.80}: {err}") from None
    label = f"clip {clip.id} {index_text(index)} of {len(clip)} frames"
    return _as_picture(np.atleast_1d(values), label, cmyk=is_cmyk(clip))


def _drawn(args: argparse.Namespace, shown: Shown, width: int, lines: int) -> list[str]:
    """Return the lines of the picture or the plot."""
    values = shown.values
    is_plot = values.ndim < 2 or (values.ndim == 2 and min(values.shape) == 1)
    colors = terminal.colors()
    if is_plot:
        line = values.reshape(-1)
        found = columns_of(line, 1)
        plot = text_plot(line, width, min(_PLOT_LINES, lines))
        if args.plain or not terminal.is_utf8():
            plot = ["".join(" " if char == "\u2800" else "*" for char in each) for each in plot]
        return [f"{found.top:.6g}", *plot, f"{found.bottom:.6g}"]
    if args.sixel or (not (args.blocks or args.plain or not colors) and terminal.has_sixel()):
        picture = colour(_colors_of(shown), _SIXEL_SIDE, _SIXEL_SIDE, is_cmyk=shown.is_cmyk)
        return [sixel(picture.pixels), *_legend(picture)]
    # A half block is as high as it is wide. The picture keeps its shape, but is not enlarged.
    height, across = values.shape[:2]
    scale = min(1.0, width / across, 2 * lines / height)
    rows, columns = max(1, round(height * scale)), max(1, round(across * scale))
    is_plain = args.plain or not (args.blocks or colors)
    picture = colour(_colors_of(shown), rows, columns, is_cmyk=shown.is_cmyk, is_gray=is_plain)
    if is_plain:
        return [*plain_text(picture.pixels), *_legend(picture)]
    return [*half_blocks(picture.pixels, colors=colors or 1 << 24), *_legend(picture)]


def _colors_of(shown: Shown) -> AnyArray:
    """Return the values as (H, W), or (H, W, C) with colours."""
    values = shown.values
    return values[..., 0] if values.ndim == 3 and values.shape[2] < 3 else values


def _legend(picture: Any) -> list[str]:
    legend = picture.legend().removeprefix(": ").removeprefix(", ")
    return [legend] if legend else []
