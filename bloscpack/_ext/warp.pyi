from collections.abc import Sequence
from typing import Any

import numpy as np

MAX_EDGE: int
CLEAN: int
SMEAR: int
EDGE: int

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float32]]

def warp(
    y: Bytes,
    u: Bytes | None,
    v: Bytes | None,
    across: int,
    down: int,
    clean: tuple[int, int, int, int],
    padding: int,
    nearest: bool,
    homography: Sequence[float],
    matrix: Sequence[float],
    rounded: bool,
    bias: Sequence[float],
    scale: Sequence[float],
    outside: Sequence[float],
    out: Floats,
) -> None: ...
def picture(
    y: Bytes,
    u: Bytes | None,
    v: Bytes | None,
    across: int,
    down: int,
    clean: tuple[int, int, int, int],
    matrix: Sequence[float],
    out: Bytes,
) -> None: ...
def limit_vectors(most: int) -> int: ...
