"""Several files as one array, concatenated along the first axis.

The front of each file is read once, for its shape. After that only a limited number of files is
open at a time. A file that is read again is reopened, and must not have changed.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Never, TypeVar, overload

import numpy as np

from ..container.front import Verify
from ..parallel.imports import importing
from ..parallel.threads import resolve_nthreads, run_indexed
from ..storage.coalescing import MAX_REQUESTS
from ..storage.folder.filelist import expanded
from ..storage.pool import MAX_OPEN_FILES
from ..storage.remote.source import may_wait, without_head
from ..types import AnyArray, ClosedOnExit
from .array import Array
from .arraymetadata import Described
from .attrs import MEANING, attrs_in, coords_in, read_only
from .dtype import Dtype
from .gather import Gathering, as_target
from .rowiteration import check_text
from .selection import Picked, Selection, Sides, parse_selection

Out = TypeVar("Out")


class ManyArrays(Described, ClosedOnExit):
    """Arrays in several files as one, concatenated along the first axis.

    Returned by `bloscpack.open_many`.

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes
        As for an ndarray; `nbytes` is the decoded size in bytes.
    attrs : dict
        The attrs of the first file; of several files, without coordinates along the first axis.
    names : list of str
        The files, in order.
    starts : list of int
        First row of each file, followed by the total number of rows.
    chunks : tuple of int or None
        Shape of a chunk, if it is the same in all files and only the last chunk of each file is
        shorter.

    Notes
    -----
    At most 64 files are open at a time. Threads and forked children may share a handle. A pickle
    contains the location of each file and a digest of its state; reading from a file that has
    changed raises `FileChangedError`.
    """

    def __init__(
        self,
        paths: Sequence[Any],
        *,
        verify: Verify = True,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        max_open: int = MAX_OPEN_FILES,
    ) -> None:
        if max_open < 1:
            raise ValueError(f"max_open must be at least 1, not {max_open}")
        self._verify, self._nthreads, self._max_open = verify, nthreads, max_open
        self._open: dict[int, Array] = {}
        self._is_open = True
        self._reopeners: list[tuple[Callable[..., Array], tuple[Any, ...]]] = []
        self.names: list[str] = []
        self._has_latency = False
        self._describe(list(paths), storage_options)

    def _describe(self, paths: list[Any], options: Mapping[str, Any] | None) -> None:
        """Open every file once, and check that they fit together."""
        if not paths:
            raise ValueError("paths is empty: expected at least one path")
        found: list[tuple[Any, ...]] = [()] * len(paths)

        waits = [*map(may_wait, paths)]

        def look(number: int) -> None:
            array = Array(
                paths[number],
                verify=self._verify,
                nthreads=self._nthreads,
                # In a mixed list they are for the URLs; in one without any they are refused.
                storage_options=options if waits[number] or not any(waits) else None,
            )
            facts = array.shape, array.dtype, array.chunks, array.name or "memory"
            attrs = attrs_in(array.container.metadata)
            meaning = {k: attrs[k] for k in MEANING if attrs.get(k) is not None}
            attrs = array.attrs if number == 0 else {}
            found[number] = *facts, repr(meaning), array.__reduce__(), attrs
            self._keep(number, array)

        nthreads = MAX_REQUESTS if any(waits) else 1
        run_indexed(look, range(len(paths)), nthreads)
        shapes, dtypes, chunks, names, meanings, reopeners, attrs = zip(*found, strict=True)
        self._has_latency = nthreads > 1
        self.names, self._reopeners = list(names), list(reopeners)
        self._described = dtypes[0], shapes[0], False
        for shape, dtype, meaning, name in zip(shapes, dtypes, meanings, names, strict=True):
            self._check_alike(shape, dtype, name)
            if meaning != meanings[0]:
                raise ValueError(
                    f"{name}: the attrs {meaning:.200} differ from {meanings[0]:.200} of "
                    f"{names[0]}, and give items another meaning"
                )
        self.starts = [0, *accumulate(shape[0] for shape in shapes)]
        self._described = self.dtype, (self.starts[-1], *self.shape[1:]), False
        self.attrs: dict[str, Any] = attrs[0] if len(paths) == 1 else _without_rows(attrs[0])
        self.chunks: tuple[int, ...] | None = _common_chunks(shapes, chunks)

    def _check_alike(self, shape: tuple[int, ...], dtype: Dtype, name: str) -> None:
        if not shape:
            raise ValueError(f"{name}: an array without dimensions has no rows")
        if dtype != self.dtype or shape[1:] != self.shape[1:]:
            raise ValueError(
                f"{name}: rows of shape {shape[1:]} and {dtype} differ from those of "
                f"{self.names[0]}, of shape {self.shape[1:]} and {self.dtype}"
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        state = "" if self._is_open else " (closed)"
        return (
            f"<bloscpack.ManyArrays of {len(self.names)} files shape={self.shape} "
            f"dtype={self.dtype}{state}>"
        )

    def _repr_html_(self) -> str:
        """Return a table and a picture for notebooks."""
        with importing:
            from ..display.notebook import many_arrays_card
        return many_arrays_card(self)

    def array(self, number: int) -> Array:
        """Return the array of one file, reopened if necessary; the caller must not close it.

        Raises
        ------
        IndexError
            `number` is out of range.
        FileChangedError
            The file has changed since it was first opened.
        OSError
            The file cannot be opened.
        """
        if not self._is_open:
            raise ValueError("I/O operation on closed bloscpack.ManyArrays")
        if not -len(self.names) <= number < len(self.names):
            raise IndexError(f"file {number} of {len(self.names)} files")
        number %= len(self.names)
        array = self._open.get(number)
        if array is None:
            reopen, arguments = self._reopeners[number]
            array = reopen(*arguments)
            self._keep(number, array)
        return array

    def _keep(self, number: int, array: Array) -> None:
        """Keep a file open, and evict others if there are too many.

        A file that another thread is reading is closed when that read has ended.
        """
        while len(self._open) >= self._max_open:
            with suppress(RuntimeError, StopIteration):  # another thread is evicting too
                self._open.pop(next(iter(self._open)), None)
        self._open[number] = array

    def __getitem__(self, index: Any) -> Any:
        """Read a selection, as numpy would; see `Array.__getitem__`."""
        if type(index) is int and self.shape[1:]:
            row = index + len(self) if index < 0 else index
            if 0 <= row < len(self):
                number = bisect_right(self.starts, row) - 1
                return self.array(number)[row - self.starts[number]]
        selection = parse_selection(index, self.shape)
        result = self._gather(selection, None)
        if not selection.is_scalar:
            return result
        check_text(result)
        return result[()]

    def __setitem__(self, index: Any, value: Any) -> Never:
        raise TypeError(
            "arrays of several files cannot be changed in place: open one of them with mode 'r+'"
        )

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows along the first axis, decoding each chunk once."""
        for number in range(len(self.names)):
            yield from self.array(number)

    @overload
    def read(self, selection: Any = (), *, out: None = None) -> AnyArray: ...
    @overload
    def read(self, selection: Any = (), *, out: Out) -> Out: ...
    def read(self, selection: Any = (), *, out: Any = None) -> Any:
        """Read a selection, into `out` if given; parameters and errors as for `Array.read`.

        Notes
        -----
        Each chunk that contains part of the selection is read once. Files without one are not read.
        """
        chosen = parse_selection(selection, self.shape)
        target = None if out is None else as_target(out, chosen.shape, self.dtype)
        result = self._gather(chosen, target)
        return result if out is None else out

    def _gather(self, chosen: Selection, out: AnyArray | None) -> AnyArray:
        target = None if out is None else chosen.spread(out)
        shares = list(self._shares(chosen.sides))
        if target is None:
            inner = prod(chosen.lengths[1:]) * self.dtype.itemsize
            for number, _, _, count in shares:
                self.array(number).container.check_size(count * inner)
            # np.ndarray, because np.empty turns S0 and U0 into S1 and U1.
            target = np.ndarray(chosen.lengths, self.dtype)
        self._read_shares(shares, chosen.sides[1:], target)
        result: AnyArray = chosen.arrange(target, out)
        return result

    def _shares(self, sides: Sides) -> Iterator[tuple[int, range | Picked, Any, int]]:
        """Yield the share of each file in a selection.

        For each file that has one: (file number, its rows, their places in the target, number of
        distinct rows).
        """
        side = sides[0]
        if not prod(map(len, sides)):
            return
        for number, (start, stop) in enumerate(pairwise(self.starts)):
            if isinstance(side, Picked):
                low, high = side.sorted.searchsorted((start, stop)).tolist()
                if low < high:
                    rows = Picked(side.sorted[low:high] - start)
                    place: Any = slice(low, high)
                    if side.order is not None:
                        place = side.order[low:high]
                    yield number, rows, place, rows.ndistinct
                continue
            low, high = _met(side, start, stop)
            if low < high:
                part = side[low:high]
                moved = range(part.start - start, part.stop - start, part.step)
                yield number, moved, slice(low, high), high - low

    def _read_shares(
        self,
        shares: list[tuple[int, range | Picked, Any, int]],
        others: Sides,
        target: AnyArray,
    ) -> None:
        nthreads = resolve_nthreads(self._nthreads, target.nbytes)
        # With fewer files than threads, files are read one by one with all threads; remote files
        # always at the same time, because their latency dominates.
        outer = MAX_REQUESTS if self._has_latency else nthreads if len(shares) >= nthreads else 1
        inner = nthreads if outer == 1 or len(shares) == 1 else 1

        def read(k: int) -> None:
            number, rows, place, _ = shares[k]
            array = self.array(number)
            container, described = array.container, array._described
            # An index array would make a copy of the places that is not written back.
            part = target[place] if isinstance(place, slice) else target[: len(rows)].copy()
            Gathering(container, described, (rows, *others), part, inner).read()
            if not isinstance(place, slice):
                target[place] = part

        run_indexed(read, range(len(shares)), outer)

    def read_whole(self) -> AnyArray:
        """Return the whole array as a new, writable ndarray."""
        return self.read()

    def close(self) -> None:
        """Close the files; idempotent. Shape, dtype and attrs stay."""
        self._is_open = False
        for array in self._open.copy().values():
            array.close()
        self._open = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the locations of the files; they are reopened on first use."""
        if not self._is_open:
            raise ValueError("I/O operation on closed bloscpack.ManyArrays")
        state = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_open", "_is_open")
        }
        state["_reopeners"] = [
            (reopen, (without_head(place), *rest)) for reopen, (place, *rest) in self._reopeners
        ]
        return _reopen, (state,)


def _reopen(state: dict[str, Any]) -> ManyArrays:
    many = ManyArrays.__new__(ManyArrays)
    many.__dict__.update(state)
    many._open, many._is_open = {}, True
    return many


def _without_rows(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return attrs without coordinates of the rows, which are those of one file."""
    coords, dims = coords_in(attrs), attrs.get("dims")
    if not coords:
        return attrs
    rows = dims[0] if isinstance(dims, list) and dims else "dim_0"

    def has_rows(key: str, entry: Any) -> bool:
        along = entry.get("dims") if isinstance(entry, dict) else None
        is_array = isinstance(entry, dict) and "array" in entry  # of an archive of the first file
        return key == rows or is_array or (isinstance(along, list) and rows in along)

    kept = {key: entry for key, entry in coords.items() if not has_rows(key, entry)}
    return read_only({**attrs, "coords": kept}, "open one of the files")


