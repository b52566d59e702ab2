"""Maps from the items of a plane to work integers, the inverses of those of the format.

Maps are compared on a few windows of a plane: a `Candidate` has the work integers of these. Only
the one that is chosen is applied to all items, and gives a `Mapped` plane.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..._ext.arraychunk import (
    boxes_into,
    common_divisor,
    divisor_of,
    facts_of,
    order_into,
    places_into,
    quotients_into,
    sample_into,
)
from ...format.arraychunk import MAX_ENTRIES, MIN_CHUNK_PER_DICTIONARY, Map, scale_of
from ...format.codec import CodecParams, encode
from ...types import AnyArray

# Divisors that numbers of decimal or fixed-point data have been multiplied by.
DIVISORS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 255.0, 65535.0, *(2.0**i for i in range(1, 17)))
SAMPLE = 4096
FIRST_LOOK = 128  # items of a sample that rule most divisors out
# Items that a map cannot express are exceptions, if they are few or repeat.
MAX_EXCEPTIONS = 0.02
MIN_FILL = 0.005
MAX_SAMPLE_RANKS = 0.6  # of a sample, distinct values
# The estimate of a dictionary, whose entries compress, relative to its size.
ENTRY_COST = 0.6
RANKS_FACTOR = 1.05  # ranks take longer to decode
_KINDS = {"u": 0, "i": 1, "f": 2}

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Mapped:
    """Work integers of a plane, and how they become items again."""

    work: AnyArray  # unsigned, of the shape of the plane
    fields: dict[str, Any]  # arguments of `PlanePlan` that belong to the map
    mask: AnyArray | None = None  # uint8, not 0 for exceptions


@dataclass(frozen=True, slots=True)
class Candidate:
    """A map that may suit a plane."""

    work: AnyArray  # work integers of the windows
    # Returns the mapped plane, or None if the map does not suit all of it.
    apply: Callable[[], Mapped | None]
    cost: float = 0.0  # estimated bytes of a dictionary and of exceptions
    factor: float = 1.0  # what the estimated size is multiplied by: a slower map must pay off


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of equal sides in an array of three axes, at most 16."""

    starts: tuple[Shape, ...]  # the first item of each
    sides: Shape

    def take(self, array: AnyArray) -> AnyArray:
        """Return the boxes of a contiguous array; axes after the third are those of an item."""
        found: AnyArray = np.empty((len(self.starts), *self.sides, *array.shape[3:]), array.dtype)
        itemsize = array.nbytes // prod(array.shape[:3])
        source = bytes_of(array)
        boxes_into(source, itemsize, array.shape[:3], self.starts, self.sides, bytes_of(found))
        return found


def maps_of(items: AnyArray, kind: str, boxes: Boxes) -> list[Candidate]:
    """Return the maps that may suit a plane; the first one always does.

    Parameters
    ----------
    items : ndarray
        Unsigned integers with the bits of the items, contiguous, not empty.
    kind : str
        ``u`` for unsigned integers, ``i`` for signed ones, ``f`` for floats.
    boxes : Boxes
        The windows.
    """
    windows = boxes.take(items)
    sample = _Sample.of(items, kind)
    key_map = _key_map(items, kind, sample)
    found = [Candidate(key_map.work_of(windows), lambda: key_map.mapped(items))]
    if kind == "f":
        quotient = _quotient_map(items, sample.drawn, windows)
        if quotient is not None:
            found.append(quotient)
    fill = _fill_map(items, kind, windows, sample)
    if fill is not None:
        found.append(fill)
    ranks = _rank_map(items, kind, len(sample.distinct), key_map.spread, boxes)
    if ranks is not None:
        found.append(ranks)
    return found


