"""Open files of a page: found by ordinal, opened on first use, with bounded caches."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from ..plugin import (
    FileType,
    Place,
    Report,
    closed_on_error,
    identify_known,
    open_identified,
)

Value = TypeVar("Value")


class Cache:
    """Values by key, of a bounded total size; those used last are kept."""

    def __init__(self, max_nbytes: int) -> None:
        self._max_nbytes = max_nbytes
        self._nbytes = 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """Return the value of a key; if it is new, make it. Two threads may make the same."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                kept: Value = found[0]
                return kept
        value = make()
        nbytes = size(value)
        with self._lock:
            if key not in self._values and nbytes <= self._max_nbytes:
                self._values[key] = value, nbytes
                self._nbytes += nbytes
                self._trim()
        return value

    def _trim(self) -> None:
        while self._nbytes > self._max_nbytes:
            self._nbytes -= self._values.popitem(last=False)[1][1]


class ViewedFile:
    """One of the files of a page.

    Attributes
    ----------
    name : str
        Path or URL without secrets, for people.
    report : Report or None
        Result of the last verification.
    """

    def __init__(self, place: Place, ordinal: int, cache: Cache, nthreads: int | None) -> None:
        self.place = place
        self.ordinal = ordinal
        self.name = place.shown
        self.nthreads = nthreads
        self.report: Report | None = None
        self._cache = cache
        self._lock = Lock()
        self._filetype: FileType | None = None
        self._opened: Any = None

    @property
    def filetype(self) -> FileType:
        """Row of the table of file types."""
        if self._filetype is None:
            filetype, source = self.identify()
            source.close()
            self._filetype = filetype
        return self._filetype

    def identify(self) -> tuple[FileType, Any]:
        """Open the file again and return its type; NotBloscpackError if it is of another type."""
        return identify_known(self.place)

    def open(self) -> Any:
        """Return an `Array`, an `Archive` or a `FrameSource`, opened by the first caller."""
        with self._lock:
            if self._opened is None:
                filetype, source = self.identify()
                with closed_on_error(source, self.name):
                    self._opened = open_identified(filetype, source, nthreads=self.nthreads)
                self._filetype = filetype
            return self._opened

    def cached(
        self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]
    ) -> Value:
        """Return a value of this file from the cache of the page, or make it."""
        return self._cache.get((self.ordinal, key), make, size)

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()


class Session:
    """Files of a page.

    Parameters
    ----------
    places : list of Place
        Those that the command line names.
    nthreads : int, optional
        Threads that decode for one request; by default one per processor, at most 8.
    """

    MAX_CACHED_NBYTES = 64 << 20

    def __init__(self, places: list[Place], *, nthreads: int | None = None) -> None:
        cache = Cache(self.MAX_CACHED_NBYTES)
        self.files = [
            ViewedFile(place, ordinal, cache, nthreads) for ordinal, place in enumerate(places)
        ]

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()
