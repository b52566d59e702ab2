"""Changing the items, the shape and the attrs of an array in a file.

A selection is cut into pieces by chunk, as for reading (`chunkpieces.py`). Chunks that change are
read, verified and decoded once, and changed in memory; those that are covered as a whole are not
read. They are compressed and written when they are more than 64 MiB, and on commit. What is
written before a commit lies where nothing is in use, and is forgotten on an error.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from math import prod
from typing import Any, Self

import numpy as np

from ..container.appender import params_of
from ..container.blocks import MIN_SAMPLED_NBYTES, with_quick_level
from ..container.changinglog import ChangingFile, pack_front
from ..container.front import Verify
from ..container.reader import Container
from ..container.writer import Chunking, Encoded, encode_chunk
from ..exceptions import FormatError, UnsupportedError
from ..format.chunkgrid import ChunkGrid
from ..format.codec import CodecParams
from ..format.header import UNKNOWN
from ..parallel.threads import ALL_THREADS, map_ordered, resolve_nthreads
from ..storage.protocol import closed_on_error
from ..types import AnyArray
from .arraylike import as_array
from .arraymetadata import describe_content, statistics_type
from .chunkpieces import GridPieces, Piece, cross, pieces, runs
from .dtype import cast_exactly, is_rounded
from .gather import Names, field_names, landing_run, strided
from .layout import checked_shape
from .selection import Sides, parse_selection
from .writable import WritableArray, breaking

# Decoded size of the changed chunks that are held in memory, and of those that are written.
_HELD_NBYTES, _WRITTEN_NBYTES = 64 << 20, 16 << 20


class ArrayChanges(WritableArray):
    """Array in a file whose items change; takes ownership of `file`."""

    is_broken = False

    def __init__(self, file: ChangingFile, path: str, *, nthreads: int | None) -> None:
        container = file.container
        described = describe_content(container)
        params = params_of(container)  # before there is a handle that would have to be closed
        grid = container.grid
        self._chunk_size = container.chunk_size
        super().__init__(file.log, described, container.metadata, path, self._chunk_size)
        self.shape = described[1]
        itemsize = self.dtype.itemsize
        if itemsize and self._chunk_size % itemsize:
            self._is_open = False
            raise UnsupportedError(
                f"chunks of {self._chunk_size} bytes cut items of {itemsize}: save the array again"
            ).at(path=path)
        self._grid = None if grid is None else replace(grid, itemsize=itemsize)
        self._changing = file
        self._lock = file.log.lock
        self._nthreads = resolve_nthreads(nthreads, ALL_THREADS)
        items = self._item_encoder(container.header.features, self.shape)
        statistics = None
        if container.stored.has_statistics:
            statistics = statistics_type().stored(self.dtype, self._chunk_size)
        self._params = replace(params, rounding=self._rounding, items=items, statistics=statistics)
        self._header = container.header
        self._is_changed, self._committed_shape = False, self.shape
        # Decoded chunks that have changed, by index, and their size. Those that are views, of zeros
        # or of items of the caller, are replaced by a copy when they change.
        self._held: dict[int, bytearray | memoryview] = {}
        self._held_nbytes = 0
        # Those that were written and have not changed since: nothing else writes to the file.
        self._written: dict[int, bytearray] = {}
        self._written_nbytes = 0

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        nthreads: int | None = None,
        locking: bool = True,
        keep: int | None = None,
    ) -> Self:
        """Open a file of an array or of bytes; raises as `ChangingFile.open` does."""
        file = ChangingFile.open(path, locking=locking, keep=keep)
        with closed_on_error(file, os.fspath(path)):
            return cls(file, os.fspath(path), nthreads=nthreads)

    @property
    def _stored_shape(self) -> tuple[int, ...]:
        return self.shape[::-1] if self._is_fortran else self.shape

    @property
    def _nchunks(self) -> int:
        if self._grid is not None:
            return self._grid.nchunks
        nbytes = prod(self.shape) * self.dtype.itemsize
        return Chunking.of(nbytes, self._chunk_size).nchunks

    def _nbytes_of(self, index: int) -> int:
        """Return the decoded size of chunk `index`."""
        if self._grid is not None:
            return self._grid.size(index)
        nbytes = prod(self.shape) * self.dtype.itemsize
        return min(self._chunk_size, nbytes - index * self._chunk_size)

    # Items.

    def assign(self, index: Any, value: Any, *, borrow: bool = False) -> None:
        """Set a selection to `value`, as numpy would.

        With `borrow`, an array stays as it is until the changes are committed or forgotten, so that
        chunks that it covers are not copied.

        Raises
        ------
        TypeError
            The values cannot be cast to the type of the array, or are not an array.
        ValueError
            They do not fit the shape of the selection, or the type cannot hold them.
        IndexError
            The index is out of bounds.
        """
        names = field_names(index, self.dtype)
        dtype = self.dtype if names is None else self.dtype[names]
        values = self._values(value, dtype)
        try:
            chosen = parse_selection(() if names is not None else index, self.shape)
        except TypeError:
            if names is not None:
                raise
            places = _coordinates(index, self.shape)
            values = _fitting(values, places[0].shape if places else ())
            with self._alone(), self._changes():
                self._assign_at([place.reshape(-1) for place in places], values.reshape(-1))
            return
        values = _fitting(values, chosen.shape)
        if not values.nbytes:
            return
        if values.size != 1:
            spread = chosen.spread(values)
            values = chosen.spread(np.array(values, order="C")) if spread is None else spread
        else:
            values = np.broadcast_to(values.reshape(()), chosen.lengths)
        with self._alone(), self._changes():
            self._assign(chosen.sides, values, names, borrow=borrow)

    def _values(self, value: Any, dtype: "np.dtype[Any]") -> AnyArray:
        """Return `value` as an array of `dtype`, rounded as the file is."""
        value = self._without_mask(value)
        if dtype.names and not hasattr(value, "dtype"):
            return self._records(value, dtype)
        given = np.asarray(value if isinstance(value, str | bytes) else as_array(value))
        if given.dtype != dtype:
            given = _cast(given, dtype, is_array=hasattr(value, "dtype"))
        if self._rounding is not None:
            rounded = self._rounding.apply(given.tobytes())
            given = np.frombuffer(rounded, dtype).reshape(given.shape)
        return given

    def _records(self, value: Any, dtype: "np.dtype[Any]") -> AnyArray:
        """Return tuples as records, each field checked as other values are."""
        if isinstance(value, list) and {*map(type, value)} == {np.void}:
            return self._values(np.array(value), dtype)
        names = dtype.names or ()
        found = np.asarray(value, [(name, object, dtype[name].shape) for name in names])
        given = np.zeros(found.shape, dtype)
        for name in names:
            if found[name].size:
                given[name] = self._values(found[name].tolist(), dtype[name].base)
        return given

    def _assign(
        self, sides: Sides, values: AnyArray, names: Names | None, *, borrow: bool = False
    ) -> None:
        shape, grid = self._stored_shape, self._grid
        if self._is_fortran:
            sides, values = sides[::-1], values.T
        if grid is not None:
            found = GridPieces(grid.shape, grid.chunks, sides)
            for chunk in found.chunks():
                piece = found.piece(chunk)
                if piece is not None:
                    self._assign_pieces(chunk, [piece], values, names, borrow)
            return
        size, total = self._chunk_size // self.dtype.itemsize, prod(shape)
        for chunk in runs(shape, sides, size):
            start = chunk * size
            some = list(pieces(start, min(start + size, total), shape, sides))
            if some:
                self._assign_pieces(chunk, some, values, names, borrow)

    def _assign_pieces(
        self, chunk: int, found: list[Piece], values: AnyArray, names: Names | None, borrow: bool
    ) -> None:
        """Set the pieces of a selection in one chunk; `borrow` is as in `assign`."""
        itemsize = self.dtype.itemsize
        nitems = sum(prod(piece.lengths) for piece in found if piece.source is None)
        is_whole = names is None and nitems * itemsize == self._nbytes_of(chunk)
        run = landing_run(found, values) if borrow and is_whole else None
        if run is not None:
            self._hold(chunk, run.reshape(-1).view(np.uint8).data)
            self._write_if_many()
            return
        content = self._content(chunk, is_read=not is_whole)
        for piece in found:
            offset, lengths, strides, _ = strided(piece, itemsize)
            block: AnyArray = np.ndarray(lengths, self.dtype, content, offset, strides)
            target = values[cross(piece.target, values.shape)]
            source = ... if piece.source is None else cross(piece.source, piece.lengths)
            if names is None:
                block[source] = target
            else:
                for name in [names] if isinstance(names, str) else names:
                    part = target if isinstance(names, str) else target[name]
                    block[name][source] = part
        self._write_if_many()

    def _assign_at(self, places: list[AnyArray], values: AnyArray) -> None:
        """Set items by their places along each axis; of equal places, the last one counts."""
        if not values.nbytes:
            return
        if self._is_fortran:
            places = places[::-1]
        grid = self._grid
        if grid is None:
            flat = np.ravel_multi_index(tuple(places), self._stored_shape)
            chunks, inside = np.divmod(flat, self._chunk_size // self.dtype.itemsize)
        else:
            at = [place // step for place, step in zip(places, grid.chunks, strict=True)]
            chunks = np.ravel_multi_index(tuple(at), grid.counts)
            inside = np.zeros_like(chunks)
            for place, where, step, length in zip(places, at, grid.chunks, grid.shape, strict=True):
                inside = inside * np.minimum(step, length - where * step) + place - where * step
        order = np.argsort(chunks, kind="stable")
        bounds = np.flatnonzero(np.diff(chunks[order])) + 1
        for group in np.split(order, bounds):
            chunk = int(chunks[group[0]])
            content = np.frombuffer(self._content(chunk), self.dtype)
            content[inside[group]] = values[group]
            self._write_if_many()

    # Shape.

    def resize(self, shape: Any) -> None:
        """Change the shape; new items are 0.

        Raises
        ------
        TypeError, ValueError
            It is not a shape of as many axes, or the chunks do not allow it.
        """
        new = checked_shape(shape)
        if len(new) != len(self.shape):
            raise ValueError(f"shape must have {len(self.shape)} lengths, not {new}")
        stored = new[::-1] if self._is_fortran else new
        with self._alone():
            self._check_shape(stored)
            with self._changes():
                self._resize(stored)

    def append(self, rows: Any) -> None:
        """Append rows, or one row."""
        if not self.shape or not self._row_nbytes:
            raise ValueError(f"{self.dtype} of shape {self.shape} has no rows to append to")
        content = np.frombuffer(self._content_of(rows), self.dtype)
        stored = content.reshape(-1, *self._stored_shape[1:])
        with self._alone(), self._changes():
            first, rest = self._stored_shape[0], self._stored_shape[1:]
            step = max(_HELD_NBYTES // 4 // self._row_nbytes, 1)
            for start in range(0, len(stored), step):
                part = stored[start : start + step]
                at = first + start
                self._resize((at + len(part), *rest))
                sides = range(at, at + len(part)), *map(range, rest)
                values = part.T if self._is_fortran else part
                self._assign(sides[::-1] if self._is_fortran else sides, values, None)

    def _resize(self, stored: tuple[int, ...]) -> None:
        """Change the shape to `stored`, in the order of the file; `_check_shape` allows it."""
        self._written, self._written_nbytes = {}, 0
        if self._grid is not None:
            self._resize_grid(self._grid, replace(self._grid, shape=stored))
        else:
            itemsize = self.dtype.itemsize
            self._resize_run(prod(self.shape) * itemsize, prod(stored) * itemsize)
        self.shape = stored[::-1] if self._is_fortran else stored
        self._set_rows(self.shape)

    def _check_shape(self, stored: tuple[int, ...]) -> None:
        """Raise ValueError if the chunks do not allow a shape, in the order of the file."""
        if self._grid is not None:
            try:
                replace(self._grid, shape=stored).check()
            except FormatError as err:
                raise ValueError(f"the chunks do not allow the shape: {err.args[0]}") from err
        elif stored[1:] != self._stored_shape[1:]:
            axis = "last" if self._is_fortran else "first"
            raise ValueError(
                f"chunks are whole rows, so that only the {axis} axis can change; save the array "
                "with chunks that cut the other axes"
            )
        elif prod(stored) * self.dtype.itemsize > np.iinfo(np.int64).max:
            raise ValueError(f"an array of shape {stored} exceeds 2^63-1 bytes")
        elif not self._chunk_size and prod(stored) * self.dtype.itemsize:
            raise ValueError("the file was packed from nothing, without a size of chunks")

    def _resize_run(self, old: int, new: int) -> None:
        """Change the size of an array whose chunks are runs of bytes, from `old` to `new`."""
        size = self._chunk_size
        old_count, count = (Chunking.of(nbytes, size).nchunks for nbytes in (old, new))
        edge = min(old_count, count) - 1
        before, after = (min(size, nbytes - edge * size) for nbytes in (old, new))
        content = self._content(edge) if before != after else None
        log, rows = self._changing.begin()
        for index in [index for index in self._held if index >= count]:
            self._held_nbytes -= len(self._held.pop(index))
        rows.cut(min(rows.count, count), log)
        if content is not None:
            self._hold(edge, content[:after] + bytes(max(after - before, 0)))
        zeros = memoryview(bytes(min(size, new) if old_count < count else 0))
        for index in range(old_count, count):
            self._hold(index, zeros[: min(size, new - index * size)])
            self._write_if_many()

    def _resize_grid(self, old: ChunkGrid, new: ChunkGrid) -> None:
        """Move chunks to their places in another grid, and change those at the edges."""
        # Full rows of both grids stay what they are, unless other axes change.
        first = min(old.nstable, new.nstable) if new.shape[1:] == old.shape[1:] else 0
        sources: dict[int, int] = {}
        edges: dict[int, bytearray] = {}
        added: list[int] = []
        item = np.dtype((np.void, self.dtype.itemsize))
        for index in range(first, new.nchunks):
            place, lengths = new.place(index), new.lengths(index)
            source = _number(place, old.counts)
            if source is not None and old.lengths(source) == lengths:
                sources[index] = source
                continue
            if source is None:
                added.append(index)
                continue
            edges[index] = content = bytearray(new.size(index))
            if content:
                before = np.frombuffer(self._content(source), item).reshape(old.lengths(source))
                kept = tuple(map(slice, map(min, before.shape, lengths)))
                np.frombuffer(content, item).reshape(lengths)[kept] = before[kept]
        log, rows = self._changing.begin()
        held = self._held
        moved = {index: source for index, source in sources.items() if source < rows.count}
        rows.move(moved, first, new.nchunks, log)
        self._held = {index: content for index, content in held.items() if index < first}
        self._held |= {i: held[source] for i, source in sources.items() if source in held}
        self._held |= edges
        self._held_nbytes = sum(map(len, self._held.values()))
        self._grid = new
        self._write_if_many()
        for index in added:
            self._hold(index, bytearray(new.size(index)))
            self._write_if_many()

    # Chunks.

    def _content(self, index: int, *, is_read: bool = True) -> bytearray:
        """Return the decoded bytes of a chunk, which are held until they are written."""
        found = self._held.get(index)
        if isinstance(found, bytearray):
            return found
        content = self._written.get(index)
        if content is None:
            nbytes = self._nbytes_of(index)
            if not is_read:
                content = bytearray(nbytes)
            elif found is not None:
                content = bytearray(found)
            else:
                content = bytearray(self._changing.read_chunk(index, nbytes))
        self._hold(index, content)
        return content

    def _hold(self, index: int, content: bytearray | memoryview) -> None:
        self._written_nbytes -= len(self._written.pop(index, b""))
        self._held_nbytes += len(content) - len(self._held.get(index, b""))
        self._held[index] = content

    def _write_if_many(self) -> None:
        if self._held_nbytes > _HELD_NBYTES:
            self._write()

    def _write(self) -> None:
        self.write_held([self], self._nthreads)

    @staticmethod
    def write_held(arrays: "Sequence[ArrayChanges]", nthreads: int) -> None:
        """Compress and write the chunks that arrays of a file hold, uncommitted."""
        held = [(array, index) for array in arrays for index in sorted(array._held)]
        if not held:
            return
        nthreads = resolve_nthreads(nthreads, sum(array._held_nbytes for array in arrays))
        suiting = map_ordered(ArrayChanges._suiting, arrays, nthreads)
        params = dict(zip(arrays, suiting, strict=True))
        tasks = [(array, index, params[array]) for array, index in held]
        chunks = map_ordered(_encode, tasks, nthreads)
        records: list[bytes] = []

        def stored() -> Iterator[tuple[bytes, bytes]]:
            for each in chunks:
                records.append(each.statistics)
                yield each.chunk, each.digest

        log, _ = held[0][0]._changing.begin()
        for number, row in enumerate(log.add_all(stored())):
            array, index = held[number]
            array._changing.begin()[1].set(index, row, records[number], log)
        for array in arrays:
            array._set_written()

    def _set_written(self) -> None:
        """Note that all chunks that are held have been written."""
        own = {index: each for index, each in self._held.items() if isinstance(each, bytearray)}
        self._written_nbytes += sum(map(len, own.values()))
        if self._written_nbytes > _WRITTEN_NBYTES:
            self._written, self._written_nbytes = {}, 0
        else:
            self._written |= own
        self._held.clear()
        self._held_nbytes = 0

    def _suiting(self) -> CodecParams:
        """Return the parameters for the chunks that are held, which are tried if they are large."""
        if self._held_nbytes < MIN_SAMPLED_NBYTES:
            return self._params
        return with_quick_level(self._params, self._held[min(self._held)])

    def encode(self, index: int, params: CodecParams) -> Encoded:
        """Return a chunk that is held, compressed."""
        content = self._held[index]
        view = memoryview(content)
        if self._grid is not None and content:
            view = view.cast("B", (*self._grid.lengths(index), self.dtype.itemsize))
        return encode_chunk(view, params, self._header.checksum, trailer=False)

    # State.

    @contextmanager
    def _changes(self) -> Iterator[None]:
        """Note that the array changes, by a block of `breaking`."""
        with breaking(self):
            self._is_changed = True
            yield

    def mark_changed(self) -> None:
        """Write the file again on the next commit, even if nothing has changed."""
        self._is_changed = True

    def _packed_front(self, metadata: Any) -> bytes:
        """Return the header and the metadata section of the array as it is now."""
        count, size = self._nchunks, UNKNOWN if self._grid is not None else self._chunk_size
        header = self._header._replace(chunk_size=size)
        return pack_front(header, metadata, nchunks=count, last_chunk=self._nbytes_of(count - 1))

    def reading(self) -> AbstractContextManager[Any]:
        """Return the lock, as chunks move when others are written; raises LockedError in a fork."""
        self._file.check_mine()
        return self._lock

    def view(self, *, verify: Verify) -> Container:
        """Return a container that reads the file, including all changes."""
        with self._alone():
            if not self._is_changed:
                return self._changing.committed(verify)
            front = self._packed_front(self._described())
            return self._changing.view(front, self._held, verify)

    def _commit(self, metadata: Any, *, is_changed: bool) -> None:
        if not is_changed and not self._is_changed and not self._changing.is_keep_new:
            return
        with self._changes():
            if self._held:
                self._write()
            is_same = not is_changed and self.shape == self._committed_shape
            self._changing.commit(None if is_same else self._packed_front(metadata))
        self._is_changed, self._committed_shape = False, self.shape

    def _release(self) -> None:
        self._held, self._written = {}, {}
        self._changing.close()


def _encode(task: tuple[ArrayChanges, int, CodecParams]) -> Encoded:
    array, index, params = task
    return array.encode(index, params)


def make_changeable(path: Any, *, nthreads: int | None) -> None:
    """Make a log of a new file."""
    file = ArrayChanges.open(path, nthreads=nthreads)
    with closed_on_error(file):
        file.mark_changed()
    file.close()


def _number(place: tuple[int, ...], counts: tuple[int, ...]) -> int | None:
    """Return the number of the chunk at a place of a grid; None outside of it."""
    index = 0
    for at, count in zip(place, counts, strict=True):
        if at >= count:  # 0 of a grid without items, which has one chunk of no bytes
            return None
        index = index * count + at
    return index


def _coordinates(index: Any, shape: tuple[int, ...]) -> list[AnyArray]:
    """Return the indices along each axis that numpy selects, each in the shape of the result."""
    places = []
    for axis, length in enumerate(shape):
        every = np.arange(length).reshape(-1, *(1,) * (len(shape) - axis - 1))
        places.append(np.broadcast_to(every, shape)[index])
    return places


def _fitting(values: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return `values` broadcast to the shape of a selection, as numpy does on assignment."""
    while values.ndim > len(shape) and len(values) == 1:
        values = values[0]
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"values of shape {values.shape} do not fit a selection of shape {shape}"
        ) from None


def _cast(given: AnyArray, dtype: "np.dtype[Any]", *, is_array: bool) -> AnyArray:
    """Return `given` as `dtype`: floats may be rounded, other values must fit."""
    exact = cast_exactly(given, dtype)
    if exact is not None:
        return exact
    kinds = "biufc" if dtype.kind == "c" else "biuf"
    is_number = not is_array and given.dtype.kind in kinds and dtype.kind in "biufc"
    if not is_number and not np.can_cast(given.dtype, dtype, "same_kind"):
        raise TypeError(
            f"values are {given.dtype}, which cannot be cast to {dtype}; convert them with astype"
        )
    with np.errstate(all="ignore"), suppress(OverflowError):  # of NumPy 2.5, at late dates
        cast = given.astype(dtype)
        if is_rounded(cast, given):
            return cast
    raise ValueError(f"values of {given.dtype} do not fit {dtype}")
