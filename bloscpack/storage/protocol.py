"""What the container needs of a place that holds bytes.

Reads are positional and carry no state, so one source serves many threads and survives a fork.
A sink becomes visible as a whole on `commit` or not at all.
"""

from typing import Protocol

from ..types import BytesLike


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


class JoinSink(ByteSink, Protocol):
    """A sink for a file made of parts."""

    def append_part(self, key: str, nbytes: int) -> None:
        """Append a part of `nbytes`, as it is."""
        ...


class PartStore(Protocol):
    """Where workers put parts of one file, and where these are joined; it pickles small."""

    name: str
    """The file to be, as the caller called it."""

    def begin(self) -> None:
        """Make the place for parts; it may be there already."""
        ...

    def create_part(self, key: str) -> ByteSink:
        """Return a sink for a new part; FileNotFoundError, then or on commit: the job has ended."""
        ...

    def open_part(self, key: str) -> ByteSource:
        """Return a part, to be read; FileNotFoundError if there is none."""
        ...

    def open_target(self) -> ByteSource:
        """Return the file that is there under the final name; FileNotFoundError if none is."""
        ...

    def target_tag(self) -> str:
        """Return what tells the file that is there under the final name from others; "" if none."""
        ...

    def join(self) -> JoinSink:
        """Return a sink for the whole file."""
        ...

    def discard(self, *, others: bool = False) -> None:
        """Remove all parts of the job, of which there may be none; with `others`, of any job."""
        ...
