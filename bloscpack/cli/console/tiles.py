"""Tiles of a sheet: the pictures, their numbers, and the width of the sheet."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...types import AnyArray, IntArray

MAX_TILES = 48
MAX_COLUMNS = 8
_MAX_TILE_WIDTH = 240


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


def spread(nframes: int) -> IntArray:
    """Return the numbers of at most `MAX_TILES` frames, evenly spread."""
    shown = min(nframes, MAX_TILES)
    return np.arange(shown, dtype=np.int64) * nframes // max(1, shown)


def sheet_width(columns: int, frame_width: int) -> int:
    """Return the width of a sheet; frames narrower than 32 pixels are enlarged to 32."""
    return columns * (min(_MAX_TILE_WIDTH, max(32, frame_width)) + 4) + 4


def width_of(frame: tuple[int, ...]) -> int:
    """Return the width in pixels of a frame of this shape."""
    return frame[1] if len(frame) > 1 else (frame[0] if frame else 1)


def numbers_text(numbers: IntArray | Sequence[int] | Sequence[str]) -> str:
    """Return the numbers of frames as text, abbreviated if they are evenly spaced; or names."""
    if len(numbers) and isinstance(numbers[0], str):
        return ", ".join(map(repr, numbers))
    steps = set(np.diff(numbers).tolist())
    if len(steps) == 1 and len(numbers) > 3:
        return f"{numbers[0]}, {numbers[1]}, ... {numbers[-1]}"
    return ", ".join(map(str, numbers))
