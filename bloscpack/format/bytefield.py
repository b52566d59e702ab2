"""Fixed-width fields of untrusted bytes.

All numbers on disk are little-endian. Format modules unpack with `unpack_fields`, so that a short
buffer raises a `TruncatedError` that names the struct, never a ``struct.error``.
"""

from struct import Struct
from typing import Any

from ..exceptions import TruncatedError
from ..types import BytesLike


def unpack_fields(layout: Struct, view: BytesLike, at: int, what: str) -> tuple[Any, ...]:
    """Unpack `layout` from position `at` of `view`.

    Raises
    ------
    TruncatedError
        `view` ends before the last field; `what` is the name of the struct for the message.
    """
    if len(view) - at < layout.size:
        raise TruncatedError(
            f"{what}: found {max(len(view) - at, 0)} of {layout.size} bytes", offset=at
        )
    return layout.unpack_from(view, at)
