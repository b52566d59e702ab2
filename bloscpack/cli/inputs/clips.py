"""Clips of frames for commands: open a source by name, parse a selection of frames."""

from pathlib import Path
from typing import Any

from ...filetypes.open import open_frames
from ...frames.protocol import Clip, FrameSource
from ...storage.url import is_url
from ..console.endpoint import STDIO, check_input, read_any
from ..console.selection import parse_selection_text
from ..console.status import UsageError
from .datasets import is_dataset_name


def open_clips(name: str, nthreads: int | None) -> FrameSource:
    """Open a source of clips by path or URL, or a frame store from standard input.

    Raises
    ------
    FileNotFound
        The source does not exist.
    BloscpackError, OSError
        The source cannot be opened.
    """
    check_input(name, "file")
    is_folder = name != STDIO and Path(name).is_dir()
    is_other = is_folder or is_url(name) or is_dataset_name(name)
    return open_frames(name if is_other else read_any(name), nthreads=nthreads)


def parse_frames(text: str) -> int | slice | list[int]:
    """Parse a selection of frames: ``5``, ``0:32:2`` or ``3,4,9``.

    Raises
    ------
    UsageError
        The text is not such a selection.
    """
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
    """Return how frames are stored: "images" (JPEG or PNG) or "arrays"."""
    return "arrays" if clip.read_images([]) is None else "images"


def clip_nbytes(clip: Clip) -> int:
    """Return the decoded size in bytes, assuming that all frames are like the first."""
    nbytes: int = clip.dtype.itemsize
    for length in clip.shape:
        nbytes *= length
    return nbytes


def describe_source(source: FrameSource) -> dict[str, Any]:
    """Return the kind and the attributes of a source."""
    kinds = {
        "FrameStore": "frame store",
        "GulpSource": "gulp directory",
        "Dataset": "Benzina dataset",
    }
    return {
        "kind": kinds.get(type(source).__name__, type(source).__name__),
        "attrs": getattr(source, "attrs", None),
    }
