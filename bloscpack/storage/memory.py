"""Bytes in memory."""

from io import BytesIO
from typing import Any

from ..types import BytesLike


def as_bytes(buffer: Any) -> memoryview:
    """Return a view of all bytes of a contiguous buffer, whatever its items are.

    Raises
    ------
    TypeError
        It is no buffer, or not contiguous.
    """
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise TypeError("the buffer is not contiguous; copy it first")
    if view.format == "B" and view.ndim == 1:
        return view
    return view.cast("B") if view.nbytes else memoryview(b"")


class MemorySource:
    """Reads from a buffer without copying: `read_at` gives views of it."""

    name: str | None = None

    def __init__(self, buffer: Any) -> None:
        # bytes are the usual case: at once
        self._view = memoryview(buffer) if type(buffer) is bytes else as_bytes(buffer)
        self._size = len(self._view)

    def size(self) -> int:
        """Return the size of the buffer."""
        return self._size

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        """Return a view."""
        return self._view[offset : offset + nbytes]

    def content(self) -> bytes:
        """Return all bytes; a copy, unless the buffer is such bytes."""
        buffer = self._view.obj
        if isinstance(buffer, bytes) and len(buffer) == self._size:
            return buffer
        return bytes(self._view)

    def close(self) -> None:
        """Do nothing: the buffer is the caller's."""


class MemorySink:
    """Collects bytes; `getvalue` gives them."""

    name: str | None = None

    def __init__(self) -> None:
        self._buffer = BytesIO()

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        self._buffer.write(data)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes written before."""
        self._buffer.seek(offset)
        self._buffer.write(data)
        self._buffer.seek(0, 2)

    def commit(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Drop what was written."""
        self._buffer = BytesIO()

    def getvalue(self) -> bytes:
        """Return everything written (no copy is made by `BytesIO`)."""
        return self._buffer.getvalue()
