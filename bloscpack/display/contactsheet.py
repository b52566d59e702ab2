"""Contact sheets: frames of any dtype as tiles of one picture, for viewing."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..format.filekind import JPEG, kind_of
from ..storage.sink import open_sink
from ..types import AnyArray
from .colormap import Pixels, as_numbers, encode_png, resample, shares_of

# Width in pixels of the gaps between and around tiles, and their gray value.
_GAP, _GAP_VALUE = 4, 48
# Largest sheet, in pixels; frames are not read for anything larger.
MAX_PIXELS = 1 << 26
# By default a sheet of a clip has this many frames, columns, and pixels in the width of a tile.
MAX_FRAMES, MAX_COLUMNS = 48, 8
_MIN_TILE, _MAX_TILE = 32, 240


class Frames(Protocol):
    """The part of a clip that a sheet needs; see `frames.protocol.Clip`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape, with the axis of frames."""

    def __len__(self) -> int:
        """Return the number of frames."""

    def read(self, selection: Any = None) -> AnyArray:
        """Return frames."""

    def read_images(self, selection: Any = None) -> list[bytes] | None:
        """Return frames as JPEG or PNG files, if they are stored so."""


@dataclass(slots=True)
class Sheet:
    """Picture of several frames; notebooks show it.

    Attributes
    ----------
    pixels : ndarray
        uint8, ``(H, W, 3)``: red, green, blue.
    shape : (int, int)
        Rows and columns of tiles.
    notes : list of str
        Values and frames that were scaled, replaced or left out.
    frames : list of int
        Numbers of the frames, if it is a sheet of a clip.
    """

    pixels: Pixels
    shape: tuple[int, int]
    notes: list[str] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as a PNG file; an existing file is replaced."""
        with open_sink(path) as sink:
            sink.write(encode_png(self.pixels))

    def _repr_png_(self) -> bytes:
        return encode_png(self.pixels)