@dataclass(frozen=True, slots=True)
class _Sample:
    """Items drawn at equal distances."""

    drawn: AnyArray  # as they are
    distinct: AnyArray  # their distinct ordered integers, ascending
    # How often the least and the largest of these occur.
    nleast: int
    nmost: int

    @classmethod
    def of(cls, items: AnyArray, kind: str) -> "_Sample":
        itemsize, step = items.itemsize, max(1, items.size // SAMPLE)
        drawn, ordered = np.empty((2, -(-items.size // step)), items.dtype)
        count, nleast, nmost = sample_into(
            bytes_of(items), itemsize, _KINDS[kind], step, bytes_of(drawn), bytes_of(ordered)
        )
        return cls(drawn, ordered[:count], nleast, nmost)


def bytes_of(array: AnyArray) -> memoryview:
    """Return the bytes of a contiguous array that is not empty."""
    return array.data.cast("B")


def _ordered(
    items: AnyArray, kind: str, shift: int = 0, offset: int = 0, width: int = 0
) -> AnyArray:
    """Return integers in the order of the items, shifted right by `shift`, less `offset`."""
    width = width or items.itemsize
    if kind == "u" and not offset and not shift and width == items.itemsize:
        return items
    ordered: AnyArray = np.empty(items.shape, f"u{width}")
    source = bytes_of(items)
    order_into(source, items.itemsize, _KINDS[kind], shift, offset, bytes_of(ordered), width)
    return ordered


def _width(most: int) -> int:
    return 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4 if most < 1 << 32 else 8


def _narrow(values: AnyArray, width: int) -> AnyArray:
    return values.astype(f"u{width}", copy=False)


@dataclass(frozen=True, slots=True)
class _KeyMap:
    """The map of ordered integers, `Map.OFFSET` or `Map.FLOAT`; all items are in its range."""

    kind: str
    itemsize: int
    shift: int
    offset: int
    divisor: int
    spread: int  # largest work integer
    width: int

    @property
    def is_identity(self) -> bool:
        # Integers as they are need no map: blocks are decoded in place.
        return self.kind != "f" and self.divisor == 1 and self.width == self.itemsize

    def work_of(self, items: AnyArray) -> AnyArray:
        if self.is_identity:
            return items
        if self.divisor == 1:
            return _ordered(items, self.kind, self.shift, self.offset, self.width)
        shifted = _ordered(items, self.kind, 0, self.offset)
        return _narrow(shifted // shifted.dtype.type(self.divisor), self.width)

    def mapped(self, items: AnyArray, mask: AnyArray | None = None) -> Mapped:
        offset = self.offset
        if self.is_identity:
            fields = {"map": Map.OFFSET, "width": self.itemsize, "scale": 1}
        elif self.kind == "f":
            fields = {"map": Map.FLOAT, "width": self.width, "shift": self.shift, "offset": offset}
        else:
            first = offset ^ (1 << (8 * self.itemsize - 1) if self.kind == "i" else 0)
            fields = {
                "map": Map.OFFSET,
                "width": self.width,
                "offset": first,
                "scale": self.divisor,
            }
        return Mapped(np.ascontiguousarray(self.work_of(items)), fields, mask)


def _key_map(items: AnyArray, kind: str, sample: _Sample) -> _KeyMap:
    """Return the map of ordered integers; `sample` are some of the items."""
    itemsize, source = items.itemsize, bytes_of(items)
    least, most, union = facts_of(source, itemsize, _KINDS[kind])
    if kind == "f":
        nbits = 8 * itemsize
        low = (union & -union).bit_length() - 1 if union else 0
        # The low bits of negative floats are inverted ones, so that the shift drops nothing.
        shift = min(low, nbits - 9 if nbits > 8 else 0)
        least, most = least >> shift, most >> shift
        offset = least if _width(most - least) < _width(most) else 0
        return _KeyMap(
            kind, itemsize, shift, offset, 1, most - offset, min(itemsize, _width(most - offset))
        )
    divisor = 1
    if most - least > 1:
        ordered = bytes_of(sample.distinct)
        divisor = common_divisor(ordered, source, itemsize, _KINDS[kind], least)
    spread = (most - least) // divisor
    return _KeyMap(kind, itemsize, 0, least, divisor, spread, _width(spread))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Integers whose quotients are floats, with a mask of the floats that are none."""

    values: AnyArray
    mask: AnyArray
    count: int  # that are quotients
    least: int
    most: int

    @classmethod
    def of(cls, items: AnyArray, divisor: float) -> "_Numbers":
        values = np.empty(items.shape, "i4")
        mask = np.empty(items.shape, "u1")
        source = bytes_of(items)
        found = quotients_into(source, items.itemsize, divisor, bytes_of(values), bytes_of(mask))
        return cls(values, mask, *found)

    @property
    def width(self) -> int:
        return _width(self.most - self.least)

    def work(self) -> AnyArray:
        values = self.values
        if self.count < values.size:
            values = _filled(values, self.mask == 0)
        return _narrow(values.view("u4") - np.uint32(self.least % 2**32), self.width)


def _quotient_map(items: AnyArray, drawn: AnyArray, windows: AnyArray) -> Candidate | None:
    """Return the map k / D of decimal or fixed-point numbers, if nearly all items are such."""
    itemsize = items.itemsize
    if itemsize < 4:
        return None
    # Exceptions among the few are more than among all by chance.
    divisor = divisor_of(
        bytes_of(drawn),
        itemsize,
        DIVISORS,
        FIRST_LOOK,
        1 - 4 * MAX_EXCEPTIONS,
        1 - MAX_EXCEPTIONS,
    )
    if divisor is None:
        return None
    seen = _Numbers.of(windows, divisor)
    if not seen.count:
        return None

    def apply() -> Mapped | None:
        numbers = _Numbers.of(items, divisor)
        if not numbers.count:
            return None
        fields = {
            "map": Map.QUOTIENT,
            "width": numbers.width,
            "offset": numbers.least % 2**64,
            "scale": scale_of(divisor),
        }
        mask = None if numbers.count == items.size else numbers.mask
        return Mapped(numbers.work(), fields, mask)

    return Candidate(seen.work(), apply, _exceptions_cost(seen.mask, itemsize, items.size))


def _filled(values: AnyArray, good: AnyArray) -> AnyArray:
    """Return `values` with each one that is not good replaced by the last good one before it."""
    flat = good.reshape(-1)
    places = np.where(flat, np.arange(flat.size), -1)
    places[0] = max(places[0], int(np.argmax(flat)))
    return values.reshape(-1)[np.maximum.accumulate(places)].reshape(values.shape)


def _fill_map(items: AnyArray, kind: str, windows: AnyArray, sample: _Sample) -> Candidate | None:
    """Return the map of items without fill values: NaN, or a repeated outlier."""
    is_fill = _fill_of(items.itemsize, kind, sample)
    if is_fill is None:
        return None
    mask = is_fill(windows)
    if mask.all():
        return None
    filled = _filled(windows, ~mask)
    of_filled = _Sample.of(filled, kind)

    def apply() -> Mapped | None:
        mask = is_fill(items)
        if mask.all():
            return None
        filled = _filled(items, ~mask)
        return _key_map(filled, kind, of_filled).mapped(filled, mask.astype("u1"))

    work = _key_map(filled, kind, of_filled).work_of(filled)
    return Candidate(work, apply, _exceptions_cost(mask, items.itemsize, items.size))


def _fill_of(itemsize: int, kind: str, sample: _Sample) -> Callable[[AnyArray], AnyArray] | None:
    """Return a function that finds fill values, if a sample has some."""
    drawn, ordered = sample.drawn, sample.distinct
    if len(ordered) < 3 or itemsize == 1:
        return None
    total = drawn.size

    def is_share(count: int) -> bool:
        return MIN_FILL * total <= count < total

    if kind == "f" and itemsize in (4, 8):
        count = int(np.isnan(drawn.view(f"f{itemsize}")).sum())
        if count:
            return (lambda x: np.isnan(x.view(f"f{itemsize}"))) if is_share(count) else None
    lowest, low, high, highest = (int(ordered[i]) for i in (0, 1, -2, -1))
    key = ordered.dtype.type
    if highest - high > 4 * (high - lowest):
        return (lambda x: _ordered(x, kind) >= key(highest)) if is_share(sample.nmost) else None
    if low - lowest > 4 * (highest - low):
        return (lambda x: _ordered(x, kind) <= key(lowest)) if is_share(sample.nleast) else None
    if kind != "f" or not is_share(sample.nmost) or _gap(drawn, _ordered(drawn, kind)) < 4:
        return None
    return lambda x: _ordered(x, kind) == key(highest)


def _gap(items: AnyArray, key: AnyArray) -> float:
    """Return how far the largest floats are from the others, relative to the spread of these."""
    if items.itemsize not in (4, 8):
        return 0.0
    mask = key == key.max()
    if mask.all():
        return 0.0
    with np.errstate(all="ignore"):
        floats = items.view(f"f{items.itemsize}").astype("f8")
        others = floats[~mask]
        gap = float((floats[mask].min() - others.max()) / max(np.ptp(others), 1e-300))
    return gap if np.isfinite(gap) else 0.0


def _exceptions_cost(mask: AnyArray, itemsize: int, nitems: int) -> float:
    """Return the bytes that exceptions of `nitems` items may take, by a mask of some of these."""
    flat = mask.reshape(-1)
    changes = int(np.count_nonzero(flat[1:] != flat[:-1]))
    return (1.5 * changes + 0.02 * itemsize * int(np.count_nonzero(flat))) * nitems / flat.size


def _rank_map(
    items: AnyArray, kind: str, ndistinct: int, spread: int, boxes: Boxes
) -> Candidate | None:
    """Return the map of ranks among the distinct values, if they are few and far between."""
    itemsize, size = items.itemsize, items.size
    if itemsize == 1 or ndistinct < 2 or ndistinct > MAX_SAMPLE_RANKS * min(SAMPLE, size):
        return None
    most = min(MAX_ENTRIES, items.nbytes // MIN_CHUNK_PER_DICTIONARY // itemsize, size // 4)
    most = min(most, int(0.7 * (spread + 1)))
    if ndistinct > most:
        return None
    places = np.empty(items.shape, "u2")
    entries: AnyArray = np.empty(most, items.dtype)
    count = places_into(bytes_of(items), itemsize, bytes_of(places), bytes_of(entries))
    if count < 2:
        return None
    entries = entries[:count]
    order = np.argsort(_ordered(entries, kind), kind="stable")
    ranks = np.empty(count, f"u{_width(count - 1)}")
    ranks[order] = np.arange(count)
    dictionary = entries[order].tobytes()

    def apply() -> Mapped:
        work = ranks[places]
        fields = {
            "map": Map.RANK,
            "width": work.itemsize,
            "dictionary": dictionary,
            "stored_dictionary": encode(dictionary, CodecParams("zstd", 3, 1, itemsize)),
        }
        return Mapped(work, fields)

    return Candidate(ranks[boxes.take(places)], apply, ENTRY_COST * len(dictionary), RANKS_FACTOR)
