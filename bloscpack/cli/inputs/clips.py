"""Clips of frames for commands: a source from a name, a selection from text."""

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
    """Open what `open_frames` does, by its path or URL, or standard input with a frame store.

    Raises
    ------
    FileNotFound
        It is not there.
    BloscpackError, OSError
        It cannot be opened.
    """
    check_input(name, "file")
    is_folder = name != STDIO and Path(name).is_dir()
    is_other = is_folder or is_url(name) or is_dataset_name(name)
    return open_frames(name if is_other else read_any(name), nthreads=nthreads)


def parse_frames(text: str) -> int | slice | list[int]:
    """Return the selection of frames that `text` means: ``5``, ``0:32:2`` or ``3,4,9``.

    Raises
    ------
    UsageError
        It means none.
    """
    index = parse_selection_text(text)
    if len(index) == 1 and isinstance(index[0], int | slice):
        return index[0]
    if index == (...,):
        return slice(None)
    numbers = [entry for entry in index if isinstance(entry, int)]
    if len(numbers) != len(index):
        raise UsageError(f"selection '{text}': frames are one range, or a list of numbers")
    return numbers


def kept_as(clip: Clip) -> str:
    """Return how frames are kept: "images" (JPEG or PNG) or "arrays"."""
    return "arrays" if clip.read_images([]) is None else "images"


def clip_nbytes(clip: Clip) -> int:
    """Return the decoded size, as if all frames were as the first."""
    nbytes: int = clip.dtype.itemsize
    for length in clip.shape:
        nbytes *= length
    return nbytes


def describe_source(source: FrameSource) -> dict[str, Any]:
    """Return kind and attributes of a source."""
    kinds = {
        "FrameStore": "frame store",
        "GulpSource": "gulp directory",
        "Dataset": "Benzina dataset",
    }
    return {
        "kind": kinds.get(type(source).__name__, type(source).__name__),
        "attrs": getattr(source, "attrs", None),
    }
