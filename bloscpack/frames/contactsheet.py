"""Contact sheets: frames of any dtype as tiles of one picture, for viewing."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..types import AnyArray

# Width in pixels of the gaps between and around tiles, and their gray value.
_GAP, _GAP_VALUE = 4, 48
# Gray value behind transparent pixels.
_BACKGROUND = 255
# Largest sheet, in pixels; frames are not read for anything larger.
MAX_PIXELS = 1 << 26

_Picture = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(slots=True)
class Sheet:
    """Picture of several frames."""

    pixels: _Picture  # uint8, ``(H, W, 3)``: red, green, blue
    shape: tuple[int, int]  # rows and columns of tiles
    # What was scaled, replaced or left out to show the frames.
    notes: list[str] = field(default_factory=list)


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
    pixels: _Picture = np.full((height, width, 3), _GAP_VALUE, np.uint8)
    for number, tile in enumerate(tiles):
        top = number // columns * (tile_height + _GAP) + _GAP
        left = number % columns * (tile_width + _GAP) + _GAP
        pixels[top : top + len(tile), left : left + tile_width] = colormap.colors(tile)
    return Sheet(pixels, (nrows, min(columns, len(tiles))), colormap.notes())


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
        values = self._to_float(values)
        if self._is_scaled:
            is_finite = np.isfinite(values)
            if not is_finite.all():
                self._has_holes = True
            if is_finite.any():
                self._low = min(self._low, float(values[is_finite].min()))
                self._high = max(self._high, float(values[is_finite].max()))
        height = max(1, round(len(values) * width / values.shape[1]))
        _check_size(height, width)
        return _resample(_resample(values, height, 0), width, 1)

    @property
    def _is_scaled(self) -> bool:
        return self._dtype != np.uint8 and self._dtype != np.bool_

    def _to_float(self, values: AnyArray) -> AnyArray:
        if values.dtype.kind in "mM":
            dates: AnyArray = values.astype("i8").astype("f8")
            dates[np.isnat(values)] = np.nan
            return dates
        if values.dtype.kind == "c":
            values = np.abs(values)
        numbers: AnyArray
        try:
            numbers = values.astype("f8")
        except (TypeError, ValueError) as err:
            raise ValueError(f"frames of {values.dtype} cannot be shown") from err
        if self._is_cmyk and values.shape[2] == 4:
            numbers = numbers[..., :3] * numbers[..., 3:] / 255
        elif values.shape[2] == 4 and values.dtype == np.uint8:
            alpha = numbers[..., 3:] / 255
            numbers = numbers[..., :3] * alpha + _BACKGROUND * (1 - alpha)
        elif values.shape[2] > 3:
            numbers = numbers[..., :3]
        return numbers

    def colors(self, tile: AnyArray) -> _Picture:
        if self._dtype == np.bool_:
            tile = tile * 255
        elif self._is_scaled:
            span = self._high - self._low
            with np.errstate(invalid="ignore"):
                tile = (tile - self._low) * (255 / span if span > 0 else 0)
            tile = np.where(np.isfinite(tile), tile, 0)
        shown: _Picture = np.zeros((*tile.shape[:2], 3), np.uint8)
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


def _resample(values: AnyArray, count: int, axis: int) -> AnyArray:
    """Resample an axis to `count` entries: averages, or repeated entries."""
    length = values.shape[axis]
    edges = np.arange(count) * length // count
    result: AnyArray
    if count >= length:
        result = np.take(values, edges, axis)
    else:
        sizes = np.diff(np.append(edges, length)).astype("f8")
        result = np.add.reduceat(values, edges, axis)
        result /= sizes.reshape([-1 if each == axis else 1 for each in range(values.ndim)])
    return result
