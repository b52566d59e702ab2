"""Output files of an ingest: a single store, or a numbered series of stores.

The files of a series ``set.blp`` are ``set-00000.blp`` and so on. A file is full when it reaches
the size limit, and only the last file grows.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Self

from ...storage import disk
from ..store.frameencoding import EncodedClip, Options
from ..store.framestore import FrameStore
from ..store.writer import StoreWriter

_DIGITS = 5


class Series:
    """Stores that together hold the clips; the last one is appended to. A context manager.

    `options` and `attrs` are those of new files. With `max_nbytes` it is a series: a file is full
    once it has this many bytes. `resume` appends to existing files, `overwrite` replaces them when
    all new ones are whole; without either they are refused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: Options,
        attrs: Mapping[str, Any] | None,
        *,
        max_nbytes: int | None,
        resume: bool,
        overwrite: bool,
        locking: bool = True,
    ) -> None:
        disk.target_of(path)  # refuses a name with a slash at its end
        self._path = os.fspath(path)
        self._max_nbytes = max_nbytes
        self._locking = locking
        self._full: list[FrameStore] = []
        # Files to remove when the new ones are whole; None unless files are replaced.
        self._stale: list[str] | None = None
        self._next_number = 0
        self.paths = self._existing()
        if self.paths and not (resume or overwrite):
            raise FileExistsError(f"{self.paths[0]!r} exists already")
        other = self._numbered(0) if max_nbytes is None else self._path
        if not self.paths and os.path.lexists(other):
            how = "with" if max_nbytes is None else "without"
            raise FileExistsError(
                f"{other!r} exists, so that the clips would be in two places: add to it, {how} "
                "max_bytes (--max-bytes), or give another name"
            )
        try:
            self._last = self._start(options, attrs, overwrite=overwrite)
        except BaseException:
            self._close_full()
            raise

    def _start(
        self, options: Options, attrs: Mapping[str, Any] | None, *, overwrite: bool
    ) -> FrameStore:
        """Return the store to append to."""
        self._is_new = overwrite or not self.paths
        if not self._is_new:
            for path in self.paths[:-1]:  # one by one, so that an error closes those before it
                self._full.append(FrameStore(path))
            return FrameStore(self.paths[-1], "a", locking=self._locking)
        if self.paths:
            self._stale, self.paths, self._next_number = self.paths, [], 0
        return self._create(options, attrs)

    @property
    def options(self) -> Options:
        """Options of the stores."""
        return self._last._options()

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the stores."""
        return self._last.attrs

    def __contains__(self, id_: str) -> bool:
        return id_ in self._last or any(id_ in store for store in self._full)

    def append(self, id_: str, clip: EncodedClip) -> None:
        """Append a clip, to a new file if the last one is full."""
        limit = self._max_nbytes
        if limit is not None and self._last.cbytes >= limit and len(self._last):
            options, attrs = self.options, self.attrs  # all files of a series have the same
            if self._stale is None:
                self._last.close()
                self._full.append(FrameStore(self.paths[-1]))
            else:  # closing it would replace a file before all are whole
                self._last.flush()
                self._full.append(self._last)
            self._last = self._create(options, attrs)
        self._last._append_encoded(id_, clip)

    def discard(self) -> None:
        """Leave all as it was, if no clip was appended."""
        if self._stale is not None:
            self._abandon()
        elif self._is_new:
            self._last.close()
            os.remove(self.paths.pop())

    def _abandon(self) -> None:
        """Give up the files that were to replace others."""
        for store in (*self._full, self._last):
            store._open_writer().abandon()

    def flush(self) -> None:
        """Make all appended clips durable."""
        self._last.flush()

    def close(self) -> None:
        """Close all stores; appended clips are durable."""
        try:
            self._last.close()
        finally:
            self._close_full()
        for path in set(self._stale or ()) - set(self.paths):
            os.remove(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._stale is not None and any(exc):
            self._abandon()  # the old files stay
            self._stale = None
        self.close()

    def _close_full(self) -> None:
        for store in self._full:
            store.close()

    def _existing(self) -> list[str]:
        if self._max_nbytes is None:
            return [self._path] if os.path.lexists(self._path) else []
        folder, name = os.path.split(self._path)
        stem, suffix = os.path.splitext(name)
        pattern = re.compile(rf"{re.escape(stem)}-([0-9]{{{_DIGITS},}}){re.escape(suffix)}")
        found = map(pattern.fullmatch, os.listdir(folder or os.curdir))
        numbers = sorted(int(match[1]) for match in found if match)
        self._next_number = numbers[-1] + 1 if numbers else 0
        return [self._numbered(number) for number in numbers]

    def _numbered(self, number: int) -> str:
        stem, suffix = os.path.splitext(self._path)
        return f"{stem}-{number:0{_DIGITS}}{suffix}"

    def _create(self, options: Options, attrs: Mapping[str, Any] | None) -> FrameStore:
        path = self._path
        if self._max_nbytes is not None:
            path = self._numbered(self._next_number)
            self._next_number += 1
        if self._stale is None:
            store = FrameStore.create(path, **options._asdict(), attrs=attrs, locking=self._locking)
        else:
            store = FrameStore._of(
                StoreWriter.create(
                    path,
                    options.check(),
                    attrs,
                    overwrite=True,
                    locking=self._locking,
                    is_late=True,
                )
            )
        self.paths.append(path)
        return store
