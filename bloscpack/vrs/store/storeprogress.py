"""Progress reports at intervals of records."""

from ...plugin import Progress

_STEP = 4096


class Counter:
    """Counter of records that reports progress every 4096 records."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = self._reported = 0

    def add(self, count: int = 1) -> None:
        """Count records."""
        self._done = min(self._done + count, self._total)
        if self._done - self._reported >= _STEP or self._done == self._total:
            self._report()

    def finish(self) -> None:
        """Report that all records are done."""
        if self._done < self._total:
            self._done = self._total
            self._report()

    def _report(self) -> None:
        self._reported = self._done
        if self._progress is not None:
            self._progress(self._done, self._total)
