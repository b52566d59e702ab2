"""Reduction of arrays to what a screen can show: samples, bins, histograms, pixels."""

from typing import Any

import numpy as np

from ..plugin import AnyArray, shares_of

_NBINS = 64  # of a histogram


def as_numbers(values: AnyArray, part: str = "real") -> AnyArray:
    """Return values as numbers that JavaScript reads: integers up to 32 bits, float32 or float64.

    bool becomes uint8, and dates become float64 numbers of their unit, NaN for NaT. Of complex
    values `part` is shown: "real", "imag", "abs" or "angle".

    Raises
    ------
    ValueError
        The values are text, raw bytes or records.
    """
    kind = values.dtype.kind
    if kind in "mM":
        dates: AnyArray = values.astype("i8").astype("f8")
        dates[np.isnat(values)] = np.nan
        return dates
    if kind == "c":
        parts: dict[str, Any] = {"real": np.real, "imag": np.imag}
        parts |= {"abs": np.abs, "angle": np.angle}
        values, kind = parts[part](values), "f"
    if kind == "b":
        return values.view(np.uint8)
    if kind in "SUO" or values.dtype.names is not None or values.dtype.str[1:2] == "V":
        if not _is_small_float(values.dtype):
            raise ValueError(f"values of {values.dtype} are not numbers")
        return values.astype(np.float32)
    if kind in "iu":
        return values if values.dtype.itemsize <= 4 else values.astype("f8")
    return values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64, copy=False)


def _is_small_float(dtype: "np.dtype[Any]") -> bool:
    """Return whether it is a number of ml_dtypes, which numpy shows as raw bytes."""
    return dtype.names is None and dtype.isbuiltin == 2


def sample_step(length: int, count: int) -> int:
    """Return the smallest step by which at most `count` of `length` entries are taken."""
    return max(1, -(-length // max(1, count)))


def finite_range(values: AnyArray) -> tuple[float, float] | None:
    """Return the smallest and largest finite value; None if there is none."""
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    if not values.size:
        return None
    return float(values.min()), float(values.max())


class Extremes:
    """Smallest and largest value in each of several bins, filled strip by strip."""

    def __init__(self, length: float, nbins: int) -> None:
        self._length, self._nbins = length, nbins
        self.low: AnyArray = np.full(nbins, np.inf)
        self.high: AnyArray = np.full(nbins, -np.inf)

    def add(self, positions: AnyArray, values: AnyArray) -> None:
        """Add values at increasing positions, ``0 <= position < length``."""
        numbers = values.astype("f8")
        is_finite = np.isfinite(numbers)
        numbers, positions = numbers[is_finite], positions[is_finite]
        if not len(numbers):
            return
        # By a float: the product of integers could overflow, as an array may have 2**63 items.
        bins = np.minimum((positions * (self._nbins / self._length)).astype(int), self._nbins - 1)
        starts = np.flatnonzero(np.diff(bins, prepend=-1))
        found = bins[starts]
        self.low[found] = np.minimum(self.low[found], np.minimum.reduceat(numbers, starts))
        self.high[found] = np.maximum(self.high[found], np.maximum.reduceat(numbers, starts))

    def bins(self) -> tuple[AnyArray, AnyArray]:
        """Return both, with NaN for bins without a finite value."""
        is_empty = self.low > self.high
        return np.where(is_empty, np.nan, self.low), np.where(is_empty, np.nan, self.high)


def summary(values: AnyArray, extremes: tuple[float, float] | None = None) -> dict[str, Any]:
    """Return statistics of numbers, and their histogram.

    `extremes` are the smallest and largest of all values, if `values` are a sample of them.
    """
    numbers = values.ravel()
    is_finite = np.isfinite(numbers) if numbers.dtype.kind == "f" else np.ones(len(numbers), bool)
    finite = numbers[is_finite].astype("f8")
    found: dict[str, Any] = {
        "count": len(numbers),
        "nan": int(np.isnan(numbers).sum()) if numbers.dtype.kind == "f" else 0,
        "finite": len(finite),
    }
    if not len(finite):
        return found
    low, high = float(finite.min()), float(finite.max())
    if extremes is not None:
        low, high = min(low, extremes[0]), max(high, extremes[1])
    with np.errstate(over="ignore", invalid="ignore"):
        found |= {
            "min": low,
            "max": high,
            "mean": float(finite.mean()),
            "std": float(finite.std()),
            "median": float(np.median(finite)),
            "zeros": int((finite == 0).sum()),
        }
    counts, edges = _histogram(finite, low, high)
    return found | {"histogram": {"counts": counts.tolist(), "edges": edges.tolist()}}


def _histogram(finite: AnyArray, low: float, high: float) -> tuple[AnyArray, Any]:
    scale = max(abs(low), abs(high), 1.0)
    if not np.isfinite(high - low) or high - low <= scale * 1e-12:
        return np.array([len(finite)]), np.array([low, high])
    if (finite == np.rint(finite)).all() and high - low < _NBINS:
        edges = np.arange(low - 0.5, high + 1, 1.0)
        return np.histogram(finite, edges)[0], edges
    return np.histogram(finite, _NBINS, (low, high))


def to_bytes(values: AnyArray, low: float, high: float) -> AnyArray:
    """Return numbers as uint8, scaled from `low` (0) to `high` (255); NaN becomes 0."""
    scaled = shares_of(values.astype("f8"), low, high) * 255
    scaled = np.nan_to_num(scaled, nan=0.0, posinf=255.0, neginf=0.0)
    shown: AnyArray = np.clip(np.rint(scaled), 0, 255).astype(np.uint8)
    return shown
