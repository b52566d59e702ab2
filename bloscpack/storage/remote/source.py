"""Bytes in object stores and behind web servers, by few requests.

The first 64 KiB are fetched when an object is opened, and tell its size and version; all else is
fetched as it is needed: `read_at` by a request of its own, or, inside of `prefetched`, many extents
by a few, at once. What later answers tell of the version is compared: data of two versions are
never mixed. Nothing here has a lock that a forked child could find locked; the child makes clients
of its own.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ...parallel.imports import importing
from ...parallel.threads import result_of
from ...types import BytesLike
from ..url import is_url, shown

if TYPE_CHECKING:
    from .backends import Answer, RemoteObject
    from .retry import Answers

# Fetched when an object is opened, and kept.
HEAD_NBYTES = 1 << 16
# Bytes nobody asked for that are fetched rather than asked around: a request costs some 20 ms.
MAX_GAP_NBYTES = 1 << 18
# The most that one request fetches, unless somebody wants more in one piece.
MAX_RUN_NBYTES = 8 << 20
# The least that `read_at` asks for: what comes next is often wanted next, and costs little more.
MIN_RUN_NBYTES = 1 << 13
# Objects that are opened, or read from, at once.
MAX_OBJECTS = 16
# What was fetched last, kept for reads of the same place.
_MAX_RECENT_NBYTES = 8 << 20
_MAX_RECENT = 16

_CLOSED = "I/O operation on a closed file"
Extent = tuple[int, int]


class RemotePlace(NamedTuple):
    """What opens an object in another process, and no other version of it.

    Attributes
    ----------
    url : str
        Where it is.
    storage_options : dict
        As for `RemoteSource`.
    size : int
        Its size in bytes.
    tag : str
        Its version.
    head : bytes
        Its beginning, if all that is wanted on opening is in it; else empty.
    """

    url: str
    storage_options: dict[str, Any]
    size: int
    tag: str
    head: bytes

    def __repr__(self) -> str:
        """Return it without what is secret: options have keys in them."""
        return f"RemotePlace({shown(self.url)!r}, size={self.size}, tag={self.tag!r})"

    def open(self) -> "RemoteSource":
        """Return a source for the object."""
        return RemoteSource(self.url, self.storage_options, version=self)


def may_wait(place: Any) -> bool:
    """Return whether opening `place` takes requests, so that several are opened at once."""
    return isinstance(place, RemotePlace) or is_url(place)


class RemoteSource:
    """An object at a URL, read in parts.

    Parameters
    ----------
    url : str
        Any that fsspec knows.
    storage_options : mapping, optional
        For the file system of fsspec: keys, endpoint, headers.
    version : RemotePlace, optional
        The version that it must be of.
    fetches_head : bool, default True
        Fetch the beginning now; else, of a known version, nothing is asked for yet.

    Attributes
    ----------
    name : str
        The URL without password and query.
    tag : str
        Version of the object; empty if its server tells none.

    Raises
    ------
    FileNotFoundError, PermissionError
        There is no such object, or none for whoever asks.
    RemoteError
        It cannot be reached.
    UnsupportedError
        Its server gives no parts of it.
    ImportError
        A library for such URLs is missing.
    FileChangedError
        It is of another version.
    """

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
        self.storage_options = dict(storage_options or {})
        self._object: RemoteObject | None = None
        self._pid = -1
        self._is_closed = False
        self._changed = ""
        self._head: BytesLike = b""
        # Replaced as a whole, so that threads need no lock: one that is lost is fetched again.
        self._recent: tuple[tuple[int, BytesLike], ...] = ()
        self._prefetched: dict[Prefetch, None] = {}
        self._size, self.tag = (-1, "") if version is None else (version.size, version.tag)
        if version is not None and version.head:
            self._head = version.head
        elif fetches_head or version is None:
            self._fetch_head(HEAD_NBYTES)

    def size(self) -> int:
        """Return the size of the object, as it was when it was opened."""
        return self._size

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return `nbytes` from `offset`, from what was fetched before or by one request.

        A request is for 8 KiB at least.

        Raises
        ------
        FileChangedError
            The object is of another version by now.
        RemoteError
            It cannot be reached, or gives too few bytes, each time it is tried.
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
        """Return whether reading there needs no request."""
        stop = min(offset + nbytes, self._size)
        return self._known(offset, stop)[1] >= stop

    def keep_head(self, nbytes: int) -> None:
        """Fetch the first `nbytes` as far as they are missing, by one request, and keep them."""
        if min(nbytes, self._size) > len(self._head):
            self._fetch_head(nbytes)

    def prefetch(self, extents: Iterable[Extent]) -> "Prefetch":
        """Start to fetch what is missing of `extents`, (offset, nbytes) each, in any order."""
        missing = []
        for offset, nbytes in extents:
            stop = min(offset + nbytes, self._size)
            start = self._known(offset, stop)[1]
            if start < stop:
                missing.append((start, stop - start))
        return Prefetch(self, coalesced(missing))

    @contextmanager
    def prefetched(self, extents: Iterable[Extent]) -> Iterator[None]:
        """Fetch `extents` by few requests; inside of the block `read_at` takes them from memory."""
        prefetch = self.prefetch(extents)
        try:
            prefetch.wait()
            yield
        finally:
            prefetch.end()

    def place(self, head_nbytes: int) -> RemotePlace:
        """Return what opens this version of the object in another process.

        The first `head_nbytes` travel with it; with none, opening fetches them anew.
        """
        head = bytes(self._head[:head_nbytes])
        if len(head) < len(self._head) == self._size:
            head = b""  # its server may give no parts of it, but all of it once more
        return RemotePlace(self.url, self.storage_options, self._size, self.tag, head)

    def check_current(self) -> None:
        """Check, by one small request, that what is at the URL is still what was opened.

        Raises
        ------
        FileChangedError
            It is another version.
        """
        self._fetch([(0, 1)])

    def close(self) -> None:
        """Let go of everything that was fetched; idempotent."""
        self._is_closed = True
        self._head, self._recent = b"", ()
        for prefetch in self._prefetched.copy():
            prefetch.end()

    def _known(self, offset: int, stop: int) -> tuple[list[BytesLike], int]:
        """Return the bytes from `offset` on that are here, and where they end: `stop` at most."""
        parts: list[BytesLike] = []
        while offset < stop and (part := self._piece(offset, stop)):
            parts.append(part)
            offset += len(part)
        return parts, offset

    def _piece(self, offset: int, stop: int) -> BytesLike:
        """Return as many of the bytes from `offset` to `stop` as are here in one piece."""
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
        kept, nbytes = [(offset, data)], len(data)
        for start, other in self._recent[: _MAX_RECENT - 1]:
            nbytes += len(other)
            if nbytes > _MAX_RECENT_NBYTES:
                break
            kept.append((start, other))
        self._recent = tuple(kept)

    def _fetch_head(self, nbytes: int) -> None:
        known = len(self._head)
        data = self._fetch([(known, nbytes - known)])[0]
        self._head = b"".join((self._head, data)) if known else data

    def _fetch(self, extents: Sequence[Extent]) -> list[bytes]:
        future = self.start(extents)
        try:
            answers = result_of(future)
            return self.checked(answers)
        finally:
            future.cancel()  # an interrupt ends the request, too

    def start(self, extents: Sequence[Extent]) -> "Answers":
        """Start requests for `extents`, one each."""
        with importing:  # on use: fsspec, asyncio and the clients take long to load
            from . import backends, client, errors, retry

        if self._changed:
            raise errors.changed(str(self.name), self._changed)
        remote = self._object
        if remote is None or self._pid != os.getpid():
            if remote is not None:
                client.leave_alone(remote)
            remote = backends.open_object(self.url, self.storage_options)
            self._object, self._pid = remote, os.getpid()
        return retry.start(remote, extents, str(self.name), is_first=self._size <= 0)

    def checked(self, answers: "Sequence[Answer]") -> list[bytes]:
        """Return the bytes of answers, all of the version that was opened.

        Raises
        ------
        FileChangedError
            One is of another.
        """
        for answer in answers:
            if self._size < 0:
                self._size, self.tag = answer.size, answer.tag
            elif (answer.size, answer.tag) != (self._size, self.tag):
                with importing:
                    from .errors import changed

                self._changed = (
                    f"{self._size} bytes of version {self.tag or 'unknown'} then, "
                    f"{answer.size} of {answer.tag or 'unknown'} now"
                )
                raise changed(str(self.name), self._changed)
        return [answer.data for answer in answers]


class Prefetch:
    """Parts of an object that are being fetched, or are here; made by `RemoteSource.prefetch`."""

    def __init__(self, source: RemoteSource, runs: Sequence[Extent]) -> None:
        self._source = source
        self._runs = runs
        self._pid = os.getpid()
        self._future = source.start(runs) if runs else None
        self._starts: list[int] = []
        self._parts: list[bytes] = []

    def wait(self) -> None:
        """Wait until all is here; errors as for `RemoteSource.read_at`."""
        future = self._future
        if future is None:
            return
        if self._pid != os.getpid():  # the thread that fetches is in the parent
            self._pid, self._future = os.getpid(), self._source.start(self._runs)
            future = self._future
        answers = result_of(future)
        self._parts = self._source.checked(answers)
        self._starts = [start for start, _ in self._runs]
        self._future = None
        self._source._prefetched[self] = None

    def around(self, offset: int) -> list[tuple[int, BytesLike]]:
        """Return the part that holds the byte at `offset`, if one does, and its place."""
        at = bisect_right(self._starts, offset) - 1
        return [(self._starts[at], self._parts[at])] if at >= 0 else []

    def end(self) -> None:
        """Let go of everything; idempotent."""
        self._source._prefetched.pop(self, None)
        if self._future is not None and self._pid == os.getpid():
            self._future.cancel()
        self._future = None
        if len(self._parts) == 1:  # small selections are often near each other
            self._source._remember(self._starts[0], self._parts[0])
        self._starts, self._parts = [], []


def coalesced(extents: Iterable[Extent]) -> list[Extent]:
    """Return the runs to fetch for `extents`: ascending, with gaps that are not worth a request."""
    runs: list[Extent] = []
    for offset, nbytes in sorted(extents):
        stop = offset + nbytes
        if runs:
            start, length = runs[-1]
            end = start + length
            joined = max(end, stop) - start
            if offset <= end + MAX_GAP_NBYTES and (joined <= MAX_RUN_NBYTES or stop <= end):
                runs[-1] = (start, joined)
                continue
        runs.append((offset, nbytes))
    return runs
