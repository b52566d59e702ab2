"""Holes of sparse files, which read as zeros and which a search for data skips."""

from bisect import bisect_right
from typing import Protocol, runtime_checkable

from .protocol import ByteSource

# Runs of data that are noted; what lies behind so many is taken for data.
_MAX_RUNS = 1 << 16


@runtime_checkable
class SparseSource(Protocol):
    """A source that knows where its holes are."""

    def data_runs(self, most: int) -> list[tuple[int, int]] | None:
        """Return where there are data, (start, stop) each; None if that is not known."""
        ...


class Holes:
    """The holes of a file as they were when it was first searched.

    Parameters
    ----------
    source : ByteSource
        What is searched; only regular files have holes.
    """

    def __init__(self, source: ByteSource) -> None:
        runs = source.data_runs(_MAX_RUNS) if isinstance(source, SparseSource) else None
        size = source.size()
        self._starts = [0] if runs is None else [start for start, _ in runs]
        self._stops = [size] if runs is None else [stop for _, stop in runs]
        self._size = size

    def data_from(self, position: int) -> int:
        """Return the first position of data from `position` on; the size if there is none."""
        at = bisect_right(self._stops, position)
        if at == len(self._stops):
            return max(position, self._size)
        return max(position, self._starts[at])

    def data_before(self, position: int) -> int:
        """Return where the last data before `position` end; 0 if there are none."""
        at = bisect_right(self._starts, position - 1) - 1
        return min(position, self._stops[at]) if at >= 0 else 0
