"""Windows: which frames of a clip form an item of a dataset."""

import operator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .protocol import FrameSelection

Start = Literal["random", "first", "center", "every"]
Short = Literal["repeat_last", "wrap", "skip", "error"]

_STARTS = ("random", "first", "center", "every")
_SHORTS = ("repeat_last", "wrap", "skip", "error")


@dataclass(frozen=True, slots=True)
class Windows:
    """Rules for cutting clips into items."""

    length: int | None = None  # frames per item; None for whole clips
    stride: int = 1  # distance between consecutive frames of an item
    # Where the window of a clip begins; with "every" there is an item for every window, `hop`
    # frames apart.
    start: Start = "random"
    # Distance between windows; by default their span, so that they do not overlap.
    hop: int | None = None
    # How to treat a clip with fewer frames than a window spans: repeat its last frame, start over
    # at its first frame, skip the clip, or raise an error when it is read. A clip without frames
    # never yields an item: reading it is an error, unless it is skipped.
    short: Short = "repeat_last"

    def __post_init__(self) -> None:
        for name in ("length", "stride", "hop"):
            value = getattr(self, name)
            if value is not None:
                if value < 1:
                    raise ValueError(f"{name} must be at least 1, not {value}")
                # A random number of 64 bits times an integer of numpy overflows.
                object.__setattr__(self, name, operator.index(value))
        for name, choices in (("start", _STARTS), ("short", _SHORTS)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        if self.hop is not None and self.start != "every":
            raise ValueError("hop is the distance between windows, and needs start='every'")
        if self.start == "every" and self.length is None:
            raise ValueError("start='every' needs a length: the frames per window")

    @property
    def needs_lengths(self) -> bool:
        """Whether the number of items depends on the lengths of all clips."""
        return self.start == "every" or self.short == "skip"

    @property
    def span(self) -> int:
        """Number of frames from the first to the last frame of an item; 1 for whole clips."""
        return 1 if self.length is None else (self.length - 1) * self.stride + 1

    def count(self, nframes: int) -> int:
        """Return the number of items in a clip of `nframes` frames."""
        if nframes < self.span:
            return 0 if self.short == "skip" else 1
        if self.start != "every":
            return 1
        return (nframes - self.span) // (self.hop or self.span) + 1

    def select(self, nframes: int, number: int, drawn: int) -> tuple[int, FrameSelection]:
        """Return the first frame of item `number` of a clip, and its selection of frames.

        `drawn` is a 64-bit random number. ValueError if the clip is too short.
        """
        if not nframes:
            raise ValueError("it has no frames; list the clips to use, or pass short='skip'")
        if self.length is None:
            return 0, slice(None, None, self.stride)
        room = nframes - self.span
        if room < 0:
            return 0, self._filled(nframes)
        start = 0
        if self.start == "random":
            start = drawn * (room + 1) >> 64
        elif self.start == "center":
            start = room // 2
        elif self.start == "every":
            start = number * (self.hop or self.span)
        return start, slice(start, start + self.span, self.stride)

    def _filled(self, nframes: int) -> FrameSelection:
        wanted = np.arange(0, self.span, self.stride)
        if self.short == "repeat_last":
            return np.minimum(wanted, nframes - 1)
        if self.short == "wrap":
            return wanted % nframes
        raise ValueError(
            f"it has {nframes} frames, and {self.length} with a stride of {self.stride} "
            f"span {self.span}; see 'short'"
        )