def _met(side: range, start: int, stop: int) -> tuple[int, int]:
    """Return the range of positions in `side` whose indices lie in [`start`, `stop`)."""
    if not side:
        return 0, 0
    step = side.step
    if step > 0:
        low, high = -(-(start - side.start) // step), -(-(stop - side.start) // step)
    else:
        low, high = -(-(side.start - stop + 1) // -step), (side.start - start) // -step + 1
    return min(max(low, 0), len(side)), min(max(high, 0), len(side))


def _common_chunks(
    shapes: Sequence[tuple[int, ...]], chunks: Sequence[tuple[int, ...] | None]
) -> tuple[int, ...] | None:
    """Return the shape of the chunks of all files; None if they differ."""
    several = {
        chunk
        for shape, chunk in zip(shapes, chunks, strict=True)
        # A file with a single chunk is compatible with every chunk shape.
        if chunk != shape
    }
    if not several:
        return chunks[0] if len(set(chunks)) == 1 else None
    return several.pop() if len(several) == 1 else None


def open_many(
    paths: str | os.PathLike[str] | Sequence[Any],
    *,
    verify: Verify = True,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ManyArrays:
    """Open several files as one array, concatenated along the first axis.

    Parameters
    ----------
    paths : str or PathLike, or sequence of str, PathLike or bytes-like
        Files or patterns, in the desired order. A pattern of paths or URLs may contain ``*``,
        ``?``, ``[...]`` or ``**``; its files are sorted by name as text, so number them with
        leading zeros.
    verify : bool or "always", default True
        As for `open`.
    nthreads : int, optional
        Number of decoding threads. Default: the number of processors, at most 8.
    storage_options : mapping, optional
        Arguments for the fsspec file system of URLs (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    ManyArrays
        Close it when done, or use it as a context manager.

    Raises
    ------
    FileNotFoundError
        A pattern matches no file.
    ValueError
        The rows of two files differ in shape or dtype, or their attrs in the units or the encoding
        of the items; or `paths` is empty.
    FormatError, UnsupportedError, OSError
        As for `open`; the message names the file.

    Notes
    -----
    The front of every file is read on opening. Behind URLs that is one request per file, many at a
    time.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> for n in range(3):
    ...     bp.save(f"shard-{n}.blp", np.full((4, 2), n))
    >>> with bp.open_many("shard-*.blp") as a:
    ...     a.shape, a[::5].tolist()
    ((12, 2), [[0, 0], [1, 1], [2, 2]])
    """
    return ManyArrays(
        expanded(paths, storage_options),
        verify=verify,
        nthreads=nthreads,
        storage_options=storage_options,
    )
