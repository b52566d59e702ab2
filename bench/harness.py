"""Timing several ways to do one thing, in turns.

The machine's speed wanders, so contenders take turns: in each round every one of them runs its
loop, in an order that rotates. A contender is a `Loop`; one that works in another process answers
with the time it took there. What was measured is handed to pytest-benchmark through `replay`, so
that its tables, comparisons and JSON hold every contender.
"""

import gc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from statistics import median
from time import perf_counter

import numpy as np

from bloscpack.parallel.threads import MAX_DEFAULT_THREADS, available_cpus

OURS = "bloscpack"
BARE = "C-Blosc"
ORIGINAL = "bloscpack 0.16"
CONTENDERS = (OURS, BARE, ORIGINAL)

# What every contender may use.
NTHREADS = min(MAX_DEFAULT_THREADS, available_cpus())

Loop = Callable[[int], float]
"""Does the thing so many times and returns the seconds that took."""

# A round lasts long enough for the clock, and all rounds of a contender about half a second.
_ROUND_SECONDS = 0.02
_ROUNDS = 21
_ROUNDS_OF_LONG_CALLS = 7


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call, one figure a round."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """Seconds of the fastest round."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Seconds of the middle round."""
        return median(self.seconds)


def loop_of(call: Callable[[], object]) -> Loop:
    """Return the loop that calls `call` in this process, the garbage collector off."""

    def loop(count: int) -> float:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            start = perf_counter()
            for _ in range(count):
                call()
            return perf_counter() - start
        finally:
            if was_enabled:
                gc.enable()

    return loop


def take_turns(
    loops: dict[str, Loop], per_call: int = 1, nrounds: int | None = None
) -> dict[str, Timing]:
    """Run every loop once a round, in an order that rotates; return the timings.

    Parameters
    ----------
    loops : dict of str to Loop
        The contenders.
    per_call : int
        How many of the things that are timed a call does.
    nrounds : int, optional
        How many rounds; by default 21, or 7 where a call takes long.
    """
    counts = {}
    for name, loop in loops.items():
        loop(1)
        counts[name] = max(1, ceil(_ROUND_SECONDS / loop(1)))
    names = list(loops)
    is_short = max(counts.values()) > 1
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(nrounds or (_ROUNDS if is_short else _ROUNDS_OF_LONG_CALLS)):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            ndone = counts[name] * per_call
            seconds[name].append(loops[name](counts[name]) / ndone)
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


_ticks: deque[float] = deque()


def replay() -> float:
    """Be the clock of pytest-benchmark: tell times between which the measured ones lie."""
    return _ticks.popleft() if _ticks else 0.0


def load_replay(timing: Timing) -> None:
    """Make `replay` tell the times of `timing`, one round after the other."""
    _ticks.clear()
    for seconds in timing.seconds:
        _ticks.extend((0.0, seconds))


def signal(nbytes: int, dtype: str) -> np.ndarray:
    """Return `nbytes` of a random walk in steps of 1/16: a sensor of limited resolution.

    The same for every call; it compresses about 3 times with LZ4, 4.5 times with Zstandard.
    """
    n = nbytes // np.dtype(dtype).itemsize
    steps = np.random.default_rng(1).integers(-8, 9, n, dtype=np.int16)
    return (np.cumsum(steps, dtype=np.int32) / 16).astype(dtype)
