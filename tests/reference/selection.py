"""What a run of items holds of a selection, item by item; an oracle for selection.pieces."""

from itertools import product
from math import prod


def items(
    start: int, stop: int, shape: tuple[int, ...], ranges: tuple[range, ...]
) -> dict[tuple[int, ...], int]:
    """Return, for every place of the result that items `start` to `stop` fill, which fills it."""
    found = {}
    for place in product(*(range(len(side)) for side in ranges)):
        item = sum(
            side[at] * prod(shape[axis + 1 :])
            for axis, (side, at) in enumerate(zip(ranges, place, strict=True))
        )
        if start <= item < stop:
            found[place] = item
    return found
