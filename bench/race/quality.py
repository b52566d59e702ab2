"""Quality of what is lossy, and settings of JPEG that reach it."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

Pictures = Sequence[np.ndarray]


def psnr(pictures: Pictures, others: Pictures) -> float:
    """Return the peak signal-to-noise ratio of all pixels of pictures in dB."""
    total = count = 0.0
    for one, other in zip(pictures, others, strict=True):
        total += float(np.square(one.astype(np.float64) - other).sum())
        count += one.size
    return 10 * math.log10(255**2 * count / total) if total else math.inf


def lowest_quality(quality_of: Callable[[int], float], wanted: float) -> int:
    """Return the lowest quality of JPEG at which pictures keep `wanted` dB, or 101."""
    return 1 + bisect_left(range(1, 101), wanted, key=quality_of)
