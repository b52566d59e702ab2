"""Plain twins of the kernel `_ext.warp`: the same numbers with numpy, and a model in floats.

`warp` repeats the arithmetic of the kernel exactly. `model` is the ideal result: interpolation in
double precision, written from the description of Benzina's kernel.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

ONE, HALF = 1 << 15, 1 << 14
Array = np.ndarray[Any, Any]
Numbers = Sequence[float]


def sources(homography: Numbers, rows: int, columns: int) -> tuple[Array, Array]:
    """Return the source coordinates of all output pixels, double precision."""
    h = np.array([float(value) for value in homography])
    y, x = np.mgrid[:rows, :columns].astype(np.float64)
    with np.errstate(all="ignore"):
        if h[6] == 0 and h[7] == 0:
            h[:6] = h[:6] / h[8]
            return h[0] * x + (h[1] * y + h[2]), h[3] * x + (h[4] * y + h[5])
        w = h[6] * x + (h[7] * y + h[8])
        return (h[0] * x + (h[1] * y + h[2])) / w, (h[3] * x + (h[4] * y + h[5])) / w


def bounds(frame: int, start: int, size: int, padding: str) -> tuple[float, float, float]:
    """Return the first and last coordinate that is a sample, and the margin outside them."""
    if padding == "smear":
        return -start, frame - 1 - start, 0.0
    return 0, size - 1, 0.5 if padding == "edge" else 0.0


def is_inside(at: Array, low: float, high: float, margin: float) -> Array:
    """Return which coordinates are samples; NaN is not."""
    with np.errstate(invalid="ignore"):
        return (at >= low - margin) & (at <= high + margin)


def fixed(at: Array, low: float, high: float, origin: int, nearest: bool) -> Array:
    """Return coordinates of the frame with 15 fractional bits."""
    found = np.floor((np.clip(at, low, high) + origin) * ONE + 0.5).astype(np.int64)
    return (found + HALF) // ONE * ONE if nearest else found


def in_plane(at: Array, halved: int, edge: int, nearest: bool) -> Array:
    """Return coordinates of a plane for those of luma."""
    if halved:
        at = at // ONE // 2 * ONE if nearest else (at - HALF) >> 1
    return np.clip(at, 0, (edge - 1) * ONE)


def sampled(plane: Array, across: Array, down: Array) -> Array:
    """Return samples interpolated between four, as float32."""
    height, width = plane.shape
    wide = plane.astype(np.int64)
    x, y = across >> 15, down >> 15
    right, below = np.minimum(x + 1, width - 1), np.minimum(y + 1, height - 1)

    def blended(column: Array) -> Array:
        upper, lower = wide[y, column], wide[below, column]
        return upper * 128 + (((lower - upper) * 128 * (down & (ONE - 1)) + HALF) >> 15)

    weight = (across & (ONE - 1)) >> 1
    total = blended(x) * (HALF - weight) + blended(right) * weight
    return total.astype(np.float32) * np.float32(2.0**-21)


def converted(values: Sequence[Array], matrix: Numbers, rounded: bool) -> Array:
    """Return channels of luma and chroma, first axis."""
    m = np.array(matrix, np.float32).reshape(3, 4)
    y, u, v = values
    channels = np.stack([((r[0] * y + r[1] * u) + r[2] * v) + r[3] for r in m])
    if rounded:
        channels = np.floor(np.clip(channels, 0, 255) + np.float32(0.5))
    return channels


def warp(
    planes: Sequence[Array | None],
    halved: tuple[int, int],
    clean: tuple[int, int, int, int],
    homography: Numbers,
    shape: tuple[int, int],
    matrix: Numbers,
    *,
    padding: str = "clean",
    nearest: bool = False,
    rounded: bool = True,
    bias: Numbers = (0, 0, 0),
    scale: Numbers = (1, 1, 1),
    outside: Numbers = (0, 0, 0),
) -> Array:
    """Return the output of the kernel: float32, (3, height, width)."""
    luma = planes[0]
    assert luma is not None
    x, y = sources(homography, *shape)
    low_x, high_x, margin = bounds(luma.shape[1], clean[0], clean[2], padding)
    low_y, high_y, _ = bounds(luma.shape[0], clean[1], clean[3], padding)
    inside = is_inside(x, low_x, high_x, margin) & is_inside(y, low_y, high_y, margin)
    x = fixed(np.where(inside, x, low_x), low_x, high_x, clean[0], nearest)
    y = fixed(np.where(inside, y, low_y), low_y, high_y, clean[1], nearest)
    values = []
    for plane, by in zip(planes, ((0, 0), halved, halved), strict=True):
        if plane is None:
            values.append(np.full(shape, 128, np.float32))
            continue
        across = in_plane(x, by[0], plane.shape[1], nearest)
        values.append(sampled(plane, across, in_plane(y, by[1], plane.shape[0], nearest)))
    channels = converted(values, matrix, rounded)
    columns = [np.array(three, np.float32)[:, None, None] for three in (bias, scale, outside)]
    return np.where(inside, (channels - columns[0]) * columns[1], columns[2])


def bilinear(plane: Array, x: Array, y: Array) -> Array:
    """Return samples interpolated between four, in double precision, with extended edges."""
    height, width = plane.shape
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    total = np.zeros(x.shape)
    for dy, by_y in ((0, 1 - (y - top)), (1, y - top)):
        for dx, by_x in ((0, 1 - (x - left)), (1, x - left)):
            row, column = np.clip(top + dy, 0, height - 1), np.clip(left + dx, 0, width - 1)
            total += plane[row, column] * by_x * by_y
    return total


def model(
    planes: Sequence[Array],
    halved: tuple[int, int],
    clean: tuple[int, int, int, int],
    homography: Numbers,
    shape: tuple[int, int],
    matrix: Numbers,
) -> tuple[Array, Array]:
    """Return channels before rounding, in double precision, and a mask of pixels of the picture."""
    x, y = sources(homography, *shape)
    inside = is_inside(x, 0, clean[2] - 1, 0) & is_inside(y, 0, clean[3] - 1, 0)
    x, y = np.where(inside, x, 0) + clean[0], np.where(inside, y, 0) + clean[1]
    values = [bilinear(planes[0], x, y)]
    for plane in planes[1:]:
        at_x = x / 2 - 0.25 if halved[0] else x
        at_y = y / 2 - 0.25 if halved[1] else y
        values.append(bilinear(plane, at_x, at_y))
    rows = np.array(matrix).reshape(3, 4)
    channels = np.stack([sum(r[i] * values[i] for i in range(3)) + r[3] for r in rows])
    return channels, inside
