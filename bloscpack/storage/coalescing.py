"""Joining of reads: extents that are close together are read by one call or one request.

The table of policies says up to which gap that is cheaper, and how much is read at once. Extents
in arrays are planned by numpy; those in lists by a loop, which is faster for fewer than a hundred.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..types import IntArray
from .protocol import Extent


class Policy(NamedTuple):
    """When to join extents."""

    max_gap: int  # largest gap in bytes that is read rather than skipped
    max_nbytes: int  # largest run in bytes; a larger extent is a run by itself


# Pieces to decode. A call costs about as much as 16 KiB, and with several threads also some waiting
# for the interpreter lock. A run stays in the cache of a core until it is decoded.
LOCAL = Policy(1 << 15, 1 << 18)
# Headers and fields of records, which are copied by one call for a run.
FIELDS = Policy(1 << 14, 1 << 18)
# Records that are listed in order, whose gaps are kept in memory with them.
RECORDS = Policy(1 << 12, 8 << 20)
# Consecutive chunks of an array that is read as a whole.
CHUNKS = Policy(0, 4 << 20)
# The same of an array that was changed, in the order of the file: chunks and dead bytes between.
CHANGED = Policy(1 << 14, 4 << 20)
# Objects behind URLs: a request takes about 20 ms.
REMOTE = Policy(1 << 18, 8 << 20)
# Largest number of requests at once, and of objects that are opened at once.
MAX_REQUESTS = 32

# Runs for each thread, so that no thread waits long for the last one.
_RUNS_PER_THREAD = 4


class Run(NamedTuple):
    """Extents that are read together."""

    # The extents, as indices ``low`` to ``high - 1``.
    low: int
    high: int
    # Bytes from the first to the last of them.
    start: int
    stop: int


def most_per_run(nextents: int, nthreads: int) -> int:
    """Return the largest number of extents in a run that leaves several runs to each thread."""
    return max(1, nextents // (nthreads * _RUNS_PER_THREAD))


def plan_runs(
    starts: Sequence[int], stops: Sequence[int], policy: Policy, most: int | None = None
) -> Iterator[Run]:
    """Yield the runs of extents that are read in the given order, at most `most` in a run.

    Only neighbours in this order are joined, so sorted extents make the fewest runs.
    """
    if not starts:
        return
    max_gap, max_nbytes = policy
    low, first, end = 0, starts[0], stops[0]
    for k in range(1, len(starts)):
        start, stop = starts[k], stops[k]
        if (
            first <= start <= end + max_gap
            and (stop <= end or stop - first <= max_nbytes)
            and k - low != most
        ):
            if stop > end:
                end = stop
        else:
            yield Run(low, k, first, end)
            low, first, end = k, start, stop
    yield Run(low, len(starts), first, end)


def plan_array_runs(starts: IntArray, stops: IntArray, policy: Policy) -> Iterator[Run]:
    """Yield the runs of extents sorted by their start, as `plan_runs` does."""
    if not len(starts):
        return
    is_ascending = bool((stops[1:] >= stops[:-1]).all())  # saves most of the time
    reach = stops if is_ascending else np.maximum.accumulate(stops)
    breaks = np.flatnonzero(starts[1:] - reach[:-1] > policy.max_gap) + 1
    lows, highs = np.append(0, breaks), np.append(breaks, len(starts))
    firsts, ends = starts[lows].tolist(), reach[highs - 1].tolist()
    for low, high, first, end in zip(lows.tolist(), highs.tolist(), firsts, ends, strict=True):
        while end - first > policy.max_nbytes:
            limit = max(first + policy.max_nbytes, int(reach[low]))
            cut = low + int(np.searchsorted(reach[low:high], limit, side="right"))
            if cut == high:
                break
            yield Run(low, cut, first, int(reach[cut - 1]))
            low, first = cut, int(starts[cut])
        yield Run(low, high, first, end)


def joined(extents: Iterable[Extent], policy: Policy) -> list[Extent]:
    """Return the runs of `extents`, which are in any order."""
    ordered = sorted((offset, offset + nbytes) for offset, nbytes in extents)
    starts, stops = [start for start, _ in ordered], [stop for _, stop in ordered]
    return [(start, stop - start) for _, _, start, stop in plan_runs(starts, stops, policy)]
