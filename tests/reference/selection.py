"""Oracles for `array.selection` and `array.chunkpieces`: the items of a selection one by one."""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from bloscpack.array.selection import Sides


def side_lists(sides: Sides) -> list[list[int]]:
    """Return the indices along each axis, in the order of the selection."""
    return [list(side) if isinstance(side, range) else side.tolist() for side in sides]


def items(
    start: int, stop: int, shape: tuple[int, ...], sides: Sides
) -> dict[tuple[int, ...], int]:
    """Return the item for each place of the result that items `start` to `stop` fill."""
    found = {}
    lists = side_lists(sides)
    for place in product(*(range(len(side)) for side in lists)):
        item = sum(
            side[at] * prod(shape[axis + 1 :])
            for axis, (side, at) in enumerate(zip(lists, place, strict=True))
        )
        if start <= item < stop:
            found[place] = item
    return found


def outer(array: np.ndarray[Any, Any], index: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Return the outer selection of an index with an entry for each axis, one axis at a time."""
    for axis in range(array.ndim - 1, -1, -1):
        array = array[(slice(None),) * axis + (index[axis], ...)]  # an array, never a scalar
    return array
