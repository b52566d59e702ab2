"""Plain version of the statistics of chunks, from docs/formats/bloscpack.md, "Statistics"."""

import struct
from typing import Any

import numpy as np

AnyArray = np.ndarray[Any, np.dtype[Any]]


def record_of(items: AnyArray) -> bytes:
    """Return the statistics of the items of a chunk, in the order in which they are stored."""
    kind = items.dtype.kind
    if kind in "fV":
        with np.errstate(invalid="ignore"):  # a signalling NaN
            numbers = items.astype("f8")
        known = numbers[~np.isnan(numbers)]
        low, high = (known.min(), known.max()) if known.size else (np.nan, np.nan)
        missing = numbers.size - known.size
        return struct.pack("<ddQd", low, high, missing, sum_of(numbers))
    if kind in "mM":
        values = items.view(f"{items.dtype.str[0]}i8").tolist()
        known_values = [value for value in values if value != -(2**63)]
        low, high = -(2**63), -(2**63)
    else:
        known_values = values = [int(value) for value in items.tolist()]
        low, high = 0, 0
    if known_values:
        low, high = min(known_values), max(known_values)
    missing = len(values) - len(known_values)
    numbers_of = struct.Struct("<QQQQ")
    fields = (low, high, missing, sum(known_values))
    return numbers_of.pack(*(value % 2**64 for value in fields))


def sum_of(numbers: AnyArray) -> float:
    """Return the sum of floats as the format defines it: NaN as 0, in 16 lanes."""
    padded = np.zeros(-(-numbers.size // 16) * 16)
    padded[: numbers.size] = np.where(np.isnan(numbers), 0, numbers)
    lanes = np.zeros(16)
    with np.errstate(all="ignore"):
        for row in padded.reshape(-1, 16):
            lanes += row
        for half in (8, 4, 2, 1):
            lanes = lanes[:half] + lanes[half:]
    return float(lanes[0])
