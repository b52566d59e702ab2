"""Reading fixed-width fields from untrusted bytes.

All numbers on disk are little-endian. A format module unpacks through `unpack_fields`, so that a
short buffer is a `TruncatedError` that names what is missing, never a ``struct.error``.
"""

from struct import Struct
from typing import Any

from ..exceptions import TruncatedError
from ..types import BytesLike

# What internal functions take and give as bytes; public ones take any buffer.


def unpack_fields(layout: Struct, view: BytesLike, at: int, what: str) -> tuple[Any, ...]:
    """Unpack `layout` from position `at` of `view`.

    Raises
    ------
    TruncatedError
        `view` ends before the last field; `what` names the struct in the message.
    """
    if len(view) - at < layout.size:
        raise TruncatedError(
            f"{what}: {max(len(view) - at, 0)} of {layout.size} bytes are there", offset=at
        )
    return layout.unpack_from(view, at)
