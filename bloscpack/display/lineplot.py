"""Line plots: smallest and largest value of each column, as SVG and as text."""

from typing import NamedTuple

import numpy as np

from ..types import AnyArray
from .colormap import as_numbers, shares_of

_WIDTH, _HEIGHT = 480, 96  # of the SVG, in pixels


class Columns(NamedTuple):
    """Values along an axis, reduced to a number of columns."""

    low: AnyArray  # smallest finite value of each column; NaN without one
    high: AnyArray  # largest finite value
    bottom: float  # smallest finite value of all; NaN without one
    top: float  # largest finite value

    def scaled(self, values: AnyArray) -> AnyArray:
        """Return values as shares of the range, from 0 to 1; NaN where there is none."""
        if not self.top > self.bottom:
            return np.where(np.isfinite(values), 0.5, np.nan)
        return shares_of(values, self.bottom, self.top)


def columns_of(values: AnyArray, count: int) -> Columns:
    """Reduce values of shape (N,) to at most `count` columns; ValueError if not numbers."""
    numbers = as_numbers(values.reshape(-1, 1, 1))[:, 0, 0]
    count = min(count, len(numbers))
    edges = np.arange(count) * len(numbers) // max(1, count)
    is_finite = np.isfinite(numbers)
    low: AnyArray = np.minimum.reduceat(np.where(is_finite, numbers, np.inf), edges)
    high: AnyArray = np.maximum.reduceat(np.where(is_finite, numbers, -np.inf), edges)
    low[np.isinf(low)] = np.nan
    high[np.isinf(high)] = np.nan
    known = low[~np.isnan(low)]
    bottom = float(known.min()) if len(known) else float("nan")
    top = float(high[~np.isnan(high)].max()) if len(known) else float("nan")
    return Columns(low, high, bottom, top)


def svg_plot(values: AnyArray) -> str:
    """Return a line plot of values of shape (N,) as an SVG element, of bounded size."""
    columns = columns_of(values, _WIDTH // 2)
    step = _WIDTH / max(1, len(columns.low))
    paths, pen = [], "M"
    low, high = columns.scaled(columns.low).tolist(), columns.scaled(columns.high).tolist()
    for number, (bottom, top) in enumerate(zip(low, high, strict=True)):
        if bottom != bottom:  # NaN: the line is interrupted
            pen = "M"
            continue
        at = (number + 0.5) * step
        for share in (bottom, top) if number % 2 else (top, bottom):
            paths.append(f"{pen}{at:.1f} {(1 - share) * (_HEIGHT - 4) + 2:.1f}")
            pen = "L"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<path d="{"".join(paths)}" fill="none" stroke="#31688e" stroke-width="1.5"/></svg>'
    )


def text_plot(values: AnyArray, width: int, height: int) -> list[str]:
    """Return a line plot of values of shape (N,) as lines of Braille characters."""
    columns = columns_of(values, 2 * width)
    dots = 4 * height
    cells = np.zeros((height, width), np.uint8)
    low, high = columns.scaled(columns.low).tolist(), columns.scaled(columns.high).tolist()
    for number, (bottom, top) in enumerate(zip(low, high, strict=True)):
        if bottom != bottom:
            continue
        for level in range(round(bottom * (dots - 1)), round(top * (dots - 1)) + 1):
            row, dot = divmod(dots - 1 - level, 4)
            cells[row, number // 2] |= _DOTS[number % 2][dot]
    lines = ("".join(chr(0x2800 + cell) for cell in line) for line in cells.tolist())
    return [line.rstrip("\u2800") for line in lines]


# Bits of a Braille character, U+2800 and following, by column and by row from above.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
