"""Arrays that suit each map of array chunks, or none, by a seed."""

from typing import Any

import numpy as np

DTYPES = ["u1", "<i2", "<u4", "<i8", "<f2", "<f4", "<f8", "<c8", ">i2", ">f4", ">f8"]


def any_array(seed: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return smooth numbers, decimal numbers, few values, a fill value or noise."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 90, rng.integers(1, 4)))
    kind = rng.integers(5)
    ramp = np.add.outer(np.arange(shape[0]), np.zeros(shape[1:]))
    if kind == 0:
        values = ramp * 3 + rng.integers(-5, 5, shape)
    elif kind == 1:
        values = np.round(rng.normal(size=shape).cumsum(0), 2)
    elif kind == 2:
        values = rng.choice(rng.normal(size=9) * 1000, shape)
    elif kind == 3:
        values = np.where(rng.random(shape) < 0.1, -99, ramp + rng.integers(0, 9, shape))
    else:
        return np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype("f8").astype(dtype, casting="unsafe")
