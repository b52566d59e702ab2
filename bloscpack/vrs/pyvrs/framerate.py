"""Estimate of a stream's records per second, as in the reference.

The intervals between records are counted in classes that are wider for longer intervals. The
estimate is the mean over the most frequent class and as many neighbouring classes as make up four
fifths of all intervals, so gaps in a recording have little effect. Source: reference 1.4.0,
``FrameRateEstimator.cpp``.
"""

import math
from collections.abc import Iterable
from itertools import islice, pairwise

DEFAULT_RATE = 30.0
"""Estimate for a stream with fewer than two records."""
# Only the first intervals are used.
_MOST_INTERVALS = 501
# With fewer intervals, the estimate is the mean over all of them.
_FEW_INTERVALS = 10
# Share of the intervals, in percent, that the classes of the estimate make up.
_SHARE_PERCENT = 80
_MASK = (1 << 32) - 1
_TOO_LONG = 1 << 63


def estimate_frame_rate(timestamps: Iterable[float]) -> float:
    """Return the estimated number of records per second, from ascending times in seconds."""
    classes, most_met = _count_intervals(timestamps)
    places = sorted(classes)
    total = sum(count for count, _ in classes.values())
    if not total:
        return DEFAULT_RATE
    if total < _FEW_INTERVALS:
        return _rate(total, sum(classes[place][1] for place in places))
    low = high = places.index(most_met)
    count, seconds = classes[most_met]
    while count < total * _SHARE_PERCENT // 100:
        before = classes[places[low - 1]][0] if low > 0 and places[low - 1] else 0
        after = classes[places[high + 1]][0] if high + 1 < len(places) else 0
        if before > after:
            low -= 1
            chosen = places[low]
        elif after:
            high += 1
            chosen = places[high]
        else:
            break
        count += classes[chosen][0]
        seconds += classes[chosen][1]
    return _rate(count, seconds)


def _count_intervals(timestamps: Iterable[float]) -> tuple[dict[int, tuple[int, float]], int]:
    """Return the count and sum of the intervals of each class, and the most frequent class.

    If classes are equally frequent, the one that reached the count first wins. Class 0, intervals
    near zero, is excluded.
    """
    classes: dict[int, tuple[int, float]] = {}
    most, most_met = 0, 0
    for before, after in islice(pairwise(timestamps), _MOST_INTERVALS):
        place = _class_of(after - before)
        count, seconds = classes.get(place, (0, 0.0))
        classes[place] = count + 1, seconds + (after - before)
        if place and count + 1 > most:
            most, most_met = count + 1, place
    return classes, most_met


def _class_of(seconds: float) -> int:
    """Return the class of an interval, its rounded milliseconds; 0 for intervals near zero."""
    if not seconds >= 0.00075:
        return 0
    if seconds < 0.01:
        return max(1, int(seconds * 1000))
    if seconds < 1:
        milliseconds = int(seconds * 1000)
        return milliseconds - milliseconds % 5
    # The reference wraps to 32 bits; its result for more than 63 bits is 0.
    return int(seconds) * 1000 & _MASK if seconds < _TOO_LONG else 0


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else math.inf
