"""Pictures of values: resampled, coloured and encoded as PNG, without another library.

Values become float64 of shape (H, W, C); only what is shown is converted, so that the callers bound
the memory by what they read.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..types import AnyArray

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

# Gray value behind transparent pixels.
_BACKGROUND = 255
# Colour of a value that is not finite: neither of the ends of the colour map, nor between them.
_HOLE = (128, 128, 128)
# Eleven colours of viridis, from dark to bright; those between them are interpolated.
_VIRIDIS = np.frombuffer(
    bytes.fromhex("440154482475414487355f8d2a788e21918c22a88444bf707ad151bddf26fde725"),
    np.uint8,
).reshape(-1, 3)


class Coloured(NamedTuple):
    """Picture of values."""

    pixels: Pixels  # ``(H, W, 3)``: red, green, blue
    low: float  # value of the darkest colour; NaN if values are shown unchanged
    high: float  # value of the brightest colour
    has_holes: bool  # whether some values are not finite

    def legend(self) -> str:
        """Return what the colours mean, to follow the name of a picture; empty if unchanged."""
        notes = ""
        if not np.isnan(self.low):
            notes = f": {self.low:.6g} (dark) to {self.high:.6g} (bright)"
        return notes + ", gray where a value is not finite" * self.has_holes


def encode_png(pixels: Pixels) -> bytes:
    """Encode an RGB picture, uint8 ``(H, W, 3)``, as PNG."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each line starts with its filter, none
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, data in chunks:
        crc = struct.pack(">I", zlib.crc32(name + data))
        parts += [struct.pack(">I", len(data)), name, data, crc]
    return b"".join(parts)


def as_numbers(values: AnyArray, *, is_cmyk: bool = False) -> AnyArray:
    """Return values of shape (H, W, C) as float64: NaN for NaT, the magnitude of complex numbers.

    Four channels of uint8 become three: on white, or with `is_cmyk` from inverted CMYK as in JPEG.
    From more than four channels, the first three are returned. ValueError if they are not
    numbers.
    """
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
    if is_cmyk and values.shape[2] == 4:
        numbers = numbers[..., :3] * numbers[..., 3:] / 255
    elif values.shape[2] == 4 and values.dtype == np.uint8:
        alpha = numbers[..., 3:] / 255
        numbers = numbers[..., :3] * alpha + _BACKGROUND * (1 - alpha)
    elif values.shape[2] > 3:
        numbers = numbers[..., :3]
    return numbers


def resample(values: AnyArray, count: int, axis: int) -> AnyArray:
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


def shrink(numbers: AnyArray, height: int, width: int) -> AnyArray:
    """Average numbers of shape (H, W, C) to at most `height` and `width`, without holes."""
    height, width = min(height, len(numbers)), min(width, numbers.shape[1])
    if numbers.shape[:2] == (height, width):
        return numbers
    is_finite = np.isfinite(numbers)
    total = resample(resample(np.where(is_finite, numbers, 0), height, 0), width, 1)
    share = resample(resample(is_finite.astype("f8"), height, 0), width, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shown: AnyArray = np.where(share > 0, total / share, np.nan)
    return shown


def colour_range(arrays: Iterable[AnyArray]) -> tuple[float, float]:
    """Return the smallest and the largest finite number in arrays; 0 and 0 without one."""
    low, high = np.inf, -np.inf
    for values in arrays:
        numbers = as_numbers(values.reshape(1, -1, 1))
        known = numbers[np.isfinite(numbers)]
        if known.size:
            low, high = min(low, float(known.min())), max(high, float(known.max()))
    return (low, high) if low <= high else (0.0, 0.0)


def shares_of(values: AnyArray, low: float, high: float) -> AnyArray:
    """Return where values are from `low`, 0, to `high`, 1; all 0 if these are equal."""
    # Halves, as the difference of two finite numbers may be infinite.
    span = high / 2 - low / 2
    with np.errstate(invalid="ignore", over="ignore"):
        shares: AnyArray = (values / 2 - low / 2) / span if span > 0 else values * 0
    return shares


def colour(
    values: AnyArray,
    height: int,
    width: int,
    *,
    is_cmyk: bool = False,
    limits: tuple[float, float] | None = None,
    is_gray: bool = False,
) -> Coloured:
    """Return a picture of values, averaged to at most `height` and `width`.

    ``(H, W)`` of uint8 and bool are gray, other ``(H, W)`` get the colours of viridis, from the
    smallest to the largest value or over `limits`. ``(H, W, C)`` are red, green and blue; uint8
    unchanged. With `is_gray`, gray replaces viridis. ValueError if they are not numbers.
    """
    is_color = values.ndim == 3 and values.shape[2] > 2
    planes = values if values.ndim == 3 else values[..., np.newaxis]
    numbers = shrink(as_numbers(planes, is_cmyk=is_cmyk), height, width)
    is_finite = np.isfinite(numbers)
    low = high = float("nan")
    if values.dtype == np.bool_:
        numbers = numbers * 255
    elif values.dtype != np.uint8:
        low, high = limits or colour_range([numbers])
        numbers = shares_of(numbers, low, high) * 255
    levels = np.clip(np.rint(np.where(is_finite, numbers, 0)), 0, 255).astype(np.uint8)
    pixels: Pixels
    if is_color or is_gray or values.dtype in (np.uint8, np.bool_):
        pixels = np.ascontiguousarray(
            np.broadcast_to(levels[..., : 3 if is_color else 1], (*levels.shape[:2], 3))
        )
    else:
        pixels = _viridis()[levels[..., 0]]
    has_holes = not is_finite.all()
    if has_holes:
        pixels[~is_finite.all(axis=2)] = _HOLE
    return Coloured(pixels, low, high, has_holes)


def _viridis() -> Pixels:
    """Return a table of 256 colours."""
    at = np.linspace(0, len(_VIRIDIS) - 1, 256)
    known = np.arange(len(_VIRIDIS))
    channels = [np.interp(at, known, _VIRIDIS[:, each]) for each in range(3)]
    return np.rint(np.stack(channels, axis=1)).astype(np.uint8)
