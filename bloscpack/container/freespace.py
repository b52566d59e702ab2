"""Free space of a log: holes, found by their size and by their ends."""

from bisect import bisect_left, insort
from collections.abc import Iterable


class FreeSpace:
    """Holes (start, stop) that do not touch each other; there may be many."""

    def __init__(self, holes: Iterable[tuple[int, int]] = ()) -> None:
        self.stops = dict(holes)  # by start
        self._starts = {stop: start for start, stop in self.stops.items()}
        self._sizes = sorted((stop - start, start) for start, stop in self.stops.items())

    def take(self, nbytes: int) -> int | None:
        """Return the start of the smallest hole that `nbytes` fit, which are in use from now on."""
        at = bisect_left(self._sizes, (nbytes,))
        if at == len(self._sizes):
            return None
        start = self._sizes[at][1]
        stop = self._remove(start)
        if start + nbytes < stop:
            self._insert(start + nbytes, stop)
        return start

    def has_hole(self, nbytes: int) -> bool:
        """Return whether `nbytes` fit a hole."""
        return bool(self._sizes) and self._sizes[-1][0] >= nbytes

    def add(self, start: int, stop: int) -> None:
        """Add space, joined with the holes beside it."""
        if stop in self.stops:
            stop = self._remove(stop)
        if start in self._starts:
            start = self._starts[start]
            self._remove(start)
        self._insert(start, stop)

    def cut(self, end: int) -> int:
        """Remove a hole that stops at `end`; return where it started, else `end`."""
        start = self._starts.get(end, end)
        if start != end:
            self._remove(start)
        return start

    def _insert(self, start: int, stop: int) -> None:
        self.stops[start], self._starts[stop] = stop, start
        insort(self._sizes, (stop - start, start))

    def _remove(self, start: int) -> int:
        """Remove a hole, and return its stop."""
        stop = self.stops.pop(start)
        del self._starts[stop]
        del self._sizes[bisect_left(self._sizes, (stop - start, start))]
        return stop
