"""Progress that is told now and then, not for every record."""

from collections.abc import Callable

Progress = Callable[[int, int], None]

_STEP = 4096


class Counter:
    """Tells of progress now and then."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = self._told = 0

    def add(self, count: int = 1) -> None:
        """Count records."""
        self._done = min(self._done + count, self._total)
        if self._done - self._told >= _STEP or self._done == self._total:
            self._tell()

    def finish(self) -> None:
        """Tell that all is done."""
        if self._done < self._total:
            self._done = self._total
            self._tell()

    def _tell(self) -> None:
        self._told = self._done
        if self._progress is not None:
            self._progress(self._done, self._total)
