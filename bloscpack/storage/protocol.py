"""Interfaces between the container and a storage backend.

Reads are positional and carry no state, so one source serves many threads and survives a fork.
Bytes that are written to a sink become visible as a whole on `commit`, or not at all.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ..exceptions import BloscpackError
from ..types import AnyArray, BytesLike, Closeable, IntArray

Extent = tuple[int, int]
"""Offset and size in bytes."""


class Prefetch:
    """Bytes that are being fetched, from `ByteSource.prefetch`; by default, nothing is."""

    def wait(self) -> None:
        """Wait until everything has arrived; raises as `ByteSource.read_at` does."""

    def end(self) -> None:
        """Release everything; idempotent."""


class ByteSource(ABC):
    """Bytes to read from.

    A storage must have `size` and `read_at`. The other members describe what else it can do; a
    reader asks for these and never for the class of a source. The defaults are those of bytes that
    are near and never change.
    """

    name: str | None = None
    """Path or URL for messages; None for memory."""
    has_latency: bool = False
    """Whether a read may wait for a network, so that few large reads are faster than many small
    ones. A reader then calls `prefetch` and `keep_head`, and saves reads that only confirm others.
    """
    is_live: bool = False
    """Whether a writer may append to the file while it is open (`before_append`)."""
    whole: "ByteSource | None" = None
    """The file that this source is a part of, as a member of an archive."""
    origin: int | None = 0
    """Position of the first byte in the file, of a part of one; None if that is compressed there.
    """
    stamp: tuple[int, int] = (0, 0)
    """Size in bytes and modification time in ns when the file was opened; zeros if not known."""
    node: Any = None
    """The array to read of a log of several, as of the open state (`container/members.py`)."""

    @abstractmethod
    def size(self) -> int:
        """Return the current size in bytes."""

    @abstractmethod
    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`; fewer only if the source ends before."""

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset`; return the bytes read, fewer only at the end of the source."""
        data = self.read_at(offset, len(view))
        view[: len(data)] = data
        return len(data)

    def map_at(self, offset: int, nbytes: int) -> memoryview | None:
        """Return a read-only view of the stored bytes; fewer only if the source ends before.

        None if the source cannot return them without copying. The view stays valid when the source
        is closed.
        """
        return None

    def copy_cached(self, starts: IntArray, nbytes: int, out: memoryview | AnyArray) -> int:
        """Copy `nbytes` from each of `starts` (int64) to `out`, one after the other, from memory.

        Return how many were copied. The others must be read; a source may copy none.
        """
        return 0

    def close(self) -> None:  # noqa: B027 - most sources hold no resources
        """Release the resources of the source; idempotent."""

    # Sources with latency.

    def prefetch(self, extents: Iterable[Extent]) -> Prefetch:
        """Start to fetch `extents`, in any order; after `Prefetch.wait`, reading them is fast."""
        return Prefetch()

    def keep_head(self, nbytes: int) -> None:  # noqa: B027 - as above
        """Fetch the first `nbytes` and cache them until the source is closed."""

    def holds(self, offset: int, nbytes: int) -> bool:
        """Return whether an extent can be read without waiting."""
        return not self.has_latency

    # The same bytes in another process, or once more in this one.

    def place(self, head_nbytes: int = 0) -> Any:
        """Return a path, bytes or another picklable object from which `open_source` reopens this.

        None if another process cannot open it. If the source has latency, the object may include
        the first `head_nbytes`, so that reading them again takes no request.
        """
        return None

    def identity(self) -> str:
        """Return the version of the content that the storage reports; empty if it reports none."""
        return ""

    def duplicate(self) -> "ByteSource | None":
        """Return another source for the same open file, or None."""
        return None

    def reopened(self) -> "ByteSource | None":
        """Return another source for the same file, opened again so that it holds a version itself.

        If its name was removed, or nothing is held, the same as `duplicate`.
        """
        return self.duplicate()

    def replacement(self) -> "ByteSource | None":
        """Return a source for another file that now has the name; None if there is none.

        Raises
        ------
        FileChangedError
            The content was replaced, and the new one is of another version.
        OSError
            The name does not exist any more.
        """
        return None

    # Files that a writer is changing.

    def before_append(self, *, replays: bool) -> "ByteSource | None":
        """Return the file as it was before an unfinished append; None if no append is unfinished.

        With `replays`, the append of a dead writer is rolled back in the file if possible.
        """
        return None

    def has_unfinished_append(self) -> bool:
        """Return whether a writer is changing the file or died while changing it."""
        return False

    def is_changed(self) -> bool:
        """Return whether the file was written to since it was opened, or is being written to."""
        return False

    def check_when_grown(self, check: Callable[[], None]) -> None:  # noqa: B027 - most never do
        """Call `check` when a file that was closed and opened again has grown; it may raise."""

    def hold(self, sequence: int) -> bool:
        """Keep the space of this version of a log from being used again while the source is open.

        Return false if that is not possible, so that everything read must be compared again.
        """
        return False

    def data_runs(self, most: int) -> list[tuple[int, int]] | None:
        """Return the (start, stop) of each run of data between holes; None if they are not known.

        If there are more than `most` runs, the last one extends to the end.
        """
        return None


class ByteSink(Protocol):
    """Destination that is written front to back; its beginning may be replaced at the end."""

    @property
    def name(self) -> str | None:
        """Path or URL for messages; None without one."""

    def write(self, data: BytesLike) -> object:
        """Append `data`."""

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes that were written earlier."""

    def commit(self) -> None:
        """Make everything visible at once and durable."""

    def abort(self) -> None:
        """Discard everything that was written."""


class JoinSink(ByteSink, Protocol):
    """Sink for a file that is joined from parts."""

    def append_part(self, key: str, nbytes: int) -> None:
        """Append the first `nbytes` of a part unchanged."""


class PartStore(Protocol):
    """Place where workers put the parts of one file and where they are joined; cheap to pickle."""

    name: str
    """Path or URL of the final file, as the caller gave it."""

    def begin(self) -> None:
        """Create the place for parts; it may exist already."""

    def create_part(self, key: str) -> ByteSink:
        """Return a sink for a new part.

        FileNotFoundError, here or on commit, means that the job has ended.
        """

    def open_part(self, key: str) -> ByteSource:
        """Open a part for reading; FileNotFoundError if it does not exist."""

    def open_target(self) -> ByteSource:
        """Open the file that now has the final name; FileNotFoundError if it does not exist."""

    def target_tag(self) -> str:
        """Return a string that identifies the file that now has the final name; "" if none has."""

    def join(self) -> JoinSink:
        """Return a sink for the whole file."""

    def discard(self, *, others: bool = False) -> None:
        """Remove all parts of the job, if any; with `others`, those of every job."""


class ErrorsAt:
    """Context that adds a place to errors of ours: ``place(*args)`` returns arguments of `at`.

    The place is computed for an error only, so that a block costs a fraction of a microsecond.
    """

    __slots__ = ("_args", "_place")

    def __init__(self, place: Callable[..., tuple[Any, ...]], *args: Any) -> None:
        self._place = place
        self._args = args

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, BloscpackError):
            error.at(*self._place(*self._args))


def errors_at(
    name: str | os.PathLike[str] | None, whole: str | os.PathLike[str] | None = None
) -> ErrorsAt:
    """Add a path to errors of ours that have none; `whole` as for `BloscpackError.at`."""
    return ErrorsAt(lambda: ("", name, whole))


@contextmanager
def closed_on_error(opened: Closeable, name: str | None = None) -> Iterator[None]:
    """Close `opened` if the block raises; add the path `name` to errors of ours."""
    try:
        with errors_at(name):
            yield
    except BaseException:
        opened.close()
        raise
