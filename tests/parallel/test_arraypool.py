"""The memory of batches is reused once all references to it are gone, and not before."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bloscpack.parallel.arraypool import ArrayPool

SHAPE = (4, 3, 5, 6)


def place_of(array: Any) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def test_unreferenced_memory_is_reused() -> None:
    pool = ArrayPool(2)
    first = pool.take(SHAPE)
    assert first.shape == SHAPE
    assert first.dtype == np.float32
    assert first.flags.c_contiguous
    assert first.flags.writeable
    place = place_of(first)
    del first
    assert place_of(pool.take(SHAPE)) == place
    # The last batch of a pass is smaller.
    assert place_of(pool.take((1, *SHAPE[1:]))) == place
    assert place_of(pool.take((5, *SHAPE[1:]))) != place


def test_blocks_make_room_for_larger_ones() -> None:
    pool = ArrayPool(1)
    assert pool.take((1, 3, 5, 6)).base is not None
    large = pool.take(SHAPE)
    place = place_of(large)
    del large
    assert len(pool._blocks) == 1
    assert place_of(pool.take(SHAPE)) == place


def tensor_of(array: Any) -> Any:
    return pytest.importorskip("torch", reason="torch is optional").from_numpy(array)


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda array: array,
    "part": lambda array: array[1:2, 0],
    "part of a part": lambda array: array[1:2][0].T,
    "row": lambda array: next(iter(array)),
    "buffer": memoryview,
    "reshaped": lambda array: array.reshape(-1)[3:],
    "bytes": lambda array: np.frombuffer(array, np.uint8),
    "tensor": tensor_of,
    "part of a tensor": lambda array: tensor_of(array)[1:].flatten(),
    "capsule": lambda array: np.from_dlpack(tensor_of(array)),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_referenced_memory_is_not_reused(kind: str) -> None:
    pool = ArrayPool(2)
    array = pool.take(SHAPE)
    place = place_of(array)
    held = HOLDERS[kind](array)
    del array
    assert place_of(pool.take(SHAPE)) != place
    del held
    assert place in {place_of(pool.take(SHAPE)) for _ in range(2)}


def test_number_of_pooled_blocks_is_limited() -> None:
    pool = ArrayPool(2)
    arrays = [pool.take(SHAPE) for _ in range(5)]
    assert len({place_of(array) for array in arrays}) == 5
    assert len(pool._blocks) == 2
    # The other blocks belong to the caller alone.
    assert [array.base is None for array in arrays] == [False, False, True, True, True]
