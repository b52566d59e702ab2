"""Gathering a selection from the chunks of a container into one ndarray.

Each chunk that contains part of the selection is read once, in any order and on several threads. If
that part is one run of bytes both in the chunk and in the result, it is decoded straight into the
result's memory. Otherwise the selected items are copied; if they span less than half of the chunk,
only the Blosc blocks of that span are decoded.

All work is done in the order of the file: an array stored in Fortran order is treated as a C-order
array of the reversed shape. The target has one axis for each axis of the array; `Selection.spread`
and `Selection.arrange` convert from and to numpy's shape of the result. Fields of a structured
array are taken from the gathered items, a few chunks at a time.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from ..container.reader import Container
from ..exceptions import BloscpackError, FileChangedError, UnsupportedError
from ..parallel.threads import resolve_nthreads, run_indexed
from ..storage.remote.prefetch import prefetched
from ..types import AnyArray, BytesLike, StridedItems
from .arraymetadata import (
    Description,
    check_nbytes,
    describe_array,
    new_array,
    stored_view,
)
from .chunkpieces import (
    GridPieces,
    Piece,
    contiguous_run,
    cross,
    pieces,
    rows_of_whole_chunks,
    runs,
)
from .dtype import Dtype
from .selection import Picked, Selection, Sides, parse_selection

# Largest buffer allocated for part of a chunk before the chunk's own header has been checked.
_MAX_UNSEEN_NBYTES = 16 << 20
# A shorter span has few blocks, all of which are decoded.
_SHORT_SPAN_NBYTES = 1 << 16
# Decoded size of the rows that are held in memory at a time to read fields of them, in bytes.
_BLOCK_NBYTES = 16 << 20

Names = str | list[str]


def gather(
    container: Container,
    described: Description,
    chosen: Selection,
    *,
    out: AnyArray | None = None,
    nthreads: int | None = None,
) -> AnyArray:
    """Return the items of a selection, in a new array or in `out` (same shape and dtype)."""
    dtype, _, is_fortran = described
    target = None if out is None else chosen.spread(out)
    if target is None:
        container.check_size(chosen.ndistinct * dtype.itemsize)
        target = new_array(chosen.lengths, dtype, is_fortran)
    Gathering(container, described, chosen.sides, target, nthreads).read()
    result: AnyArray = chosen.arrange(target, out)
    return result


def gather_whole(
    container: Container, described: Description, *, nthreads: int | None = None
) -> AnyArray:
    """Return the whole array as a new, writable ndarray, in the order it was saved.

    Raises the errors of `gather`.
    """
    dtype, shape, is_fortran = described
    if container.grid is not None:
        return gather(container, described, parse_selection((), shape), nthreads=nthreads)
    container.check_size(container.nbytes)
    result = new_array(shape, dtype, is_fortran)
    container.read_into(stored_view(result, is_fortran), nthreads=nthreads)
    return result


def read_array(container: Container) -> AnyArray:
    """Return the whole array in `container` as a new, writable ndarray, in the order it was saved.

    Raises
    ------
    NotANumpyArray
        The metadata do not describe an array.
    FormatError, CodecError
        The file is damaged, or the metadata do not fit the chunks.
    """
    # Not `errors_at`: a context manager takes a tenth of the time that a small array takes.
    try:
        described = describe_array(container)
        check_nbytes(container, described[0], described[1])
        return gather_whole(container, described)
    except BloscpackError as err:
        err.at(path=container.name)
        raise


class Gathering:
    """One read of a selection into a target array.

    `target` has the dtype of the array and one axis for each of `sides`, the indices selected along
    each axis. `lost` maps the index of each chunk that cannot be read to its error message; without
    it, the error of the first such chunk is raised.
    """

    def __init__(
        self,
        container: Container,
        described: Description,
        sides: Sides,
        target: AnyArray,
        nthreads: int | None,
        lost: dict[int, str] | None = None,
    ) -> None:
        dtype, shape, is_fortran = described
        if is_fortran:
            shape, sides, target = shape[::-1], sides[::-1], target.T
        self._container = container
        self._is_fortran = is_fortran
        self._shape = shape
        self._sides = sides
        self._target = target
        self._itemsize = dtype.itemsize
        self._nthreads = nthreads
        self._lost = lost
        grid = container.grid
        self._grid = None if grid is None else GridPieces(grid.shape, grid.chunks, sides)
        self._last = container.nchunks - 1
        # Decoded bytes from the start of one chunk to that of the next.
        self._step = container.chunk_size if self._last > 0 else container.nbytes

    def read(self) -> None:
        """Fill the target."""
        target = self._target
        if not target.nbytes:
            # A whole array of zero bytes still has a chunk to check; a selection needs none.
            if target.shape == self._shape and self._lost is None:
                self._container.read_into(stored_view(target, False))
            return
        if self._grid is not None:
            self._read_grid(self._grid)
            if self._lost is None and all(map(_is_whole, self._sides, self._shape)):
                self._container.stored.check_end()
            return
        run = contiguous_run(self._shape, self._sides)
        is_whole = run is not None and run[1] == prod(self._shape)
        if run is None or not target.flags.c_contiguous:
            self._read_pieces()
        elif is_whole and self._lost is None:
            self._container.read_into(stored_view(target, False), nthreads=self._nthreads)
            return
        else:
            self._read_run(run[0] * self._itemsize, stored_view(target, False))
        if is_whole and not self._lost:
            self._container.stored.check_end()

    def _read_run(self, start: int, out: memoryview) -> None:
        """Fill `out` with the bytes of the array, starting at byte `start`."""
        container, step = self._container, self._step
        stop = start + len(out)
        first, last = container.chunk_at(start), container.chunk_at(stop - 1)
        if first == last and self._lost is None:
            base = first * step
            container.read_bytes_into(first, start - base, out)
            return

        def read(chunk: int) -> None:
            base = chunk * step
            begin = max(start, base)
            end = min(stop, base + container.chunk_nbytes(chunk))
            container.read_bytes_into(chunk, begin - base, out[begin - start : end - start])

        self._run(read, range(first, last + 1), len(out))

    def _run(self, read: Callable[[int], None], chunks: list[int] | range, nbytes: int) -> None:
        """Call `read` for each of `chunks`; together they decode to `nbytes` bytes.

        Damage is recorded in `lost`, if given, instead of raised.
        """
        lost = self._lost

        def attempt(chunk: int) -> None:
            try:
                read(chunk)
            except BloscpackError as err:
                if lost is None or not is_damage(err):
                    raise
                lost[chunk] = str(err.args[0])

        nthreads = resolve_nthreads(self._nthreads, nbytes)
        for group in prefetched(self._container.source, chunks, self._container.stored.extent):
            run_indexed(read if lost is None else attempt, group, nthreads)

    def _read_pieces(self) -> None:
        """Fill the target piece by piece, when the selection is not one run."""
        container, last, step = self._container, self._last, self._step
        shape, sides, itemsize = self._shape, self._sides, self._itemsize
        item: Dtype
        if last > 0 and step % itemsize:
            # Chunks that cut items (known writers make none) are gathered byte by byte.
            item = np.dtype(np.uint8)
            target = _bytes_of(self._target)
            shape, sides, itemsize = (*shape, itemsize), (*sides, range(itemsize)), 1
        else:
            # Structured items are copied as void: copying by field would leave out the padding.
            item = np.dtype((np.void, itemsize))
            target = self._target.view(item)
        size, total = step // itemsize, prod(shape)

        def read(chunk: int) -> None:
            start = chunk * size
            stop = start + size if chunk < last else total
            found = list(pieces(start, stop, shape, sides))
            if found:
                _read_pieces_into(container, chunk, found, target)

        # Of version 2, chunks before the last may be empty, and the last may exceed the others.
        chunks = [last]
        if size:
            chunks = list(dict.fromkeys(min(chunk, last) for chunk in runs(shape, sides, size)))
        self._run(read, chunks, min(len(chunks) * container.chunk_size, container.nbytes))

    def _read_grid(self, grid: GridPieces) -> None:
        container, chunks = self._container, grid.chunks()
        # Structured items are copied as void: copying by field would leave out the padding.
        target = self._target.view(np.dtype((np.void, self._itemsize)))

        def read(chunk: int) -> None:
            piece = grid.piece(chunk)
            if piece is not None:
                _read_pieces_into(container, chunk, [piece], target)

        self._run(read, chunks, min(len(chunks) * container.chunk_size, container.nbytes))

    def lost_pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the selection that lie in lost chunks, in the order of the file."""
        for chunk in sorted(self._lost or ()):
            if self._grid is not None:
                piece = self._grid.piece(chunk)
                if piece is not None:
                    yield piece
                continue
            first = chunk * self._step
            last = first + self._container.chunk_nbytes(chunk)
            # An item that spans two chunks is lost if either of them is.
            start, stop = first // self._itemsize, -(-last // self._itemsize)
            yield from pieces(start, stop, self._shape, self._sides)

    def fill_lost(self, item: bytes) -> None:
        """Set the items of the lost chunks to `item`."""
        void = np.dtype((np.void, self._itemsize))
        target, value = self._target.view(void), np.frombuffer(item, void)[0]
        for piece in self.lost_pieces():
            target[cross(piece.target, target.shape)] = value

    def lost_places(self, axis: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return, for each place along `axis` of the array, whether a lost chunk affects it."""
        if self._is_fortran:
            axis = len(self._shape) - 1 - axis
        places = np.zeros(len(self._sides[axis]), bool)
        for piece in self.lost_pieces():
            places[piece.target[axis]] = True
        return places


def is_damage(err: BloscpackError) -> bool:
    """Return whether an error means a damaged chunk, not a storage failure or a replaced file."""
    return not isinstance(err, OSError | FileChangedError)


def _bytes_of(array: AnyArray) -> AnyArray:
    """Return a view of `array` with an additional last axis: the bytes of each item."""
    try:
        return array.view(np.dtype([("bytes", np.uint8, (array.dtype.itemsize,))]))["bytes"]
    except ValueError as err:
        raise UnsupportedError(
            f"cannot read part of an array of {array.ndim} dimensions whose chunks cut items: "
            f"{err}; read the whole array"
        ) from err


def _is_whole(side: range | Picked, length: int) -> bool:
    return isinstance(side, range) and len(side) == length


def _read_pieces_into(
    container: Container, chunk: int, found: list[Piece], target: AnyArray
) -> None:
    """Copy the pieces of a chunk to their places in `target`, an array of items of type void."""
    item = target.dtype
    itemsize = item.itemsize
    # The span of the selected items: blocks outside of it are not decoded.
    low, high = found[0].first, found[0].last + 1
    for piece in found[1:]:
        low, high = min(low, piece.first), max(high, piece.last + 1)
    out = landing_run(found, target)
    if out is not None:
        container.read_bytes_into(chunk, low * itemsize, stored_view(out, False))
        return
    data: BytesLike | None = None
    is_short = (high - low) * itemsize <= _SHORT_SPAN_NBYTES
    if len(found) == 1 and not is_short and container.chunk_nbytes(chunk) <= _MAX_UNSEEN_NBYTES:
        data = container.read_items(chunk, strided(found[0], itemsize))
    start = 0
    if data is None:
        start = low
        data = _read_span(container, chunk, low * itemsize, high * itemsize)
    for piece in found:
        offset, lengths, strides, _ = strided(piece, itemsize)
        block: AnyArray = np.ndarray(lengths, item, data, offset - start * itemsize, strides)
        if piece.source is None:
            target[piece.target] = block
        else:
            source = cross(piece.source, piece.lengths)
            target[cross(piece.target, target.shape)] = block[source]


def strided(piece: Piece, itemsize: int) -> StridedItems:
    """Return where the block of a piece is in the bytes of its chunk."""
    strides = tuple(items * itemsize for items in piece.steps)
    return StridedItems(piece.origin * itemsize, piece.lengths, strides, itemsize)


def _read_span(container: Container, chunk: int, start: int, stop: int) -> memoryview:
    """Return bytes `start` to `stop` of a chunk, decoded."""
    if stop - start > _MAX_UNSEEN_NBYTES:
        return memoryview(container.read_chunk(chunk))[start:stop]
    view = np.empty(stop - start, np.uint8).data
    container.read_bytes_into(chunk, start, view)
    return view


def landing_run(found: list[Piece], target: AnyArray) -> AnyArray | None:
    """Return the contiguous part of `target` that the pieces of a chunk fill in their stored order.

    None if the pieces are not one run of items in the chunk, or not one run in `target`.
    """
    for piece in found:
        if (
            piece.source is not None
            or piece.origin != piece.first
            or piece.last - piece.first + 1 != prod(piece.lengths)
        ):
            return None
    if len(found) == 1:
        part = target[found[0].target]
        return part if part.flags.c_contiguous else None
    if not target.flags.c_contiguous:
        return None
    scales = [stride // target.itemsize for stride in target.strides]
    start = following = -1
    item = found[0].first
    for piece in found:
        lows, highs = zip(*((side.start, side.stop - 1) for side in _slices(piece)), strict=True)
        low = sum(place * scale for place, scale in zip(lows, scales, strict=True))
        high = sum(place * scale for place, scale in zip(highs, scales, strict=True))
        if start < 0:
            start = following = low
        # The piece fills every place from the lowest to the highest if these are as many as its
        # items.
        if piece.first != item or low != following or high - low != piece.last - piece.first:
            return None
        item, following = piece.last + 1, high + 1
    return target.reshape(-1)[start:following]


def _slices(piece: Piece) -> list[slice]:
    return [side for side in piece.target if isinstance(side, slice)]


def as_target(out: Any, shape: tuple[int, ...], dtype: Dtype) -> AnyArray:
    """Return `out` after a check that the result of a selection fits."""
    if isinstance(out, np.ndarray):
        if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
            raise ValueError(
                f"out must be writable, of shape {shape} and dtype {dtype}, "
                f"not {out.shape} and {out.dtype}"
            )
        if type(out) is not np.ndarray and np.ma.is_masked(out):
            raise ValueError("out has masked items, which would stay masked: use out.data")
        return np.asarray(out)  # a matrix or a masked array would be filled in another way
    view = _writable_view(out)
    found = np.asarray(view).dtype
    if view.itemsize > 1 and found != dtype:
        raise ValueError(f"out has items of {found}, not {dtype} or bytes: use a view of its bytes")
    nbytes = prod(shape) * dtype.itemsize
    if view.nbytes != nbytes:
        raise ValueError(
            f"out has {view.nbytes} bytes, the selection of shape {shape} and dtype {dtype} "
            f"needs {nbytes}"
        )
    return np.ndarray(shape, dtype, view if nbytes else None)


def _writable_view(out: Any) -> memoryview:
    try:
        if hasattr(out, "__dlpack__") and not hasattr(out, "__buffer__"):
            out = np.from_dlpack(out).data  # a tensor in main memory
        view = memoryview(out)
    except (TypeError, RuntimeError, BufferError) as err:
        raise TypeError(
            f"out must be an ndarray or a writable buffer, not {type(out).__name__!r}: {err}"
        ) from err
    if view.readonly or not view.c_contiguous:
        raise ValueError("out must be writable and contiguous in C order")
    return view


def field_names(index: Any, dtype: Dtype) -> Names | None:
    """Return `index` if it is a field name or a list of names, else None.

    Raises
    ------
    ValueError, KeyError
        A field does not exist: ValueError for one name, KeyError for a list, as in numpy.
    """
    if dtype.names is None or dtype.fields is None:
        return None
    if isinstance(index, str):
        if index not in dtype.fields:
            raise ValueError(_missing(index, dtype))
        return index
    if not isinstance(index, list) or not index or not all(isinstance(n, str) for n in index):
        return None
    for name in index:
        if name not in dtype.fields:
            raise KeyError(_missing(name, dtype))
    if len(set(index)) != len(index):
        raise ValueError(f"a field is listed twice in {str(index)[:200]}")
    return index


def _missing(name: str, dtype: Dtype) -> str:
    return f"no field named {name!r:.80}; the fields are {', '.join(dtype.names or ())[:400]}"


def gather_fields(
    container: Container,
    described: Description,
    names: Names,
    *,
    out: Any = None,
    nthreads: int | None = None,
) -> AnyArray:
    """Return fields of all items, in a new array or in `out`; raises the errors of `gather`.

    A new array has the memory order of the file. Besides the result, about 16 MiB of rows are in
    memory, at least a row of the chunk grid.
    """
    dtype, shape, is_fortran = described
    found: Dtype = dtype[names]
    inner, base = (found.subdtype or (found, ()))[::-1]
    full = (*shape, *inner)
    if out is not None:
        result = as_target(out, full, base)
    else:
        container.check_size(container.nbytes)
        # Zeros, because a dtype of several fields has gaps where the other fields were.
        result = np.zeros(full, base, order="F" if is_fortran else "C")
        if result.dtype != base:  # np.zeros turns S0 into S1
            result = np.ndarray(full, base)
    for rows in _blocks(container, described):
        chosen = parse_selection(rows, shape)
        result[rows] = gather(container, described, chosen, nthreads=nthreads)[names]
    return result


def _blocks(container: Container, described: Description) -> Iterator[tuple[Any, ...]]:
    """Yield selections of rows that are contiguous in the file, in whole chunks where possible."""
    dtype, shape, is_fortran = described
    if not shape or 0 in shape or not dtype.itemsize:
        yield (Ellipsis,)
        return
    axis = len(shape) - 1 if is_fortran else 0
    nrows = shape[axis]
    row_nbytes = container.nbytes // nrows
    wanted = max(1, _BLOCK_NBYTES // row_nbytes)
    if container.grid is None:
        whole = rows_of_whole_chunks(container.chunk_size, container.nchunks, row_nbytes, nrows)
        step = wanted // whole * whole or wanted
    else:
        whole = container.grid.chunks[0]
        step = max(wanted // whole, 1) * whole
    for start in range(0, nrows, step):
        yield (slice(None),) * axis + (slice(start, min(start + step, nrows)),)
