"""Source for objects in object stores and on web servers, read by few requests.

Opening an object fetches its first 64 KiB, and with them its size and version. Everything else is
fetched when it is needed: `read_at` makes a request of its own, and `prefetched` fetches many
extents by a few concurrent requests. Every answer is compared with the version that was opened, so
data of two versions are never mixed. This module has no locks, which a forked child could inherit
in the locked state; the child creates its own clients.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...parallel.imports import importing
from ...parallel.threads import result_of
from ...types import BytesLike
from ..coalescing import REMOTE, joined
from ..protocol import ByteSource, Extent, Prefetch
from ..url import is_url, options_of, shown
from ..window import PartPlace

if TYPE_CHECKING:
    from .backends import Answer, RemoteObject
    from .retry import Answers

# Bytes fetched when an object is opened, and cached.
HEAD_NBYTES = 1 << 16
# Smallest request of `read_at`: the bytes that follow are often needed next, and cost little.
MIN_RUN_NBYTES = 1 << 13
# Limits of the cache of recent reads, in bytes and in pieces.
_MAX_RECENT_NBYTES = 8 << 20
_MAX_RECENT = 16

_CLOSED = "I/O operation on a closed file"


@dataclass(frozen=True, slots=True, repr=False)
class RemotePlace:
    """Description that opens the same version of an object in another process."""

    url: str  # URL of the object
    storage_options: dict[str, Any]  # as for `RemoteSource`
    size: int  # size in bytes
    tag: str  # version
    head: bytes  # beginning of the object, if it is enough to open the file; else empty

    def __repr__(self) -> str:
        """Return a representation without `storage_options`, which may hold keys."""
        return f"RemotePlace({shown(self.url)!r}, size={self.size}, tag={self.tag!r})"

    def open(self, *, fetches_head: bool = True) -> "RemoteSource":
        """Return a source for the object."""
        return RemoteSource(self.url, self.storage_options, version=self, fetches_head=fetches_head)


def may_wait(place: Any) -> bool:
    """Return whether opening `place` takes requests, so that several should be opened at once."""
    return isinstance(place, RemotePlace) or is_url(place)


def without_head(place: Any) -> Any:
    """Return a place without the beginning of its object, which is fetched again on opening."""
    return replace(place, head=b"") if isinstance(place, RemotePlace) else place


def path_of(place: Any) -> str | None:
    """Return the path or URL of a place; None if it has none, such as bytes."""
    if isinstance(place, PartPlace):
        return path_of(place.place)
    if isinstance(place, RemotePlace):
        return place.url
    return os.fsdecode(place) if isinstance(place, str | os.PathLike) else None


class RemoteSource(ByteSource):
    """Object at a URL, read in parts.

    Parameters
    ----------
    url : str
        URL of a scheme that fsspec supports.
    storage_options : mapping, optional
        Options of the file system of fsspec: keys, endpoint, headers.
    version : RemotePlace, optional
        Version that the object must have.
    fetches_head : bool, default True
        Fetch the beginning now. If false and `version` is given, no request is made yet.

    Attributes
    ----------
    name : str
        The URL without password and query.
    tag : str
        Version of the object; empty if its server reports none.

    Raises
    ------
    FileNotFoundError, PermissionError
        The object does not exist or may not be read.
    RemoteError
        It cannot be reached.
    UnsupportedError
        Its server does not support Range requests.
    ImportError
        A library for this URL scheme is missing.
    FileChangedError
        It has another version.
    """

    has_latency = True

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        version: RemotePlace | None = None,
        fetches_head: bool = True,
    ) -> None:
        self.name: str | None = shown(url)
        self.url = url
        self.storage_options = options_of(storage_options)
        self._object: RemoteObject | None = None
        self._pid = -1
        self._is_closed = False
        self._changed = ""
        self._head: BytesLike = b""
        # Replaced, not changed, so that threads need no lock; a lost entry is fetched again.
        self._recent: tuple[tuple[int, BytesLike], ...] = ()
        self._prefetched: dict[RemotePrefetch, None] = {}
        self._size, self.tag = (-1, "") if version is None else (version.size, version.tag)
        if version is not None and version.head:
            self._head = version.head
        elif fetches_head or version is None:
            self._fetch_head(HEAD_NBYTES)

    def size(self) -> int:
        """Return the size in bytes that the object had when it was opened."""
        return self._size

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`, from memory or by one request.

        A request fetches at least 8 KiB.

        Raises
        ------
        FileChangedError
            The object now has another version.
        RemoteError
            All tries fail: it cannot be reached, or the server returns too few bytes.
        """
        if self._is_closed:
            raise ValueError(_CLOSED)
        stop = min(offset + nbytes, self._size)
        if offset >= stop:
            return b""
        parts, position = self._known(offset, stop)
        if position >= stop:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        wanted = max(stop - position, min(MIN_RUN_NBYTES, self._size - position))
        fetched = self._fetch([(position, wanted)])[0]
        data = b"".join((*parts, fetched)) if parts else fetched
        self._remember(offset, data)
        return memoryview(data)[: stop - offset]

    def holds(self, offset: int, nbytes: int) -> bool:
        """Return whether the extent can be read without a request."""
        stop = min(offset + nbytes, self._size)
        return self._known(offset, stop)[1] >= stop

    def keep_head(self, nbytes: int) -> None:
        """Cache the first `nbytes`, fetching the missing ones by one request."""
        if min(nbytes, self._size) > len(self._head):
            self._fetch_head(nbytes)

    def prefetch(self, extents: Iterable[Extent]) -> Prefetch:
        """Start to fetch the missing bytes of `extents`, (offset, nbytes) each, in any order."""
        missing = []
        for offset, nbytes in extents:
            stop = min(offset + nbytes, self._size)
            start = self._known(offset, stop)[1]
            if start < stop:
                missing.append((start, stop - start))
        return RemotePrefetch(self, joined(missing, REMOTE))

    def place(self, head_nbytes: int = 0) -> RemotePlace:
        """Return a description that opens this version of the object in another process.

        It includes the first `head_nbytes`; with 0, opening it fetches them again.
        """
        head = bytes(self._head[:head_nbytes])
        if len(head) < len(self._head) == self._size:
            # The server may not support Range requests; opening fetches the whole object again.
            head = b""
        return RemotePlace(self.url, self.storage_options, self._size, self.tag, head)

    def identity(self) -> str:
        """Return size and version of the object; empty if its server reports no version."""
        return f"{self._size} {self.tag}" if self.tag else ""

    def replacement(self) -> None:
        """Check by one small request that the object still has the version that was opened.

        Raises
        ------
        FileChangedError
            It has another version.
        """
        self._fetch([(0, 1)])

    def close(self) -> None:
        """Release everything that was fetched; idempotent."""
        self._is_closed = True
        self._head, self._recent = b"", ()
        for prefetch in self._prefetched.copy():
            prefetch.end()

    def _known(self, offset: int, stop: int) -> tuple[list[BytesLike], int]:
        """Return the cached bytes from `offset` on, and where they end, at most `stop`."""
        parts: list[BytesLike] = []
        while offset < stop and (part := self._piece(offset, stop)):
            parts.append(part)
            offset += len(part)
        return parts, offset

    def _piece(self, offset: int, stop: int) -> BytesLike:
        """Return the longest cached piece from `offset` on, at most to `stop`."""
        best: BytesLike = b""
        found = [(0, self._head), *self._recent]
        for prefetch in self._prefetched.copy():
            found.extend(prefetch.around(offset))
        for start, data in found:
            if start <= offset < start + len(data):
                part = memoryview(data)[offset - start : stop - start]
                if len(part) == stop - offset:
                    return part
                if len(part) > len(best):
                    best = part
        return best

    def _remember(self, offset: int, data: BytesLike) -> None:
        if len(data) > _MAX_RECENT_NBYTES or self._is_closed:
            return
        recent, nbytes = [(offset, data)], len(data)
        for start, other in self._recent[: _MAX_RECENT - 1]:
            nbytes += len(other)
            if nbytes > _MAX_RECENT_NBYTES:
                break
            recent.append((start, other))
        self._recent = tuple(recent)

    def _fetch_head(self, nbytes: int) -> None:
        head = self._head  # another thread may replace it
        data = self._fetch([(len(head), nbytes - len(head))])[0]
        self._head = b"".join((head, data)) if head else data

    def _fetch(self, extents: Sequence[Extent]) -> list[bytes]:
        future = self.start(extents)
        try:
            answers = result_of(future)
            return self.checked(answers)
        finally:
            future.cancel()  # so that an interrupt also cancels the request

    def start(self, extents: Sequence[Extent]) -> "Answers":
        """Start one request for each of `extents`."""
        with importing:  # loaded on use: fsspec, asyncio and the clients take long to load
            from . import backends, client, errors, retry

        if self._changed:
            raise errors.changed_error(str(self.name), self._changed)
        remote = self._object
        if remote is None or self._pid != os.getpid():
            if remote is not None:
                client.leave_alone(remote)
            remote = backends.open_object(self.url, self.storage_options)
            self._object, self._pid = remote, os.getpid()
        return retry.start(remote, extents, str(self.name), is_first=self._size <= 0)

    def checked(self, answers: "Sequence[Answer]") -> list[bytes]:
        """Return the bytes of answers after a check that all have the opened version.

        Raises
        ------
        FileChangedError
            An answer has another version.
        """
        for answer in answers:
            if self._size < 0:
                self._size, self.tag = answer.size, answer.tag
            elif answer.size == self._size == 0:
                continue  # a store that has no range of it to return reports no version
            elif (answer.size, answer.tag) != (self._size, self.tag):
                with importing:
                    from .errors import changed_error

                self._changed = (
                    f"it had {self._size} bytes and version {self.tag or 'unknown'}, "
                    f"now {answer.size} and {answer.tag or 'unknown'}"
                )
                raise changed_error(str(self.name), self._changed)
        return [answer.data for answer in answers]


