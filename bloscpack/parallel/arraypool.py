"""Pool of arrays for batches: memory is reused once all references to it are gone."""

import sys
from typing import Any

import numpy as np

from ..types import AnyArray


def _holders(blocks: list[Any], place: int) -> int:
    return sys.getrefcount(blocks[place])


# Reference count of an object that only a list holds; it depends on the interpreter.
_NOBODY = _holders([object()], 0)


class ArrayPool:
    """Pool of arrays of one dtype; an array is reused when nothing refers to its memory.

    Touching new memory for the first time takes about a third of the time it takes to fill it with
    frames, because the system clears each page. So the pool holds a few blocks, at most `most`,
    and reuses one when no array, view, tensor or buffer of it is left. Not safe for concurrent use.
    """

    def __init__(self, most: int, dtype: Any = np.float32) -> None:
        self._most = most
        self._dtype = np.dtype(dtype)
        self._blocks: list[AnyArray] = []

    def take(self, shape: tuple[int, ...]) -> AnyArray:
        """Return a C-contiguous array with arbitrary content."""
        blocks = self._blocks
        free = len(blocks)
        for place in range(len(blocks)):
            # Every view of a block, also a view of a view, holds a reference to the block.
            if _holders(blocks, place) == _NOBODY:
                if _fits(blocks[place], shape):
                    return blocks[place][: shape[0]]
                free = place
        block: AnyArray = np.empty(shape, self._dtype)
        if free == self._most:
            return block
        blocks[free : free + 1] = [block]
        return block[:]


def _fits(block: AnyArray, shape: tuple[int, ...]) -> bool:
    return block.shape[1:] == shape[1:] and len(block) >= shape[0]
