"""Changing the arrays of an archive together: all changes are one commit."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Self

from ..container.changinglog import ChangingFile, ChangingLog
from ..container.members import no_member
from ..container.reader import Container
from ..exceptions import BloscpackError
from ..format.archiveindex import check_name
from ..format.metadata import encode_values
from ..notice import notice, warn_unclosed
from ..parallel.imports import importing
from ..parallel.threads import ALL_THREADS, resolve_nthreads
from ..storage.protocol import closed_on_error
from .attrs import coords_in
from .changes import ArrayChanges
from .writable import breaking


class MemberChanges(ArrayChanges):
    """Array of an archive that is changed: the archive is committed as a whole.

    Attributes
    ----------
    handle : Array or None
        The open array that users change it by.
    owns : bool
        Whether it closes the archive, too.
    """

    def __init__(
        self, file: ChangingFile, path: str, archive: "ArchiveChanges", *, nthreads: int | None
    ) -> None:
        super().__init__(file, path, nthreads=nthreads)
        self.archive = archive
        self.handle: Any = None
        self.owns = False

    def stage(self) -> None:
        """Write all changes, uncommitted."""
        super().flush()

    def flush(self) -> None:
        """Commit all changes of the archive."""
        self.archive.flush()

    @contextmanager
    def _changes(self) -> Iterator[None]:
        """Note that the array changes; after a failure, no array of the archive can be changed."""
        with breaking(self.archive), super()._changes():
            yield

    def close(self) -> None:
        """Do nothing, as the archive is committed and closed as a whole."""
        if self.owns:
            self.archive.close()

    def abandon(self) -> None:
        """Let the archive return to the last flush, as changes of this array may be incomplete."""
        if self.owns:
            self.archive.abandon()
        else:
            self.archive.fail()

    def release(self) -> None:
        """Refuse all further use."""
        self._is_open = False
        self._held, self._written = {}, {}
        if self.handle is not None and not self.owns:
            self.handle.close()

    def __del__(self) -> None:
        """Do nothing: an archive that is not closed says so itself."""


class ArchiveChanges:
    """Archive whose arrays are changed, added, removed and renamed.

    Attributes
    ----------
    log : ChangingLog
        The file; the names of its arrays in order.
    path : str
        Path of the file.
    attrs : dict
        Attrs of the archive, which may be changed in place.
    """

    def __init__(self, log: ChangingLog, path: str, *, nthreads: int | None) -> None:
        self._is_open = False  # until everything is known
        self.log = log
        self.path = path
        self._nthreads = nthreads
        self.is_broken = False
        self.attrs = log.read_attrs()
        self._committed = encode_values(self.attrs, "attrs")
        self._changes: dict[str, MemberChanges] = {}
        self._is_open = True

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        nthreads: int | None = None,
        locking: bool = True,
        keep: int | None = None,
    ) -> Self:
        """Open and lock an archive; raises as `ChangingLog.open` does."""
        log = ChangingLog.open(path, is_archive=True, locking=locking, keep=keep)
        with closed_on_error(log, os.fspath(path)):
            return cls(log, os.fspath(path), nthreads=nthreads)

    def changes(self, name: str) -> MemberChanges:
        """Return an array for changes.

        Raises
        ------
        NotFoundError
            No array has this name.
        """
        with self._alone():
            self._check_name(name)
            found = self._changes.get(name)
            if found is None:
                path = f"{self.path}::/{name}"
                found = self._changes[name] = MemberChanges(
                    self.log.array(name), path, self, nthreads=self._nthreads
                )
            return found

    def has_statistics(self, name: str) -> bool:
        """Return whether there is an array of this name with the statistics of its chunks."""
        with self._alone():
            return name in self.log and self.log.read(name).stored.has_statistics

    def put(self, name: str, container: Container) -> None:
        """Add an array, or replace one, which keeps its place."""
        with self._alone(), breaking(self):
            self.log.put(check_name(name), container)
            self._forget(name)

    def remove(self, name: str) -> None:
        """Remove an array; raises NotFoundError without one of this name."""
        with self._alone():
            self._check_name(name)
            labels = self._coords_with(name)
            with breaking(self):
                self.log.remove(name)
                self._forget(name)
                for coords, key in labels:
                    del coords[key]

    def rename(self, old: str, new: str) -> None:
        """Give an array another name; it keeps its place.

        Raises
        ------
        NotFoundError
            No array has the name `old`.
        ValueError, TypeError
            Another array has the name `new`, or it cannot be a name.
        """
        with self._alone():
            self._check_name(old)
            if check_name(new) == old:
                return
            if new in self.log:
                raise ValueError(f"there is an array {new!r:.80} already")
            labels = self._coords_with(old)
            with breaking(self):
                self.log.rename(old, new)
                for coords, key in labels:
                    coords[key] = {"array": new}
            if old in self._changes:
                self._changes[new] = self._changes.pop(old)

    def is_coordinate(self, name: str) -> bool:
        """Return whether there is an array of this name that is a coordinate of others."""
        with importing:  # on use: few changes are of names
            from .axislabels import COORDINATE

        with suppress(BloscpackError, ImportError):  # it is damaged, or of an unknown type
            return self.changes(name).attrs.get(COORDINATE) is True
        return False

    def _coords_with(self, name: str) -> list[tuple[dict[str, Any], str]]:
        """Return (coords, key) of the attrs of all arrays that have the coordinate `name`."""
        found: list[tuple[dict[str, Any], str]] = []
        if self.is_coordinate(name):
            for each in self.log:
                with suppress(BloscpackError, ImportError):
                    coords = coords_in(self.changes(each).attrs)
                    found += [(coords, k) for k, v in coords.items() if v == {"array": name}]
        return found

    def _check_name(self, name: Any) -> None:
        if name not in self.log:
            raise no_member(name, [*self.log], self.path)

    def _forget(self, name: str) -> None:
        """Close the handle of an array that is gone."""
        if name in self._changes:
            self._changes.pop(name).release()

    def flush(self) -> None:
        """Make all changes durable by one commit; does nothing without changes."""
        with self._alone():
            attrs = encode_values(self.attrs, "attrs")  # raises before any change
            with breaking(self):
                arrays = [*self._changes.values()]
                ArrayChanges.write_held(arrays, resolve_nthreads(self._nthreads, ALL_THREADS))
                for array in arrays:
                    array.stage()
                if attrs != self._committed:
                    self.log.set_attrs(self.attrs)
                self.log.commit()
            self._committed = attrs
            for array in self._changes.values():
                if array.handle is not None:
                    array.handle._is_seen = False  # it reads the file as of an older state

    def fail(self) -> None:
        """Refuse further changes, which `close` forgets."""
        self.is_broken = True

    def close(self) -> None:
        """Flush and close; idempotent. After a failed change, return to the last flush instead."""
        with self._lock():
            if not self._is_open:
                return
            broken = self.is_broken or any(each.is_broken for each in self._changes.values())
            try:
                if self.log.is_mine and not broken:
                    self.flush()
                elif self.log.is_mine:
                    notice("%s: a change failed; those since the last flush are lost", self.path)
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close without flushing."""
        with self._lock():
            self._is_open = False
            for array in self._changes.values():
                array.release()
            self.log.close()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False) and self.log.is_mine:
            outcome = "the file is as of the last flush, and changes since are lost"
            try:
                warn_unclosed("archive", self.path, outcome, self)
            finally:
                self.abandon()

    def _lock(self) -> Any:
        # A thread that a forked child does not have may hold its copy of the lock.
        return self.log.lock if self.log.is_mine else nullcontext()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the open file."""
        self.log.check_mine()
        with self.log.lock:
            if not self._is_open:
                raise ValueError("I/O operation on a closed bloscpack.Archive: open the file again")
            yield


def make_changeable(path: Any) -> None:
    """Make a log of a new archive."""
    file = ArchiveChanges.open(path)
    with closed_on_error(file):
        file.log.begin()
    file.close()