def contact_sheet(
    frames: Iterable[AnyArray], *, columns: int, width: int, is_cmyk: bool = False
) -> Sheet:
    """Arrange frames of one dtype in a grid, left to right and top to bottom.

    ``(H, W)`` and ``(H, W, 1)`` are shown in gray, ``(H, W, 3)`` in colour, and ``(H, W, 4)`` on
    white, or with `is_cmyk` as inverted CMYK, as in JPEG; with any other number of channels, the
    first three are shown. Frames of fewer axes are shown as a row. uint8 is shown unchanged and
    bool in black and white. Any other dtype is scaled from its smallest value (black) to its
    largest (white).

    The picture is `width` pixels wide, of `columns` tiles. Frames are averaged down, or repeated
    pixel by pixel. ValueError if they have four axes, no pixels or a dtype that is not numeric, or
    the sheet is too small or too large.
    """
    tile_width = (width - _GAP) // columns - _GAP
    if columns < 1 or tile_width < 1:
        raise ValueError(f"{columns} columns do not fit into a width of {width} pixels")
    colormap = _ColorMap(is_cmyk=is_cmyk)
    tiles = [colormap.tile(frame, tile_width) for frame in frames]
    if not tiles:
        raise ValueError("no frames to show")
    tile_height = max(len(tile) for tile in tiles)
    nrows = -(-len(tiles) // columns)
    height = nrows * (tile_height + _GAP) + _GAP
    _check_size(height, width)
    pixels: Pixels = np.full((height, width, 3), _GAP_VALUE, np.uint8)
    for number, tile in enumerate(tiles):
        top = number // columns * (tile_height + _GAP) + _GAP
        left = number % columns * (tile_width + _GAP) + _GAP
        pixels[top : top + len(tile), left : left + tile_width] = colormap.colors(tile)
    return Sheet(pixels, (nrows, min(columns, len(tiles))), colormap.notes())


def clip_sheet(
    clip: Frames, numbers: Sequence[int], *, columns: int | None = None, width: int | None = None
) -> Sheet:
    """Arrange frames of a clip in a grid; see `contact_sheet`.

    By default there are at most 8 columns, and frames are enlarged only if they are narrower than
    32 pixels.
    """
    clip = pictured(clip)
    columns = min(MAX_COLUMNS, max(1, len(numbers))) if columns is None else columns
    if width is None:
        width = sheet_width(columns, width_of(clip.shape[1:]))
    # One by one, as images may differ in shape.
    frames = (clip.read(number) for number in numbers)
    sheet = contact_sheet(frames, columns=columns, width=width, is_cmyk=is_cmyk(clip))
    sheet.frames = list(numbers)
    return sheet


def sheet_width(columns: int, frame_width: int) -> int:
    """Return the width of a sheet; frames narrower than 32 pixels are enlarged to 32."""
    return columns * (min(_MAX_TILE, max(_MIN_TILE, frame_width)) + _GAP) + _GAP


def width_of(frame: tuple[int, ...]) -> int:
    """Return the width in pixels of a frame of this shape."""
    return frame[1] if len(frame) > 1 else (frame[0] if frame else 1)


def spread(nframes: int, count: int = MAX_FRAMES) -> list[int]:
    """Return the numbers of at most `count` frames, evenly spread."""
    shown = min(nframes, count)
    return [number * nframes // shown for number in range(shown)]


def pictured(clips: Any) -> Any:
    """Return a clip, or a source of clips, whose colours begin with red."""
    return clips.as_pictures() if hasattr(clips, "as_pictures") else clips


def is_cmyk(clip: Frames) -> bool:
    """Return whether a clip consists of JPEG images with four channels."""
    if len(clip.shape) != 4 or clip.shape[3] != 4 or not len(clip):
        return False
    images = clip.read_images([0])
    return images is not None and kind_of(images[0]) is JPEG


def _check_size(height: int, width: int) -> None:
    if height * width > MAX_PIXELS:
        raise ValueError(f"a sheet of {width} by {height} pixels is too large: show less")


class _ColorMap:
    """Conversion of frame values to colours; the scale is known after the last frame."""

    def __init__(self, *, is_cmyk: bool) -> None:
        self._is_cmyk = is_cmyk
        self._dtype: np.dtype[Any] | None = None
        self._low, self._high = np.inf, -np.inf
        self._has_holes = False
        self._nchannels = 1

    def tile(self, frame: AnyArray, width: int) -> AnyArray:
        """Return a frame scaled to `width` pixels, as float64 of shape (H, W, C)."""
        values = _to_image_shape(frame)
        self._dtype, self._nchannels = frame.dtype, max(self._nchannels, values.shape[2])
        values = as_numbers(values, is_cmyk=self._is_cmyk)
        if self._is_scaled:
            is_finite = np.isfinite(values)
            if not is_finite.all():
                self._has_holes = True
            if is_finite.any():
                self._low = min(self._low, float(values[is_finite].min()))
                self._high = max(self._high, float(values[is_finite].max()))
        height = max(1, round(len(values) * width / values.shape[1]))
        _check_size(height, width)
        return resample(resample(values, height, 0), width, 1)

    @property
    def _is_scaled(self) -> bool:
        return self._dtype != np.uint8 and self._dtype != np.bool_

    def colors(self, tile: AnyArray) -> Pixels:
        if self._dtype == np.bool_:
            tile = tile * 255
        elif self._is_scaled:
            tile = shares_of(tile, self._low, self._high) * 255
            tile = np.where(np.isfinite(tile), tile, 0)
        shown: Pixels = np.zeros((*tile.shape[:2], 3), np.uint8)
        rounded = np.clip(np.rint(tile), 0, 255).astype(np.uint8)
        shown[..., : 3 if rounded.shape[2] == 1 else rounded.shape[2]] = rounded
        return shown

    def notes(self) -> list[str]:
        """Return notes about how the frames are shown."""
        notes = []
        if self._is_scaled and self._low <= self._high:
            notes.append(
                f"{self._dtype} is shown from {self._low:.6g} (black) to {self._high:.6g} (white)"
            )
        if self._has_holes:
            notes.append("black where a value is not finite")
        if self._nchannels == 2 or self._nchannels > 4:
            notes.append(
                f"of {self._nchannels} channels the first are shown as red, green and blue"
            )
        return notes


def _to_image_shape(frame: AnyArray) -> AnyArray:
    """Return a frame in shape (H, W, C)."""
    if frame.ndim > 3:
        raise ValueError(f"frames of shape {frame.shape} cannot be shown: they have four axes")
    if not frame.size:
        raise ValueError(f"frames of shape {frame.shape} have no pixels")
    if frame.ndim == 3:
        return frame
    return frame.reshape(1 if frame.ndim < 2 else len(frame), -1, 1)
