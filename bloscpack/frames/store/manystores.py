"""Several frame stores as one source of clips.

A large set may be split over several files, which are opened together. Ids are looked up in one
table, and one batch reads from all files. Only a limited number of files is open at a time.
"""

import os
import stat
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np

from ...array.attrs import read_only
from ...exceptions import NotFoundError
from ...keywords import explain_keywords
from ...parallel.threads import run_indexed
from ...storage.coalescing import MAX_REQUESTS
from ...storage.file import open_source
from ...storage.pool import MAX_OPEN_FILES, FilePool
from ...storage.protocol import ByteSource
from ...storage.remote.source import may_wait, path_of
from ...storage.url import is_url, shown_name
from ...types import AnyArray
from ..protocol import Batch, ClipMapping, Wanted, read_batch
from .clip import StoreClip
from .format import hash_of, pack_id
from .framestore import ATTRS_ADVICE, FrameStore

_State = tuple[int, bytes]


class _Tables(NamedTuple):
    """Tables of all files."""

    stores: tuple[FrameStore, ...]  # one store per file
    # uint64: hashes of all ids, ascending; uint32: the ordinal of the store that has each.
    hashes: AnyArray
    numbers: AnyArray

    def candidates(self, id_: str) -> Iterator[FrameStore]:
        """Yield the stores that have a clip with the hash of this id, usually one or none."""
        hash_ = np.uint64(hash_of(pack_id(id_)))
        place = int(np.searchsorted(self.hashes, hash_))
        while place < len(self.hashes) and self.hashes[place] == hash_:
            yield self.stores[int(self.numbers[place])]
            place += 1


