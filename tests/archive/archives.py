"""Small archives, and their content in full, for comparison."""

import io
from typing import Any

import numpy as np

import bloscpack as bp

Content = dict[str, tuple[str, tuple[int, ...], bytes]]

ARRAYS: dict[str, Any] = {
    "ramp": np.arange(70, dtype="<i4").reshape(10, 7),
    "m\u00e4sk/../x": np.array([[True, False]] * 3),
    "": np.float32(2.5),
}
ATTRS = {"unit": "m"}


def packed(arrays: Any = None, **options: Any) -> bytes:
    """Return the bytes of an archive."""
    stream = io.BytesIO()
    bp.savez(stream, ARRAYS if arrays is None else arrays, **options)
    return stream.getvalue()


def content_of(arrays: Any) -> Content:
    """Return dtype, shape and bytes of each array."""
    found = {name: np.asarray(array) for name, array in arrays.items()}
    return {name: (one.dtype.str, one.shape, one.tobytes()) for name, one in found.items()}


def read(data: Any) -> tuple[Content, Any]:
    """Return the content and the attrs of an archive."""
    with bp.Archive(data) as archive:
        return content_of(archive), archive.attrs
