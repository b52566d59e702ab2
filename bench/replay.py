"""Clock that hands measured times to pytest-benchmark, for its tables, comparisons and JSON."""

from collections import deque

from race.timing import Timing

_ticks: deque[float] = deque()


def replay() -> float:
    """Return the next time; differences are the measured ones."""
    return _ticks.popleft() if _ticks else 0.0


def load_replay(timing: Timing) -> None:
    """Make `replay` return the times of `timing`, one round after the other."""
    _ticks.clear()
    for seconds in timing.seconds:
        _ticks.extend((0.0, seconds))
