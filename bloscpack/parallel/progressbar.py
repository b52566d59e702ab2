"""Progress: the bar of the command line, and what callers may pass as ``progress=``.

The bar is on standard error, drawn only on a terminal and only after one second. It has no colours,
so NO_COLOR is always honoured.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

from ..types import Progress, ProgressOption
from .imports import importing

# Seconds until the bar appears, and between two updates.
_DELAY = 1.0
_PERIOD = 0.1
_MIN_BAR = 10


class ProgressBar:
    """Progress bar, called with (done, total); a context manager.

    Both numbers are in bytes, or in items of `unit`; the total is -1 if it is not known. Nothing is
    drawn on None or on a stream that is not a terminal. `clock` returns the time in seconds.
    """

    def __init__(
        self,
        stream: TextIO | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        unit: str | None = None,
    ) -> None:
        usable = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        self._stream = stream if usable else None
        self._clock = clock
        self._unit = unit
        self._start = clock()
        self._due = self._start + _DELAY
        self._width = 0
        self.done = 0

    def __call__(self, done: int, total: int) -> None:
        """Record the progress, and draw the bar if an update is due."""
        self.done = done
        if self._stream is None:
            return
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _PERIOD
        columns = shutil.get_terminal_size().columns
        width = columns - 1  # some terminals go to the next line after the last column
        self._draw(self.render(done, total, now - self._start, width, unit=self._unit))

    def count_bytes(self) -> None:
        """Take all numbers for bytes from now on."""
        self._unit = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.wipe()

    def wipe(self) -> None:
        """Erase the bar, so that other text can be printed."""
        if self._width:
            self._draw("")

    @staticmethod
    def render(
        done: int, total: int, seconds: float, width: int, *, unit: str | None = None
    ) -> str:
        """Return the text of the bar, at most `width` characters."""
        speed = f"{done / 1e6 / seconds:.1f} MB/s" if seconds > 0 else "- MB/s"
        if total <= 0:
            return (f"{done} {unit}" if unit else f"{done / 1e6:.1f} MB  {speed}")[:width]
        share = min(done / total, 1.0)
        text = f"{done / 1e6:.1f}/{total / 1e6:.1f} MB  {share:4.0%}  {speed}"
        if unit is not None:
            text = f"{done}/{total} {unit}  {share:4.0%}"
        room = width - len(text) - len("  []")
        if room < _MIN_BAR:
            return text[:width]
        filled = int(share * room)
        return f"{text}  [{'#' * filled}{'.' * (room - filled)}]"

    def _draw(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            self._stream.flush()
            self._width = len(text)


def as_progress(progress: ProgressOption, *, unit: str | None = None) -> Progress | None:
    """Return what reports progress by calls with (done, total); None if nothing does.

    Parameters
    ----------
    progress : bool, callable, object with ``update``, or None
        True draws a bar: by tqdm if it is installed, else that of the command line. A callable is
        returned. ``update`` is called with the amounts done since the last call, as tqdm's is; an
        attribute ``total`` is set as soon as the total is known.
    unit : str, optional
        Unit of the amounts, if not bytes.

    Raises
    ------
    TypeError
        `progress` is something else.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        try:
            with importing:  # an extra
                from tqdm.auto import tqdm
        except ImportError:
            return _OwnBar(sys.stderr, unit=unit)
        bar = tqdm(unit=f" {unit}" if unit else "B", unit_scale=unit is None)
        return _Updating(bar, closes=True)
    if not isinstance(progress, dict | set | type):
        if callable(getattr(progress, "update", None)):
            return _Updating(progress, closes=False)
        if callable(progress):
            return progress
    raise TypeError(
        "progress must be True, a function called with (done, total), or an object with update(n), "
        f"such as a tqdm bar; not {type(progress).__name__!r}"
    )


class _OwnBar(ProgressBar):
    """Bar that is erased when all is done."""

    def __call__(self, done: int, total: int) -> None:
        super().__call__(done, total)
        if done >= total > 0:
            self.wipe()


class _Updating:
    """Progress reported to an object with ``update``."""

    def __init__(self, bar: Any, *, closes: bool) -> None:
        self._bar, self._closes = bar, closes
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        """Set the total, and advance by what was done since the last call."""
        if total >= 0 and getattr(self._bar, "total", total) != total:
            self._bar.total = total
        if done > self._done:
            self._bar.update(done - self._done)
            self._done = done
        if self._closes and done >= total > 0:
            self._bar.close()
