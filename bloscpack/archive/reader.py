"""Reader of an archive: the index on opening, a member when it is named."""

import io
import operator
import os
from collections.abc import Iterator, Mapping, MutableMapping
from typing import IO, TYPE_CHECKING, Any, Literal, Self, cast

from xxhash import xxh3_128_digest

from ..array.array import Array, check_versions
from ..array.attrs import read_only
from ..array.fileplan import plan_file, without_labels
from ..array.layout import SaveOptions
from ..container.front import Verify
from ..container.identity import place_of, reopened
from ..container.members import Members, first_names, read_attrs, read_members
from ..container.reader import Container
from ..format.archiveindex import check_name
from ..format.metadata import attr_values
from ..parallel.imports import importing
from ..storage.file import open_source
from ..storage.protocol import ByteSource, Extent, closed_on_error, errors_at
from ..storage.remote.prefetch import prefetched
from ..storage.sink import open_sink
from ..storage.url import refuse_url
from ..storage.window import HEAD_NBYTES
from ..types import Path

if TYPE_CHECKING:
    from ..array.archivechanges import ArchiveChanges

# Size of a new array that is held in memory until it is copied to the file.
_SPOOL_NBYTES = 64 << 20
_ADVICE = "open it with mode 'r+' to change it"


class Archive(MutableMapping[str, Array]):
    """Several named arrays in one file, each read when it is indexed, that can be changed.

    `bloscpack.open` returns it for a file that `bloscpack.savez` has written.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file or its URL; in mode "r+" its path.
    mode : {"r", "r+"}, default "r"
        Read; or read and change everything, which allows only one handle at a time.
    verify : bool or "always", default True
        As for `bloscpack.open`.
    nthreads : int, optional
        Threads that decode; by default one per processor, at most 8.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL.
    locking : bool, default True
        Lock the file in mode "r+", as for `bloscpack.open`.
    version : int, default -1
        Version to read, as for `bloscpack.open`.
    keep : int, optional
        How many versions before the newest are kept (mode "r+"), as for `bloscpack.open`.

    Raises
    ------
    WrongKindError
        The file is of another type; the message names the function that reads it.
    FormatError, UnsupportedError
        The file is damaged or of an unknown version; or mode is "r+" with a URL.
    LockedError
        Another writer has the file open (mode "r+").
    OSError
        The file cannot be opened.

    Notes
    -----
    A mapping of names to arrays, in the order in which they were saved. ``archive[name]`` returns a
    new `Array`, which reads from the archive's file: after `close`, it cannot be read any more.
    Threads and forked children may share an archive. A pickle has the path of the file, and not
    its content; reopening a file that has changed raises `FileChangedError`.

    Opening a URL makes one request if the file has at most 64 KiB, else two; a long index takes one
    more. Opening an array takes one more, unless it was fetched with the one before it.

    In mode "r+", arrays can be added, replaced, deleted and renamed, and ``archive[name]`` is an
    array that can be changed, the same object each time. All changes, also of `attrs`, are one
    commit at `flush` or `close`, or at `flush` of any of the arrays; closing an array alone commits
    nothing. If the block of a ``with`` statement ends by an exception, also that of an array,
    nothing since the last `flush` is written. The file becomes a log at its first change;
    `bloscpack.compact` makes the file of `savez` again.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.savez("fields.blp", temperature=np.linspace(270, 300, 7), mask=np.ones((2, 3), bool))
    >>> with bp.Archive("fields.blp") as fields:
    ...     list(fields), fields["temperature"][-2:]
    (['temperature', 'mask'], array([295., 300.]))
    >>> with bp.Archive("fields.blp", "r+") as fields:
    ...     del fields["mask"]
    ...     fields["temperature"].append([305.0])
    ...     fields["depth"] = np.zeros(3)
    >>> list(bp.Archive("fields.blp"))
    ['temperature', 'depth']
    """

    def __init__(
        self,
        path: Any,
        mode: Literal["r", "r+"] = "r",
        *,
        verify: Verify = True,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        locking: bool = True,
        version: int = -1,
        keep: int | None = None,
    ) -> None:
        if verify not in (True, False, "always"):
            raise ValueError(f"verify must be True, False or 'always', not {verify!r}")
        if mode not in ("r", "r+"):
            raise ValueError(f"mode must be 'r' or 'r+' for an archive, not {mode!r}")
        check_versions(mode, version, keep)
        self._verify: Verify = verify
        self._nthreads = nthreads
        self._is_open = True
        self._attrs: dict[str, Any] | None = None
        self._changes: ArchiveChanges | None = None
        self._version = operator.index(version)
        if mode == "r+":
            refuse_url(path, "changed", storage_options)
            self._changes = _open_changes(path, nthreads, locking, keep)
        else:
            self._open(open_source(path, storage_options), self._version)

    def _open(self, source: ByteSource, version: int) -> None:
        with closed_on_error(source, source.name):
            self._members = read_members(source, version)
        tag = source.identity() or ("" if self._members.commit else str(source.stamp))
        self._identity = xxh3_128_digest(tag.encode() + self._members.state)

    @property
    def name(self) -> str | None:
        """Path or URL, as passed by the caller; None for bytes."""
        return self._members.source.name if self._changes is None else self._changes.path

    @property
    def mode(self) -> str:
        """Mode of the handle: "r" or "r+"."""
        return "r" if self._changes is None else "r+"

    @property
    def cbytes(self) -> int:
        """Size of the file in bytes."""
        if self._changes is not None:
            return self._changes.log.size()
        return self._opened_members().source.size()

    @property
    def dead_nbytes(self) -> int | None:
        """Bytes of the file that no array uses any more; None if the file was never changed."""
        if self._changes is not None:
            return self._changes.log.dead_nbytes
        commit = self._members.commit
        return None if commit is None else commit.dead

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values stored with the archive; each array has attrs of its own."""
        if self._changes is not None:
            return self._changes.attrs
        if self._attrs is None:
            with errors_at(self.name):
                attrs, _ = read_attrs(self._opened_members().front)
            self._attrs = read_only(attrs, _ADVICE)
        return self._attrs

    @attrs.setter
    def attrs(self, attrs: Mapping[str, Any]) -> None:
        self._changing().attrs = attr_values(attrs)

    if not TYPE_CHECKING:  # type checkers know that there are no others

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, which says how an array of the name is had."""
            advice = f": use archive[{name!r}]" if name[0] != "_" and name in self else ""
            raise AttributeError(f"'Archive' object has no attribute {name!r}{advice}")

    def __getitem__(self, name: str) -> Array:
        """Return an array.

        Raises
        ------
        NotFoundError
            No array has this name (a KeyError).
        FormatError, UnsupportedError
            Its file is damaged.
        """
        if self._changes is not None:
            changes = self._changes.changes(name)
            if changes.handle is None or not changes.handle._is_open:
                changes.handle = Array(changes, "r+", verify=self._verify, nthreads=self._nthreads)
            return changes.handle  # type: ignore[no-any-return]
        member = self._opened_members().open(name)
        return Array(member, verify=self._verify, nthreads=self._nthreads)

    def _open_all(self, names: list[str]) -> dict[str, Array]:
        """Return arrays by their names; what opening them reads is fetched at once."""
        if self._changes is not None:
            return {name: self[name] for name in names}
        members = self._opened_members()
        fetched: set[int] = set()

        def head_of(name: str) -> Extent | None:
            if members.commit is not None:  # arrays of a log are in pages that are read already
                return None
            part = members.named[name].part
            if part.at in fetched:  # a bundle
                return None
            fetched.add(part.at)
            return part.offset, min(part.nbytes, HEAD_NBYTES)

        groups = prefetched(members.source, names, head_of)
        return {name: self[name] for group in groups for name in group}

    def __setitem__(self, name: str, array: Any) -> None:
        """Add an array, or replace one, in mode "r+"; its place is the last, or that of the old.

        An `Array` that is open for reading is copied with its chunks as stored. Any other value is
        saved as by `save`, with statistics if the old array has them, and with the attrs of an old
        array that is a coordinate of others. Handles of the old array are closed.

        Raises
        ------
        TypeError
            The mode is not "r+", or the value is not an array or has parts that would be lost.
        ValueError
            The name has more than 4096 bytes.
        """
        self._put(name, array, {})

    def _put(self, name: str, array: Any, options: SaveOptions) -> None:
        changes = self._changing()
        check_name(name)
        if not isinstance(array, Array) and changes.has_statistics(name):
            options = {**options, "stats": True}
        array, options = without_labels(array, options)
        if not (isinstance(array, Array) or "attrs" in options) and changes.is_coordinate(name):
            options = {**options, "attrs": dict(changes.changes(name).attrs)}
        plan = plan_file(array, options, several=True)
        folder = os.path.dirname(os.path.realpath(changes.path))
        with importing:  # on use: few programs change files
            from tempfile import SpooledTemporaryFile
        # Chunks are copied from it to the archive under the lock.
        with SpooledTemporaryFile(_SPOOL_NBYTES, dir=folder) as spool:
            with open_sink(cast(IO[bytes], spool)) as sink:
                plan.write(sink, nthreads=self._nthreads)
            with Container.open(open_source(spool)) as container:
                changes.put(name, container)

    def __delitem__(self, name: str) -> None:
        """Remove an array, in mode "r+"; handles of it are closed.

        If it is a coordinate, the arrays that have it lose it.

        Raises
        ------
        NotFoundError
            No array has this name (a KeyError).
        TypeError
            The mode is not "r+".
        """
        self._changing().remove(name)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove an array, and return a copy of it in memory; mode "r+".

        Parameters
        ----------
        name : str
            Its name.
        default : optional
            Value to return if no array has this name; without it that is an error.
        """
        self._changing()
        if default and name not in self:
            return default[0]
        held = io.BytesIO()
        with open_sink(held) as sink:
            plan_file(*without_labels(self[name], {})).write(sink, nthreads=self._nthreads)
        del self[name]
        return Array(held.getvalue(), verify=self._verify, nthreads=self._nthreads)

    def popitem(self) -> tuple[str, Array]:
        """Remove the first array, and return its name and a copy of it in memory; mode "r+"."""
        for name in self:
            return name, self.pop(name)
        raise KeyError("the archive has no arrays")

    def clear(self) -> None:
        """Remove all arrays; mode "r+"."""
        for name in list(self):
            del self[name]

    def rename(self, old: str, new: str) -> None:
        """Give an array another name, in mode "r+"; it keeps its place.

        Arrays of which it is a coordinate keep it.

        Raises
        ------
        NotFoundError
            No array has the name `old` (a KeyError).
        TypeError, ValueError
            The mode is not "r+", another array has the name `new`, or it is too long.
        """
        self._changing().rename(old, new)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in order."""
        return iter(self._members.named if self._changes is None else [*self._changes.log])

    def __len__(self) -> int:
        """Return the number of arrays."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Return whether an array has this name, without opening it."""
        return name in (self._members.named if self._changes is None else self._changes.log)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names, for completion in IPython and notebooks."""
        return list(self)

    # Those of `Mapping` would read all arrays.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Return the path and the first names."""
        state = "" if self._is_open else " (closed)"
        return (
            f"<bloscpack.Archive {self.name or 'memory'!r}: {len(self)} arrays, "
            f"{first_names([*self])}{state}>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the arrays for notebooks."""
        with importing:
            from ..display.notebook import archive_card
        return archive_card(self)

    def to_dataframe(self) -> Any:
        """Return the arrays as the columns of a DataFrame of pandas, in memory.

        All arrays have one axis of the same length. Their coordinate along it is the index, whose
        name is that of the axis, without a name if that is "index"; without one, rows are numbered.
        The attrs of the archive are those of the table, and attrs of arrays are left out.

        Raises
        ------
        UnsupportedError
            An array is not a column: of more axes, another index, or encoded items.
        FormatError, ImportError
            The file is damaged, or pandas is not installed.
        """
        with importing:  # on use: few programs have tables
            from .table import to_dataframe
        return to_dataframe(self, self.attrs)

    def flush(self) -> None:
        """Make all changes durable by one commit, in mode "r+"; does nothing without changes."""
        self._changing().flush()

    def refresh(self) -> None:
        """Move on to the state that a writer has committed since the file was opened.

        An archive that was opened at a version by its number stays at it.
        Arrays that were opened before keep their state, and have a method `refresh` of their own.

        Raises
        ------
        FormatError, OSError
            The file that now has the name is damaged or not an archive, or does not exist.
        """
        if self._changes is None and self._version == -1:
            source = self._opened_members().source
            again = source.replacement() or source.reopened()
            if again is not None:
                # The earlier source is not closed, as arrays may be reading from it.
                self._open(again, -1)
                self._attrs = None

    def close(self) -> None:
        """Write all changes and close the file; idempotent. Its arrays cannot be read any more."""
        self._is_open = False
        if self._changes is None:
            self._members.source.close()
        else:
            self._changes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is not None and self._changes is not None:
            self._changes.abandon()
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location and identity of the file, not its content."""
        if self._changes is not None:
            raise TypeError(
                "an archive open for changes cannot be pickled or copied: open it by its path"
            )
        members = self._opened_members()
        number = -1 if members.commit is None else members.commit.sequence
        options = self._verify, self._nthreads, number, self._version
        return _reopen, (place_of(members.source), self._identity, *options)

    def _opened_members(self) -> Members:
        if not self._is_open:
            raise ValueError("I/O operation on a closed bloscpack.Archive: open the file again")
        return self._members

    def _changing(self) -> "ArchiveChanges":
        if self._changes is None:
            raise TypeError(f"the file is not open for changes: {_ADVICE}")
        return self._changes


def _open_changes(
    path: Any, nthreads: int | None, locking: bool, keep: int | None
) -> "ArchiveChanges":
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"mode 'r+' needs a path, not {type(path).__name__!r}")
    with importing:  # on use: most programs only read
        from ..array.archivechanges import ArchiveChanges

    return ArchiveChanges.open(path, nthreads=nthreads, locking=locking, keep=keep)


def open_parts(path: Path) -> Archive:
    """Open an archive to remove and rename its arrays."""
    return Archive(path, "r+")


def _reopen(place: Any, identity: bytes, *options: Any) -> Archive:
    """Reopen a pickled archive; raises as `reopened` does."""
    return reopened(Archive, lambda archive: archive._identity, place, identity, *options)
