"""Pictures as text for terminals: half blocks in colour, sixel, and plain characters.

A half block is one character with two pixels: the upper in its colour, the lower in that of its
background.
"""

import numpy as np

from ..types import AnyArray
from .colormap import Pixels

# Plain characters, from dark to bright.
_RAMP = " .:-=+*#%@"
# Levels of the 6 x 6 x 6 colours of 256, whose numbers begin at 16.
_CUBE = np.array([0, 95, 135, 175, 215, 255])


def half_blocks(pixels: Pixels, *, colors: int) -> list[str]:
    """Return an RGB picture as lines of half blocks, with 256 or 1 << 24 `colors`."""
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, pixels[-1:]])
    codes = _codes(pixels, colors)
    lines = []
    for upper, lower in zip(codes[::2], codes[1::2], strict=True):
        parts, before = [], ("", "")
        for pair in zip(upper, lower, strict=True):
            if pair != before:
                parts.append(f"\x1b[38;{pair[0]};48;{pair[1]}m")
                before = pair
            parts.append("\u2580")
        lines.append("".join(parts) + "\x1b[0m")
    return lines


def _codes(pixels: Pixels, colors: int) -> list[list[str]]:
    if colors == 256:
        levels = np.abs(pixels[..., np.newaxis].astype(int) - _CUBE).argmin(axis=-1)
        numbers = 16 + 36 * levels[..., 0] + 6 * levels[..., 1] + levels[..., 2]
        return [[f"5;{number}" for number in line] for line in numbers.tolist()]
    return [[f"2;{red};{green};{blue}" for red, green, blue in line] for line in pixels.tolist()]


def sixel(pixels: Pixels) -> str:
    """Return an RGB picture as a sixel sequence, in the nearest of 216 colours."""
    height, width, _ = pixels.shape
    levels = np.rint(pixels.astype(float) / 51).astype(int)
    numbers = 36 * levels[..., 0] + 6 * levels[..., 1] + levels[..., 2]
    parts = [f'\x1bPq"1;1;{width};{height}']
    for number in np.unique(numbers).tolist():
        red, green, blue = (20 * level for level in (number // 36, number // 6 % 6, number % 6))
        parts.append(f"#{number};2;{red};{green};{blue}")
    for top in range(0, height, 6):
        band = numbers[top : top + 6]
        weights = 1 << np.arange(len(band))
        for number in np.unique(band).tolist():
            bits = ((band == number) * weights[:, None]).sum(axis=0)
            parts.append(f"#{number}{_runs(bits)}$")
        parts.append("-")
    return "".join(parts) + "\x1b\\"


def _runs(bits: AnyArray) -> str:
    """Return columns of six pixels as sixel characters, with a count for repeated ones."""
    edges = np.flatnonzero(np.diff(bits)) + 1
    starts = [0, *edges.tolist()]
    stops = [*edges.tolist(), len(bits)]
    parts = []
    for start, stop in zip(starts, stops, strict=True):
        char = chr(63 + int(bits[start]))
        parts.append(char * (stop - start) if stop - start < 4 else f"!{stop - start}{char}")
    return "".join(parts)


def plain_text(pixels: Pixels) -> list[str]:
    """Return an RGB picture as lines of plain characters, one for two pixels of a column."""
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, pixels[-1:]])
    gray = pixels.astype(float) @ (0.299, 0.587, 0.114)
    levels = np.rint((gray[::2] + gray[1::2]) / 2 / 255 * (len(_RAMP) - 1)).astype(int)
    return ["".join(_RAMP[level] for level in line).rstrip() for line in levels.tolist()]
