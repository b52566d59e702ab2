"""Reading of small extents from many records: joined to runs and gathered by a kernel.

No Python object is created per record. Reads are positional instead of memory-mapped. A memory map
would save a copy of less than 1 ms per 10 MB, but a file that shrinks while it is mapped kills the
process; here it raises `TruncatedError`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..._ext import record as _record
from ...plugin import (
    FIELDS,
    ByteSource,
    IntArray,
    Scratch,
    TruncatedError,
    plan_array_runs,
    prefetched,
    resolve_nthreads,
    run_indexed,
)

Bytes = NDArray[np.uint8]


def read_rows(
    source: ByteSource, offsets: IntArray, nbytes: int, *, nthreads: int | None = None
) -> Bytes:
    """Read `nbytes` from each of N offsets, in any order, to new memory, ``(N, nbytes)``.

    The caller has compared ``N * nbytes`` with the size of the file.
    """
    out: Bytes = np.empty((len(offsets), nbytes), np.uint8)
    if out.size == 0:
        return out
    order = _order(offsets)
    starts = offsets if order is None else offsets[order]
    target = out if order is None else np.empty_like(out)

    def take(low: int, high: int, view: memoryview, start: int) -> int:
        return _record.gather(view, start, starts[low:high], target[low:high])

    def place(row: int) -> memoryview:
        view: memoryview = target[row].data
        return view

    _read(source, starts, starts + nbytes, take, place, nthreads)
    if order is not None:
        out[order] = target
    return out


def read_ragged(
    source: ByteSource, offsets: IntArray, lengths: IntArray, *, nthreads: int | None = None
) -> tuple[IntArray, Bytes]:
    """Read a different number of bytes from each of N offsets, in any order.

    Returns N + 1 positions and the data: extent k is ``data[ends[k] : ends[k + 1]]``. The caller
    has compared the sum of the lengths with the size of the file.
    """
    ends = np.zeros(len(offsets) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    data: Bytes = np.empty(int(ends[-1]), np.uint8)
    wanted = np.flatnonzero(lengths)
    if len(wanted) == 0:
        return ends, data
    order = _order(offsets[wanted])
    rows = wanted if order is None else wanted[order]
    starts = offsets[rows]
    is_whole = order is None and len(wanted) == len(offsets)

    def take(low: int, high: int, view: memoryview, start: int) -> int:
        if is_whole:
            return _record.gather_ragged(view, start, starts[low:high], ends[low : high + 1], data)
        # Rows that are adjacent in the file may go to any places in `data`.
        at = starts[low:high] - start
        for k, row in enumerate(rows[low:high].tolist()):
            piece = view[at[k] : at[k] + lengths[row]]
            if len(piece) < lengths[row]:
                return k
            data[ends[row] : ends[row + 1]] = np.frombuffer(piece, np.uint8)
        return -1

    def place(k: int) -> memoryview:
        row = rows[k]
        return data[ends[row] : ends[row + 1]].data

    _read(source, starts, starts + lengths[rows], take, place, nthreads)
    return ends, data


def _order(offsets: IntArray) -> IntArray | None:
    """Return the indices that sort `offsets`; None if they are sorted."""
    if bool((offsets[1:] >= offsets[:-1]).all()):
        return None
    return np.argsort(offsets, kind="stable").astype(np.int64, copy=False)


def _read(
    source: ByteSource,
    starts: IntArray,
    stops: IntArray,
    take: Callable[[int, int, memoryview, int], int],
    place: Callable[[int], memoryview],
    nthreads: int | None,
) -> None:
    """Read extents in runs.

    ``take(low, high, view, start)`` copies the extents of a run from `view`, and returns the index
    of the first that is cut off, or -1. ``place(k)`` returns the target of extent k, which is read
    into directly if it is a run by itself.
    """
    runs = list(plan_array_runs(starts, stops, FIELDS))

    def read_run(number: int) -> None:
        low, high, start, stop = runs[number]
        if high - low == 1:
            view = place(low)
            found = source.read_into(start, view)
            if found < len(view):
                raise _cut_off(source, start, len(view), found)
            return
        with Scratch(stop - start) as room, room[: source.read_into(start, room)] as view:
            bad = take(low, high, view, start)
            if bad >= 0:
                at = int(starts[low + bad])
                there = max(0, start + len(view) - at)
                raise _cut_off(source, at, int(stops[low + bad]) - at, there)

    work = int((stops - starts).sum()) // 2  # copying is faster than decoding
    nthreads = resolve_nthreads(nthreads, work)

    def extent(number: int) -> tuple[int, int]:
        _, _, start, stop = runs[number]
        return start, stop - start

    for numbers in prefetched(source, range(len(runs)), extent):
        run_indexed(read_run, numbers, nthreads)


def _cut_off(source: ByteSource, offset: int, nbytes: int, there: int) -> TruncatedError:
    return TruncatedError(f"{nbytes} bytes at byte {offset}: found only {there}", offset=offset).at(
        path=source.name
    )