class ManyStores(ClipMapping[StoreClip]):
    """Several frame stores as one, with their clips in the order of the files.

    Returned by `bloscpack.frames.open` for a list of paths.

    Parameters
    ----------
    paths : sequence of str, PathLike, bytes-like or binary file
        Stores to open.
    verify : bool, default True
        Compare the checksum of each chunk when it is read.
    nthreads : int, optional
        Decoding threads.
    exact : bool, default False
        Decode JPEG images by the exact transform.
    max_open : int, default 64
        Largest number of files open at a time.

    Attributes
    ----------
    name : str
        The first path, and the number of further paths.
    names : list of (str or None)
        The paths as they were given; None for bytes.

    Raises
    ------
    ValueError
        Two files have clips with the same id, or `paths` is empty.
    FormatError, UnsupportedError, OSError
        A file is not a frame store, is damaged or cannot be opened; the message names it.

    Notes
    -----
    All indices are read at once, so duplicate ids are found before anything else happens. Threads
    and forked children may share a handle. It pickles as the places of its files, like a
    `FrameStore`; the files are opened again on first use.
    """

    @explain_keywords()
    def __init__(
        self,
        paths: Sequence[Any],
        *,
        verify: bool = True,
        nthreads: int | None = None,
        max_open: int = MAX_OPEN_FILES,
        storage_options: Mapping[str, Any] | None = None,
        exact: bool = False,
    ) -> None:
        if isinstance(paths, str | bytes | os.PathLike):
            raise TypeError(f"paths must be a list, not {type(paths).__name__}")
        if max_open < 1:
            raise ValueError(f"max_open must be at least 1, not {max_open}")
        self._set(list(paths), None, verify, nthreads, max_open, exact, storage_options)
        if not self._places:
            raise ValueError("paths is empty: at least one path is needed")
        self._load()

    def _set(
        self,
        places: list[Any],
        states: list[_State] | None,
        verify: bool,
        nthreads: int | None,
        max_open: int,
        exact: bool,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._places, self._states = places, states
        self._storage_options = storage_options
        self.verify, self.nthreads, self.exact = verify, nthreads, exact
        self._pool = FilePool(max_open)
        self._max_open = max_open
        self._tables: _Tables | None = None
        self._is_open = True
        self.names = [_name_of(place) for place in places]
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        self.name: str | None = f"{self.names[0] or 'memory'}{more}" if places else None

    def _load(self) -> _Tables:
        """Return the tables of the files, which are opened if necessary."""
        tables = self._tables
        if not self._is_open:
            raise ValueError("I/O operation on closed frame stores")
        if tables is None:
            tables = self._tables = self._open_all()
        return tables

    def _open_all(self) -> _Tables:
        states: Sequence[_State | None] = self._states or [None] * len(self._places)
        opened: dict[int, FrameStore] = {}

        def look(number: int) -> None:
            source = self._open_source(self._places[number])
            opened[number] = FrameStore._over(
                source,
                states[number],
                verify=self.verify,
                nthreads=self.nthreads,
                exact=self.exact,
            )
            source.check_when_grown(opened[number]._check_kept)

        try:
            nthreads = MAX_REQUESTS if any(map(may_wait, self._places)) else 1
            run_indexed(look, range(len(self._places)), nthreads)
            return _build_tables([opened[number] for number in range(len(self._places))])
        except BaseException:
            for store in opened.values():
                store.close()
            raise

    def _open_source(self, place: Any) -> ByteSource:
        is_path = isinstance(place, str | os.PathLike) and not is_url(place)
        # The pool closes and reopens files by path, which only regular files survive.
        if is_path and stat.S_ISREG(os.stat(place).st_mode):
            return self._pool.open(place)
        return open_source(place, self._storage_options if is_url(place) else None)

    @property
    def closed(self) -> bool:
        """Whether the files are closed."""
        return not self._is_open

    @property
    def stores(self) -> tuple[FrameStore, ...]:
        """Single stores; `close` closes them, too."""
        return self._load().stores

    @property
    def nframes(self) -> int:
        """Number of frames in all clips."""
        return sum(store.nframes for store in self.stores)

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values that all files have alike; read-only."""
        first, *others = (store.attrs for store in self.stores)
        shared = {
            name: value
            for name, value in first.items()
            if all(name in each and each[name] == value for each in others)
        }
        return read_only(shared, ATTRS_ADVICE)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Attributes that not all files have alike, as short texts."""
        names, shared = dict.fromkeys(chain(*(each.attrs for each in self.stores))), self.attrs
        lost = [name for name in names if name not in shared]
        return tuple(f"attribute {name!r:.80}, which the files do not have alike" for name in lost)

    def _ids(self) -> "ManyIds":
        return ManyIds([store._ids() for store in self.stores])

    def __len__(self) -> int:
        return len(self._load().hashes)

    def __contains__(self, key: object) -> bool:
        tables = self._load()
        return isinstance(key, str) and any(key in each for each in tables.candidates(key))

    def __getitem__(self, key: str) -> StoreClip:
        """Return a clip, without decoding any frame.

        Raises
        ------
        NotFoundError
            No clip in any file has this id.
        FormatError
            The index is damaged.
        """
        if not isinstance(key, str):
            raise TypeError(f"an id must be a str, not {type(key).__name__}")
        for store in self._load().candidates(key):
            with suppress(NotFoundError):  # another id has the same hash
                return store[key]
        raise NotFoundError(f"no clip {key!r:.80} among {len(self)}").at(path=self.name)

    def _read(self, clips: Sequence[Wanted], out: Any, nthreads: int | None) -> Batch:
        nthreads = self.nthreads if nthreads is None else nthreads
        return read_batch(clips, out=out, nthreads=nthreads)

    def refresh(self) -> None:
        """Read the current state of all files, as `FrameStore.refresh` does.

        Raises
        ------
        ValueError
            Two files now have clips with the same id; nothing was changed.
        FileChangedError
            A file was replaced: open the files again.
        """
        stores = self._load().stores
        before = [dict(vars(store)) for store in stores]
        try:
            for store in stores:
                store.refresh()
            self._tables = _build_tables(stores)
        except BaseException:
            # `keys` reads the stores, and all else the tables: both are new, or neither.
            for store, state in zip(stores, before, strict=True):
                vars(store).update(state)
            raise

    def close(self) -> None:
        """Close the files; idempotent."""
        self._is_open = False
        tables, self._tables = self._tables, None
        for store in tables.stores if tables else ():
            store.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the places and the identities of the files."""
        stores = self._load().stores
        places, states = [each._place() for each in stores], [each._state for each in stores]
        options = self.verify, self.nthreads, self._max_open, self.exact
        return _reopen, (places, states, *options)

    def __repr__(self) -> str:
        if self._tables is None:
            state = "not opened yet" if self._is_open else "closed"
        else:
            state = f"{len(self)} clips"
        return f"<bloscpack.frames.ManyStores of {len(self._places)} files, {state}>"


class ManyIds(Sequence[str]):
    """Ids of several stores, one store after the other."""

    __slots__ = ("_ends", "_parts")

    def __init__(self, parts: list[Sequence[str]]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: Any) -> Any:
        """Return an id, or a list of ids."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        part = bisect_right(self._ends, number)
        return self._parts[part][number - (self._ends[part - 1] if part else 0)]

    def __iter__(self) -> Iterator[str]:
        for part in self._parts:
            yield from part

    def __contains__(self, key: object) -> bool:
        return any(key in part for part in self._parts)


def _name_of(place: Any) -> str | None:
    path = path_of(place)
    return None if path is None else shown_name(path)


def _build_tables(stores: Sequence[FrameStore]) -> _Tables:
    """Return the table of the ids of all stores; ValueError if two have clips with the same id."""
    parts = [store._id_hashes() for store in stores]
    hashes = np.concatenate(parts)
    numbers = np.repeat(np.arange(len(stores), dtype=np.uint32), [len(part) for part in parts])
    order = np.argsort(hashes, kind="stable")
    hashes, numbers = hashes[order], numbers[order]
    for start in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
        if not start or hashes[start - 1] != hashes[start]:
            _check_same_hash(stores, hashes, numbers, start)
    return _Tables(tuple(stores), hashes, numbers)


def _check_same_hash(
    stores: Sequence[FrameStore], hashes: AnyArray, numbers: AnyArray, start: int
) -> None:
    """Raise if two stores share an id, among the ids of one hash; the first is at `start`."""
    stop = int(np.searchsorted(hashes, hashes[start], "right"))
    owners: dict[str, FrameStore] = {}
    for number in dict.fromkeys(numbers[start:stop].tolist()):
        store = stores[number]
        for id_ in store._ids_with(int(hashes[start])):
            if owners.setdefault(id_, store) is not store:
                names = f"{owners[id_].name or 'memory'} and in {store.name or 'memory'}"
                raise ValueError(
                    f"clip {id_!r:.80} is in {names}: files that are opened together must not "
                    "share ids"
                )


def _reopen(
    places: list[Any],
    states: list[_State],
    verify: bool,
    nthreads: int | None,
    max_open: int,
    exact: bool,
) -> ManyStores:
    """Return the pickled handle; its files are opened on first use."""
    many = ManyStores.__new__(ManyStores)
    many._set(places, states, verify, nthreads, max_open, exact)
    return many
