"""Source and sink in memory."""

from io import BytesIO
from typing import Any

from ..types import BytesLike
from .protocol import ByteSource


def as_bytes(buffer: Any) -> memoryview:
    """Return a view of all bytes of a contiguous buffer with items of any type.

    Raises
    ------
    TypeError
        It is not a buffer, or not contiguous.
    """
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise TypeError("the buffer is not contiguous; copy it first")
    if view.format == "B" and view.ndim == 1:
        return view
    return view.cast("B") if view.nbytes else memoryview(b"")  # `cast` refuses shapes with a 0


class MemorySource(ByteSource):
    """Source for a buffer; `read_at` returns views, not copies."""

    def __init__(self, buffer: Any) -> None:
        # Fast path for bytes, the most common case.
        self._view = memoryview(buffer) if type(buffer) is bytes else as_bytes(buffer)
        self._size = len(self._view)

    def size(self) -> int:
        """Return the size of the buffer in bytes."""
        return self._size

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        """Return a view of the buffer."""
        return self._view[offset : offset + nbytes]

    def map_at(self, offset: int, nbytes: int) -> memoryview:
        """Return a read-only view of the buffer."""
        return self._view[offset : offset + nbytes].toreadonly()

    def hold(self, sequence: int) -> bool:
        """Return true, as no writer changes the buffer."""
        return True

    def place(self, head_nbytes: int = 0) -> bytes:
        """Return all bytes; a copy unless the source was created from a bytes object."""
        buffer = self._view.obj
        if isinstance(buffer, bytes) and len(buffer) == self._size:
            return buffer
        return bytes(self._view)


class MemorySink:
    """Sink that collects bytes in memory; `getvalue` returns them."""

    name: str | None = None

    def __init__(self) -> None:
        self._buffer = BytesIO()

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        self._buffer.write(data)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes that were written earlier."""
        self._buffer.seek(offset)
        self._buffer.write(data)
        self._buffer.seek(0, 2)

    def commit(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Discard everything that was written."""
        self._buffer = BytesIO()

    def getvalue(self) -> bytes:
        """Return everything that was written; `BytesIO` makes no copy."""
        return self._buffer.getvalue()
