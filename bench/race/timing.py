"""Time several contenders that take turns.

The speed of a machine drifts, so contenders take turns: in each round every one of them runs its
loop, in an order that rotates. A contender is a `Loop`; one that works in another process returns
the time that it took there.
"""

import gc
from collections.abc import Callable
from itertools import cycle
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np

from bloscpack.parallel.threads import MAX_DEFAULT_THREADS, available_cpus

OURS = "bloscpack"
BARE = "C-Blosc"
ORIGINAL = "bloscpack 0.16"

# Every contender may use as many threads.
NTHREADS = min(MAX_DEFAULT_THREADS, available_cpus())

Call = Callable[[], object]
Loop = Callable[[int], float]
"""Runs a call `count` times and returns the seconds that took."""

# A round is long enough for the clock.
_ROUND_SECONDS = 0.02


def loop_of(call: Call, clock: Callable[[], float] = perf_counter) -> Loop:
    """Return the loop that runs `call` in this process, the garbage collector off."""

    def loop(count: int) -> float:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            start = clock()
            for _ in range(count):
                call()
            return clock() - start
        finally:
            if was_enabled:
                gc.enable()

    return loop


def timed_loop(
    call: Call,
    before: Call = lambda: None,
    after: Call = lambda: None,
    clock: Callable[[], float] = perf_counter,
) -> Loop:
    """Return the loop that runs `before` and `after`, untimed, around every call."""

    def loop(count: int) -> float:
        seconds = 0.0
        for _ in range(count):
            before()
            start = clock()
            call()
            seconds += clock() - start
            after()
        return seconds

    return loop


def cycling(get: Callable[[Any], object], items: list[Any], per_call: int) -> Call:
    """Return a call that gets the next `per_call` of `items`, and starts over at the end."""
    forever = cycle(items)

    def call() -> None:
        for _ in range(per_call):
            get(next(forever))

    return call


def take_turns(loops: dict[str, Loop], per_call: int, nrounds: int) -> dict[str, list[float]]:
    """Run every loop once per round, in an order that rotates; return a figure for each round.

    A figure is the seconds of one thing, of which a call does `per_call`.
    """
    counts = {}
    for name, loop in loops.items():
        loop(1)
        counts[name] = max(1, ceil(_ROUND_SECONDS / loop(1)))
    names = list(loops)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(nrounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(loops[name](counts[name]) / (counts[name] * per_call))
    return seconds


def signal(nbytes: int, dtype: str) -> np.ndarray:
    """Return a random walk in steps of 1/16, as from a sensor of limited resolution.

    It is the same for every call; LZ4 makes it about 3 times smaller, Zstandard 4.5 times.
    """
    n = nbytes // np.dtype(dtype).itemsize
    steps = np.random.default_rng(1).integers(-8, 9, n, dtype=np.int16)
    return (np.cumsum(steps, dtype=np.int32) / 16).astype(dtype)
