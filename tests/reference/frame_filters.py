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


def pack(residuals: bytes, shape: tuple[int, int, int], filters: int) -> bytes:
    """Return the residuals of bytes that `encode` returned, PACKED."""
    rows, width, channels = shape
    nplanes = channels if filters & PLANES else 1
    length = width * channels // nplanes
    planes = np.frombuffer(residuals, np.int8).reshape(nplanes, rows, length)
    planes = np.pad(planes, ((0, 0), (0, 0), (0, -length % 32)))
    runs = planes.reshape(nplanes, rows, -1, 2, 16).transpose(1, 2, 0, 3, 4).reshape(-1, 16)
    widths = np.array([v.bit_length() for v in np.where(runs < 0, ~runs, runs).max(1).tolist()])
    widths += runs.any(1)
    bits = np.unpackbits(runs.view(np.uint8).reshape(-1, 2, 8, 1), 3, bitorder="little")
    octets = np.packbits(bits.transpose(0, 1, 3, 2), 3, "little")[..., 0]
    stored = octets[np.broadcast_to(np.arange(8) < widths[:, None, None], octets.shape)]
    low, high = widths.reshape(-1, 2).astype(np.uint8).T
    return stored.tobytes() + (low | high << 4).tobytes()


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
