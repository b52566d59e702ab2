"""Maps from the items of a plane to work integers, the inverses of those of the format.

A `Mapped` plane has the integers, the fields of its plan, and the exceptions. Whether a map is
possible is found out from a sample first; only maps that may pay off look at all items.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ...format.arraychunk import MAX_ENTRIES, MIN_CHUNK_PER_DICTIONARY, Map, scale_of
from ...format.codec import CodecParams, encode
from ...types import AnyArray

# Divisors that numbers of decimal or fixed-point data have been multiplied by.
DIVISORS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 255.0, 65535.0, *(2.0**i for i in range(1, 11)))
SAMPLE = 4096
# Quotients are exact in 32 bits, and their conversion is fast.
MAX_QUOTIENT = 2**31
# Items that a map cannot express are exceptions, if they are few or repeat.
MAX_EXCEPTIONS = 0.02
MIN_FILL = 0.005
MAX_SAMPLE_RANKS = 0.6  # of a sample, distinct values
# The estimate of a dictionary, whose entries compress, relative to its size.
ENTRY_COST = 0.6


@dataclass(frozen=True, slots=True)
class Mapped:
    """Work integers of a plane, and how they become items again.

    Attributes
    ----------
    work : ndarray
        Unsigned, of the shape of the plane.
    fields : dict
        Arguments of `PlanePlan` that belong to the map.
    mask : ndarray or None
        uint8, not 0 for exceptions.
    cost : float
        Estimated bytes of a dictionary and of exceptions.
    factor : float
        What the estimated size is multiplied by: a slower map must pay off.
    """

    work: AnyArray
    fields: dict[str, Any]
    mask: AnyArray | None = None
    cost: float = 0.0
    factor: float = 1.0


def maps_of(items: AnyArray, kind: str) -> list[Mapped]:
    """Return the maps that may suit a plane.

    Parameters
    ----------
    items : ndarray
        Unsigned integers with the bits of the items, contiguous, not empty.
    kind : str
        ``u`` for unsigned integers, ``i`` for signed ones, ``f`` for floats.
    """
    key = _ordered(items, kind)
    step = max(1, key.size // SAMPLE)
    sample, _ = distinct(key.reshape(-1)[::step])
    found = [_offset_map(key, items, kind)] if kind != "f" else [_float_map(key, items, None)]
    if kind == "f":
        quotient = _quotient_map(items)
        if quotient is not None:
            found.append(quotient)
    fill = _fill_mask(key, sample, items, kind)
    if fill is not None:
        mask, filled = fill
        cost = _exceptions_cost(mask, items.itemsize)
        if kind == "f":
            mapped = _float_map(_ordered(filled, kind), filled, mask)
        else:
            mapped = _offset_map(_ordered(filled, kind), filled, kind)
        found.append(Mapped(mapped.work, mapped.fields, mask, cost))
    ranks = _rank_map(key, items, sample, found[0])
    return found if ranks is None else [*found, ranks]


def distinct(values: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the distinct values in order, and how often each occurs.

    Several times as fast as ``numpy.unique``, which hashes.
    """
    ordered = np.sort(values.reshape(-1))
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def _ordered(items: AnyArray, kind: str) -> AnyArray:
    """Return unsigned integers in the order of the items."""
    top = items.dtype.type(1 << (8 * items.itemsize - 1))
    if kind == "u":
        return items
    if kind == "i":
        ordered: AnyArray = items ^ top
        return ordered
    # Negative floats have all bits inverted, others the sign bit only.
    sign = np.right_shift(items.view(f"i{items.itemsize}"), 8 * items.itemsize - 1)
    inverted: AnyArray = items ^ (sign.view(items.dtype) | top)
    return inverted


def _width(most: int) -> int:
    return 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4 if most < 1 << 32 else 8


def _narrow(values: AnyArray, most: int) -> AnyArray:
    width = _width(most)
    if width == values.itemsize:
        return np.ascontiguousarray(values)
    return values.astype(f"u{width}")


