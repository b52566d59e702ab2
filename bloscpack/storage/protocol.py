"""Interfaces between the container and a storage backend.

Reads are positional and carry no state, so one source serves many threads and survives a fork.
What is written to a sink becomes visible as a whole on `commit`, or not at all.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ..exceptions import BloscpackError
from ..types import BytesLike


class ByteSource(Protocol):
    """Bytes to read from."""

    name: str | None
    """Path or URL for messages; None for memory."""

    def size(self) -> int:
        """Return the current size in bytes."""
        ...

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`; fewer only if the source ends before."""
        ...

    def close(self) -> None:
        """Release the resources of the source; idempotent."""
        ...


class ByteSink(Protocol):
    """Destination that is written front to back; its beginning may be replaced at the end."""

    name: str | None

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        ...

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes that were written earlier."""
        ...

    def commit(self) -> None:
        """Make everything visible at once and durable."""
        ...

    def abort(self) -> None:
        """Discard everything that was written."""
        ...


class JoinSink(ByteSink, Protocol):
    """Sink for a file that is joined from parts."""

    def append_part(self, key: str, nbytes: int) -> None:
        """Append the first `nbytes` of a part unchanged."""
        ...


class PartStore(Protocol):
    """Place where workers put the parts of one file and where they are joined; cheap to pickle."""

    name: str
    """Path or URL of the final file, as the caller gave it."""

    def begin(self) -> None:
        """Create the place for parts; it may exist already."""
        ...

    def create_part(self, key: str) -> ByteSink:
        """Return a sink for a new part.

        FileNotFoundError, here or on commit, means that the job has ended.
        """
        ...

    def open_part(self, key: str) -> ByteSource:
        """Open a part for reading; FileNotFoundError if it does not exist."""
        ...

    def open_target(self) -> ByteSource:
        """Open the file that now has the final name; FileNotFoundError if it does not exist."""
        ...

    def target_tag(self) -> str:
        """Return a string that identifies the file that now has the final name; "" if none has."""
        ...

    def join(self) -> JoinSink:
        """Return a sink for the whole file."""
        ...

    def discard(self, *, others: bool = False) -> None:
        """Remove all parts of the job, if any; with `others`, those of every job."""
        ...


class Closeable(Protocol):
    """Object with a ``close`` method."""

    def close(self) -> None:
        """Close the object."""
        ...


@contextmanager
def errors_at(name: str | os.PathLike[str] | None) -> Iterator[None]:
    """Add a path to errors of ours that have none.

    It costs about a microsecond: use ``err.at(...)`` where single chunks or frames are read.
    """
    try:
        yield
    except BloscpackError as err:
        err.at(path=name)
        raise


@contextmanager
def closed_on_error(opened: Closeable, name: str | None = None) -> Iterator[None]:
    """Close `opened` if the block raises; add the path `name` to errors of ours."""
    try:
        with errors_at(name):
            yield
    except BaseException:
        opened.close()
        raise
