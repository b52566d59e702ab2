"""Clips of frames for commands: open a source by name, parse a selection of frames."""

import argparse
from math import prod

from ...filetypes.open import frames_of
from ...frames.protocol import Clip, FrameSource
from ...storage.url import shown_name
from ..console.inputfile import one_input, open_input
from ..console.selection import parse_selection_text
from ..console.status import UsageError


def open_clips(args: argparse.Namespace) -> FrameSource:
    """Open the source of clips of a command by path or URL, or from standard input."""
    return frames_of(*open_input(one_input(args.file_), args.kinds), nthreads=args.nthreads)


def only_clip(source: FrameSource, id_: str) -> Clip:
    """Return the clip with an id; without one the only clip, ValueError if there are several."""
    if not id_ and len(source) != 1:
        name = shown_name(source.name or "FILE")
        advice = f": name one, such as '{name}::/{next(iter(source))}'" if len(source) else ""
        raise ValueError(f"{name}: {len(source)} clips{advice}")
    return source[id_ or next(iter(source))]


def parse_frames(text: str) -> int | slice | list[int]:
    """Parse a selection of frames: ``5``, ``0:32:2`` or ``3,4,9``."""
    index = parse_selection_text(text)
    if len(index) == 1 and isinstance(index[0], int | slice):
        return index[0]
    if index == (...,):
        return slice(None)
    numbers = [entry for entry in index if isinstance(entry, int)]
    if len(numbers) != len(index):
        raise UsageError(f"selection '{text}': expected one range, or a list of frame numbers")
    return numbers


def kept_as(clip: Clip) -> str:
    """Return how frames are stored: "images" (JPEG or PNG), "video" or "arrays"."""
    if getattr(clip, "codec", None) == "video":  # of a frame store
        return "video"
    return "arrays" if clip.read_images([]) is None else "images"


def clip_nbytes(clip: Clip) -> int:
    """Return the decoded size in bytes, assuming that all frames are like the first."""
    return prod(clip.shape) * clip.dtype.itemsize
