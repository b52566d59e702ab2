"""Selections of an array that are bounded: how many chunks they decode, and how many items.

A picture or a plot needs at most as many items as it has pixels. `Values` reads them strip by
strip, so that memory stays small and a request can end early. A strip with a damaged chunk becomes
NaN, and its rows are reported.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..plugin import AnyArray, Array, BloscpackError, CodecError, FormatError
from .protocol import QueryError, Work
from .raster import as_numbers, finite_range, sample_step

# Most items that one request reads, and most bytes of chunks that it decodes for them.
MAX_ITEMS = 1 << 20
MAX_DECODED_NBYTES = 1 << 30
# Most chunks that are always decoded, however large they are.
_MIN_CHUNKS = 32
_STRIP_ITEMS = 1 << 16
# Lost rows that a reply lists.
MAX_LOST = 100
# Failed reads after which the rows of a damaged strip are not searched one by one any more.
_MAX_FAILURES = 200


class Values:
    """Numbers of an array, or of one field of its records.

    Parameters
    ----------
    array : Array
        The array.
    field : str
        Names of a field and of fields in it, separated by slashes; empty for an array of numbers.
    part : {"real", "imag", "abs", "angle"}
        Part of complex numbers to show.
    """

    def __init__(self, array: Array, field: str = "", part: str = "real") -> None:
        self.array, self.part = array, part
        self._names: list[str] = []
        self._nfailures = 0
        dtype = array.dtype
        for name in field.split("/") if field else ():
            if dtype.names is None or name not in dtype.names:
                raise QueryError(f"no field {name!r:.80}; there are: {field_names(array.dtype)}")
            self._names.append(name)
            dtype = dtype[name]
            if dtype.shape and field.split("/")[len(self._names) :]:
                raise QueryError(f"field {name!r:.80} is an array of records, which are not shown")
        self.shape = (*array.shape, *dtype.shape)
        self.dtype = dtype.base
        if not is_numeric(self.dtype):
            raise QueryError(f"values of {self.dtype} are not numbers: choose a field")

    def read(self, selection: Sequence[int | slice]) -> AnyArray:
        """Read a selection with an entry for each axis of `shape`, as numbers."""
        outer = tuple(selection[: self.array.ndim])
        found: AnyArray = np.asarray(self.array.read(outer))
        for name in self._names:
            found = found[name]
        inner = tuple(selection[self.array.ndim :])
        if inner:
            found = found[(..., *inner)]
        return np.asarray(as_numbers(found, self.part))

    def known_range(self) -> tuple[float, float] | None:
        """Return the smallest and largest finite extreme of a chunk; None without statistics."""
        try:
            stats = self.array.stats
        except FormatError:
            return None  # `verify` reports the damage
        if stats is None:
            return None
        return finite_range(np.stack([as_numbers(stats[name]) for name in ("min", "max")]))

    def read_strips(
        self, selection: list[int | slice], axis: int, work: Work
    ) -> tuple[AnyArray, list[str]]:
        """Read a selection strip by strip along `axis`, which it selects by a slice.

        Returns the values, and messages about strips that are damaged and became NaN.
        """
        counts = [
            len(range(*each.indices(n))) if isinstance(each, slice) else 1
            for each, n in zip(selection, self.shape, strict=True)
        ]
        places = range(*_as_slice(selection[axis]).indices(self.shape[axis]))
        width = max(1, _STRIP_ITEMS // max(1, prod(counts) // max(1, counts[axis])))
        at = sum(isinstance(each, slice) for each in selection[:axis])
        strips: list[AnyArray] = []
        lost: list[str] = []
        for start in range(0, len(places), width):
            strips.append(self._strip(selection, axis, places[start : start + width], lost, work))
        if not strips:
            return self.read(selection), lost
        return np.concatenate(strips, at), lost

    def _strip(
        self, selection: list[int | slice], axis: int, places: range, lost: list[str], work: Work
    ) -> AnyArray:
        work.step()
        chosen = [*selection]
        chosen[axis] = slice(places.start, places[-1] + 1, places.step)
        try:
            return self.read(chosen)
        except (FormatError, CodecError) as err:
            self._nfailures += 1
            if len(places) > 1 and self._nfailures < _MAX_FAILURES:  # find the rows that are lost
                half = len(places) // 2
                parts = [
                    self._strip(selection, axis, each, lost, work)
                    for each in (places[:half], places[half:])
                ]
                at = sum(isinstance(each, slice) for each in selection[:axis])
                return np.concatenate(parts, at)
            if len(lost) < MAX_LOST:
                lost.append(message(err))
            shape = [
                len(range(*each.indices(n)))
                for each, n in zip(chosen, self.shape, strict=True)
                if isinstance(each, slice)
            ]
            return np.full(shape, np.nan, np.float32)

    def limit(self, counts: dict[int, int], windows: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Return how many entries to take along each axis so that a request is bounded.

        `counts` are those wanted, along axes of which `windows` has the start and stop.
        """
        limited = {
            axis: min(count, windows[axis][1] - windows[axis][0]) for axis, count in counts.items()
        }
        # A chunk may be one block, which is decoded as a whole.
        cost = max(1, self.array.nbytes // max(1, self.array.nchunks))
        most = max(_MIN_CHUNKS, MAX_DECODED_NBYTES // cost)
        while True:
            touched = {
                axis: self._chunks_along(axis, windows[axis], count)
                for axis, count in limited.items()
            }
            if prod(limited.values()) > MAX_ITEMS:
                axis = max(limited, key=lambda axis: limited[axis])
            elif min(prod(touched.values()), self.array.nchunks) > most:
                axis = max(touched, key=lambda axis: touched[axis])
                limited[axis] = min(limited[axis], touched[axis])
            else:
                return limited
            limited[axis] = -(-limited[axis] // 2)

    def _chunks_along(self, axis: int, window: tuple[int, int], count: int) -> int:
        """Return how many chunks a line of `count` items touches, at most."""
        if axis >= self.array.ndim:
            return 1
        chunks, length = self.array.chunks, window[1] - window[0]
        if chunks is not None:
            return min(count, length // max(1, chunks[axis]) + 2)
        inner = self.shape[:axis] if self.array.is_fortran else self.array.shape[axis + 1 :]
        step = max(1, prod(inner)) * self.array.dtype.itemsize
        chunk = max(1, self.array.nbytes // max(1, self.array.nchunks))
        return min(count, length * step // chunk + 2, self.array.nchunks)


def _as_slice(entry: int | slice) -> slice:
    return entry if isinstance(entry, slice) else slice(entry, entry + 1)


def is_numeric(dtype: "np.dtype[Any]") -> bool:
    """Return whether items are numbers or dates."""
    return dtype.names is None and (dtype.kind in "biufcmM" or dtype.isbuiltin == 2)


def field_names(dtype: "np.dtype[Any]", prefix: str = "") -> list[str]:
    """Return the fields with numbers of a record, and of records in it, by their path."""
    found: list[str] = []
    for name in dtype.names or ():
        if "/" in name:
            continue
        inner = dtype[name]
        if is_numeric(inner.base):
            found.append(prefix + name)
        elif inner.names is not None:
            found += field_names(inner, f"{prefix}{name}/")
    return found


def message(err: BaseException) -> str:
    """Return the message of an error."""
    if isinstance(err, OSError) and not isinstance(err, BloscpackError) and err.strerror:
        return err.strerror
    return "not enough memory" if isinstance(err, MemoryError) else str(err)


def step_slice(window: tuple[int, int], count: int) -> slice:
    """Return a slice that takes at most `count` entries of a window, evenly spaced."""
    return slice(window[0], window[1], sample_step(window[1] - window[0], count))
