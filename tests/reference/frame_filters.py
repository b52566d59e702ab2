"""Oracle: the image filters in plain numpy, as described in docs/formats/frames.md."""

from typing import Any

import numpy as np

PLANES, UP, LEFT, ZIGZAG, TIME, BITS = 1, 2, 4, 8, 16, 32
Array = np.ndarray[Any, np.dtype[Any]]


def encode(frame: Array, reference: Array | None, filters: int) -> bytes:
    """Return the residuals of a frame of shape (rows, width, channels) and unsigned items."""
    items = frame - reference if filters & TIME and reference is not None else frame
    if filters & PLANES:
        green = items[..., 1]
        parts = [green, items[..., 0] - green, items[..., 2] - green]
        if items.shape[-1] == 4:
            parts.append(items[..., 3])
        planes = [part[..., None] for part in parts]
    else:
        planes = [items]
    return b"".join(_encode_plane(plane.copy(), filters) for plane in planes)


def _encode_plane(plane: Array, filters: int) -> bytes:
    """Return the residuals of rows of pixels."""
    if filters & UP:
        plane[1:] = plane[1:] - plane[:-1]
    if filters & LEFT:
        plane[:, 1:] = plane[:, 1:] - plane[:, :-1]
    if filters & ZIGZAG:
        bits = 8 * plane.itemsize
        plane = (plane << 1) ^ (np.zeros_like(plane) - (plane >> (bits - 1)))
    items = plane.reshape(-1)
    if not filters & BITS:
        return items.tobytes()
    whole = len(items) // 8 * 8
    planes = [
        np.packbits((items[:whole] >> bit & 1).astype(np.uint8), bitorder="little").tobytes()
        for bit in range(8 * items.itemsize)
    ]
    return b"".join(planes) + items[whole:].tobytes()
