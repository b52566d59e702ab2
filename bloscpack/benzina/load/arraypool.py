"""Arrays for batches: memory that was used before is warm, if nobody has it any more."""

import sys
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]


def _holders(blocks: list[Any], place: int) -> int:
    return sys.getrefcount(blocks[place])


# What it is of an object that only a list has; it depends on the interpreter.
_NOBODY = _holders([object()], 0)


class ArrayPool:
    """Give arrays of float32, each of memory that no other array has which anybody still holds.

    The first touch of new memory costs about as much as a third of filling it with pictures, for
    the system clears it page by page. So a few blocks are kept, and given out anew when neither an
    array nor a view, a tensor or a buffer of one is left. One thread.

    Parameters
    ----------
    most : int
        Blocks that are kept; beyond these, arrays are new, and forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._blocks: list[Floats] = []

    def take(self, shape: tuple[int, ...]) -> Floats:
        """Return an array, C-contiguous, of any content."""
        blocks = self._blocks
        free = len(blocks)
        for place in range(len(blocks)):
            # Every view of a block, and a view of that, holds the block itself.
            if _holders(blocks, place) == _NOBODY:
                if _fits(blocks[place], shape):
                    return blocks[place][: shape[0]]
                free = place
        block: Floats = np.empty(shape, np.float32)
        if free == self._most:
            return block
        blocks[free : free + 1] = [block]
        return block[:]


def _fits(block: Floats, shape: tuple[int, ...]) -> bool:
    return block.shape[1:] == shape[1:] and len(block) >= shape[0]