class RemotePrefetch(Prefetch):
    """Parts of an object that are being fetched or in memory; from `RemoteSource.prefetch`."""

    def __init__(self, source: RemoteSource, runs: Sequence[Extent]) -> None:
        self._source = source
        self._runs = runs
        self._pid = os.getpid()
        self._future = source.start(runs) if runs else None
        # Starts and bytes of what has arrived; replaced as one, as other threads read them.
        self._pieces: tuple[list[int], list[bytes]] = [], []

    def wait(self) -> None:
        """Wait until everything has arrived; raises as `RemoteSource.read_at` does."""
        future = self._future
        if future is None:
            return
        if self._pid != os.getpid():  # the thread that fetches is in the parent
            self._pid, self._future = os.getpid(), self._source.start(self._runs)
            future = self._future
        answers = result_of(future)
        self._pieces = [start for start, _ in self._runs], self._source.checked(answers)
        self._future = None
        self._source._prefetched[self] = None

    def around(self, offset: int) -> list[tuple[int, BytesLike]]:
        """Return the offset and bytes of the part that holds the byte at `offset`, if any."""
        starts, parts = self._pieces
        at = bisect_right(starts, offset) - 1
        return [(starts[at], parts[at])] if at >= 0 else []

    def end(self) -> None:
        """Release everything; idempotent."""
        self._source._prefetched.pop(self, None)
        if self._future is not None and self._pid == os.getpid():
            self._future.cancel()
        self._future = None
        (starts, parts), self._pieces = self._pieces, ([], [])
        if len(parts) == 1:  # the next small selection is often nearby
            self._source._remember(starts[0], parts[0])