def _offset_map(key: AnyArray, items: AnyArray, kind: str) -> Mapped:
    least, most = int(key.min()), int(key.max())
    divisor = 1
    if most - least > 1:
        flat = key.reshape(-1)
        steps = flat[:: max(1, flat.size // SAMPLE)] - key.dtype.type(least)
        divisor = int(np.gcd.reduce(steps))
        if divisor > 1:
            unit = key.dtype.type(divisor)
            rest = (flat - key.dtype.type(least)) % unit
            if rest.any():
                divisor = gcd(divisor, int(np.gcd.reduce(rest)))
    spread = (most - least) // max(divisor, 1)
    work = _narrow(key[:0], spread)
    if divisor <= 1 and work.itemsize == items.itemsize:
        # Integers as they are need no map: blocks are decoded in place.
        fields = {"map": Map.OFFSET, "width": items.itemsize, "scale": 1}
        return Mapped(np.ascontiguousarray(items), fields)
    shifted = key - key.dtype.type(least)
    if divisor > 1:
        shifted //= key.dtype.type(divisor)
    work = _narrow(shifted, spread)
    first = least ^ (1 << (8 * items.itemsize - 1) if kind == "i" else 0)
    fields = {"map": Map.OFFSET, "width": work.itemsize, "offset": first, "scale": max(divisor, 1)}
    return Mapped(work, fields)


def _float_map(key: AnyArray, items: AnyArray, mask: AnyArray | None) -> Mapped:
    """Return the map of ordered floats, without low bits that are 0 in all items."""
    nbits = 8 * items.itemsize
    union = int(np.bitwise_or.reduce(items.reshape(-1)))
    shift = min((union & -union).bit_length() - 1, nbits - 9 if nbits > 8 else 0) if union else 0
    # The low bits of negative floats are inverted ones, so that the shift drops nothing.
    shifted = key >> key.dtype.type(shift) if shift else key
    least, most = int(shifted.min()), int(shifted.max())
    offset = 0
    if _width(most - least) < _width(most):
        offset = least
        shifted = shifted - key.dtype.type(least)
    work = _narrow(shifted, most - offset)
    fields = {"map": Map.FLOAT, "width": work.itemsize, "shift": shift, "offset": offset}
    return Mapped(work, fields, mask)


def _quotient_map(items: AnyArray) -> Mapped | None:
    """Return the map k / D of decimal or fixed-point numbers, if nearly all items are such."""
    if items.itemsize < 4:
        return None
    floats = items.view(f"f{items.itemsize}").reshape(-1)
    bits = items.reshape(-1)
    step = max(1, bits.size // SAMPLE)
    sample, sample_bits = floats[::step], bits[::step]
    finite = np.isfinite(sample)
    if 2 * int(finite.sum()) < sample.size:
        return None
    sample, sample_bits = sample[finite], sample_bits[finite]
    for divisor in DIVISORS:
        if _is_quotient(sample, sample_bits, divisor).mean() >= 1 - MAX_EXCEPTIONS:
            break
    else:
        return None
    with np.errstate(all="ignore"):
        k = np.rint(floats.astype("f8") * divisor)
    good = _is_quotient(floats, bits, divisor)
    mask = None
    cost = 0.0
    if not good.all():
        if not good.any():
            return None
        k = _filled(k, good)
        mask = (~good).astype("u1").reshape(items.shape)
        cost = _exceptions_cost(mask, items.itemsize)
    numbers = k.astype("i8")
    least = int(numbers.min())
    spread = int(numbers.max()) - least
    width = items.itemsize
    if spread >= 1 << 32:
        return None
    work = _narrow((numbers - least).view("u8"), spread)
    if work.itemsize > width:
        return None
    fields = {
        "map": Map.QUOTIENT,
        "width": work.itemsize,
        "offset": least % 2**64,
        "scale": scale_of(divisor),
    }
    return Mapped(work.reshape(items.shape), fields, mask, cost)


def _is_quotient(floats: AnyArray, bits: AnyArray, divisor: float) -> AnyArray:
    """Return for each float whether it is the quotient of a small integer and `divisor`."""
    with np.errstate(all="ignore"):
        k = np.rint(floats.astype("f8") * divisor)
        small = np.abs(k) < MAX_QUOTIENT
        k[~small] = 0
        # As the kernel: an integer is divided, so that its zero is positive.
        again = ((k + 0.0) / divisor).astype(floats.dtype).view(bits.dtype)
    matches: AnyArray = small & (again == bits)
    return matches


def _filled(values: AnyArray, good: AnyArray) -> AnyArray:
    """Return `values` with each one that is not good replaced by the last good one before it."""
    flat = good.reshape(-1)
    places = np.where(flat, np.arange(flat.size), -1)
    places[0] = max(places[0], int(np.argmax(flat)))
    filled: AnyArray = values.reshape(-1)[np.maximum.accumulate(places)].reshape(values.shape)
    return filled


def _fill_mask(
    key: AnyArray, sample: AnyArray, items: AnyArray, kind: str
) -> tuple[AnyArray, AnyArray] | None:
    """Return the mask of fill values (NaN, a repeated outlier) and the items without them."""
    if len(sample) < 3 or items.itemsize == 1:
        return None
    mask = None
    if kind == "f" and items.itemsize in (4, 8):
        mask = np.isnan(items.view(f"f{items.itemsize}"))
        if not mask.any():
            mask = None
    if mask is None:
        lowest, low, high, highest = (int(sample[i]) for i in (0, 1, -2, -1))
        if highest - high > 4 * (high - lowest):
            mask = key >= key.dtype.type(highest)
        elif low - lowest > 4 * (highest - low):
            mask = key <= key.dtype.type(lowest)
        else:
            fill = key.dtype.type(highest)
            mask = key == fill
            if kind != "f" or _gap(items, mask) < 4:
                return None
    share = float(mask.mean())
    if not MIN_FILL <= share < 1:
        return None
    return mask.astype("u1"), _filled(items, ~mask)


def _gap(items: AnyArray, mask: AnyArray) -> float:
    """Return how far masked floats are from the others, relative to the spread of these."""
    if items.itemsize not in (4, 8) or mask.all():
        return 0.0
    with np.errstate(all="ignore"):
        floats = items.view(f"f{items.itemsize}").astype("f8")
        others = floats[~mask]
        gap = float((floats[mask].min() - others.max()) / max(np.ptp(others), 1e-300))
    return gap if np.isfinite(gap) else 0.0


def _exceptions_cost(mask: AnyArray, itemsize: int) -> float:
    flat = mask.reshape(-1)
    changes = int(np.count_nonzero(flat[1:] != flat[:-1]))
    return 1.5 * changes + 0.02 * itemsize * int(flat.sum())


def _ranks(entries: AnyArray, key: AnyArray) -> AnyArray:
    """Return the places of `key` in `entries`, which are in order and contain all of it."""
    if key.itemsize > 2:
        return np.searchsorted(entries, key)
    table = np.zeros(1 << 8 * key.itemsize, "u2")  # several times as fast
    table[entries] = np.arange(len(entries))
    return table[key]


def _rank_map(key: AnyArray, items: AnyArray, sample: AnyArray, other: Mapped) -> Mapped | None:
    """Return the map of ranks among the distinct values, if they are few and far between."""
    itemsize = items.itemsize
    if itemsize == 1 or len(sample) < 2 or len(sample) > MAX_SAMPLE_RANKS * min(SAMPLE, key.size):
        return None
    most = min(MAX_ENTRIES, items.nbytes // MIN_CHUNK_PER_DICTIONARY // itemsize)
    if len(distinct(key.reshape(-1)[:: max(1, key.size // (4 * most + 1))])[0]) > most:
        return None
    entries, _ = distinct(key)
    spread = int(other.work.max()) - int(other.work.min()) + 1
    if not 1 < len(entries) <= most or 4 * len(entries) > key.size or len(entries) > 0.7 * spread:
        return None
    work = _ranks(entries, key).astype("u1" if len(entries) <= 256 else "u2")
    dictionary = np.zeros(len(entries), items.dtype)
    dictionary[work.reshape(-1)] = items.reshape(-1)
    stored = encode(dictionary.tobytes(), CodecParams("zstd", 5, 1, itemsize))
    fields = {
        "map": Map.RANK,
        "width": work.itemsize,
        "dictionary": dictionary.tobytes(),
        "stored_dictionary": stored,
    }
    return Mapped(work, fields, None, len(stored), 1.05)
