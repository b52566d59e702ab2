"""A progress bar on standard error: drawn only on a terminal, and only for work that takes long.

It uses no colour, so there is nothing for NO_COLOR to turn off.
"""

import os
import shutil
import time
from collections.abc import Callable
from typing import Self, TextIO

# Seconds before the bar appears, and between two pictures of it.
_DELAY = 1.0
_PERIOD = 0.1
_MIN_BAR = 10


class Progress:
    """Called with (done, in all, -1 if not known), in bytes as a rule; a context manager.

    Parameters
    ----------
    stream : text file or None
        Where to draw; nothing is drawn if it is None or no terminal.
    clock : callable, optional
        Seconds that pass.
    unit : str, optional
        What is counted, if not bytes.
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
        """Take note of the state of the work, and draw it if it is time to."""
        self.done = done
        if self._stream is None:
            return
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _PERIOD
        columns = shutil.get_terminal_size().columns
        self._draw(self.render(done, total, now - self._start, columns - 1, unit=self._unit))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.wipe()

    def wipe(self) -> None:
        """Take the bar away, so that something else can be printed."""
        if self._width:
            self._draw("")

    @staticmethod
    def render(
        done: int, total: int, seconds: float, width: int, *, unit: str | None = None
    ) -> str:
        """Return the picture, at most `width` characters."""
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

    def _draw(self, picture: str) -> None:
        if self._stream is not None:
            self._stream.write("\r" + picture.ljust(self._width) + ("" if picture else "\r"))
            self._stream.flush()
            self._width = len(picture)
