"""Frames per second of a clip, by its metadata."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

RATE_KEY = "fps"
"""Metadata of a clip with its frames per second."""

# Files of other programs, and stores of videos that were ingested before, have other names.
RATE_KEYS = (RATE_KEY, "frame_rate", "framerate")

DEFAULT_RATE = 25
MIN_RATE, MAX_RATE = 0.001, 1000


def is_rate(value: Any) -> bool:
    """Return whether a value is a number of frames per second that a clip can be shown with."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and MIN_RATE <= value <= MAX_RATE


def rate_in(meta: Any) -> float | None:
    """Return the frames per second that metadata name, or None."""
    values: list[Any] = [meta.get(key) for key in RATE_KEYS] if isinstance(meta, Mapping) else []
    return next((float(value) for value in values if is_rate(value)), None)


def rate_of(meta: Any) -> Fraction:
    """Return the frames per second that metadata name, or 25."""
    rate = Fraction(rate_in(meta) or DEFAULT_RATE)
    # Rates such as 30000/1001 are exact again; slow ones are those of seconds per frame.
    return rate.limit_denominator(1001) if rate >= 1 else 1 / (1 / rate).limit_denominator(1001)
