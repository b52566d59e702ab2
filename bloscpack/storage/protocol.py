"""What the container needs of a place that holds bytes.

Reads are positional and carry no state, so one source serves many threads and survives a fork.
A sink becomes visible as a whole on `commit` or not at all.
"""

from typing import Protocol

from ..wire import BytesLike


class ByteSource(Protocol):
    """Bytes to read from."""

    name: str | None
    """Where the bytes are, for messages; None for memory."""

    def size(self) -> int:
        """Return the number of bytes there are now."""
        ...

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`, fewer only where the source ends."""
        ...

    def close(self) -> None:
        """Release the source; idempotent."""
        ...


class ByteSink(Protocol):
    """Bytes to write to, front to back, with the front filled in at the end."""

    name: str | None

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        ...

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes written before."""
        ...

    def commit(self) -> None:
        """Make everything written visible at once, durably."""
        ...

    def abort(self) -> None:
        """Leave nothing behind."""
        ...
