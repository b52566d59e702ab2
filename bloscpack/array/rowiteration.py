"""Iteration over the rows of an array, decoding each chunk once.

Rows are contiguous in the file, so it is read from beginning to end. A chunk that is only partly
used by the current rows is kept for the next ones. Of a chunk grid, the rows that its chunks share
are read at once.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ..container.reader import Container
from ..exceptions import FormatError
from ..parallel.threads import resolve_nthreads, run_indexed
from ..storage.protocol import Extent
from ..storage.remote.prefetch import prefetched
from ..types import AnyArray
from .arraymetadata import Description, new_array, stored_view
from .gather import gather
from .selection import parse_selection

_MAX_CODE_POINT = 0x10FFFF


def iter_rows(container: Container, described: Description, nthreads: int | None) -> Iterator[Any]:
    """Yield the rows along the first axis of an array of one dimension or more.

    Each chunk is decoded once. In C order, one chunk's worth of rows (at least one row) is held in
    memory. In Fortran order it is the whole array, because each row needs part of every chunk. Of a
    chunk grid it is as many rows as a chunk has along the first axis, in either order.
    """
    dtype, shape, is_fortran = described
    nbytes = prod(shape[1:]) * dtype.itemsize
    if not nbytes or not shape[0]:
        yield from new_array(shape, dtype, is_fortran)
        return
    if container.grid is not None:
        yield from _iter_grid_rows(container, described, nthreads)
        return
    step = container.chunk_size if container.nchunks > 1 else container.nbytes
    nrows = max(1, step // nbytes)
    if is_fortran and len(shape) > 1:
        nrows = shape[0]
    container.check_size(min(nrows, shape[0]) * nbytes)
    rows = _RowReader(container, nthreads)

    def extent(start: int) -> Extent | None:
        stop = min(start + nrows, shape[0])
        return container.stored.extent(
            container.chunk_at(start * nbytes), container.chunk_at(stop * nbytes - 1) + 1
        )

    starts = range(0, shape[0], nrows)
    for group in prefetched(container.source, starts, extent, ramps=True):
        for start in group:
            count = min(nrows, shape[0] - start)
            batch = new_array((count, *shape[1:]), dtype, is_fortran)
            rows.read(start * nbytes, stored_view(batch, is_fortran))
            if batch.ndim == 1:
                check_text(batch)
            yield from batch


def iter_changing(array: Any) -> Iterator[Any]:
    """Yield rows of which the caller may change others, which may move or replace chunks."""
    step, stop = (array.chunks or (1,))[0] or 1, len(array)
    for start in range(0, stop, step):
        batch = array[start : min(start + step, stop)]
        if batch.ndim == 1:
            check_text(batch)
        yield from batch


def _iter_grid_rows(
    container: Container, described: Description, nthreads: int | None
) -> Iterator[Any]:
    _, shape, is_fortran = described
    grid = container.grid
    step = 1 if grid is None else grid.chunks[-1 if is_fortran else 0]
    for start in range(0, shape[0], step):
        batch = gather(
            container,
            described,
            parse_selection(slice(start, start + step), shape),
            nthreads=nthreads,
        )
        if batch.ndim == 1:
            check_text(batch)
        yield from batch


class _RowReader:
    """Reader of consecutive runs of bytes that decodes no chunk twice."""

    def __init__(self, container: Container, nthreads: int | None) -> None:
        self._container = container
        self._nthreads = nthreads
        # The last chunk that was used in part; the next run continues in it.
        self._index = -1
        self._content = b""

    def read(self, start: int, out: memoryview) -> None:
        """Fill `out` with the bytes of the array, starting at byte `start`."""
        container, stop = self._container, start + len(out)
        step = container.chunk_size
        first, final = container.chunk_at(start), container.chunk_at(stop - 1)
        whole: list[int] = []
        for chunk in {first: None, final: None}:
            base = chunk * step
            begin, end = max(start, base), min(stop, base + container.chunk_nbytes(chunk))
            if end - begin == container.chunk_nbytes(chunk):
                whole.append(chunk)
                continue
            if chunk != self._index:
                self._index, self._content = chunk, container.read_chunk(chunk)
            part = memoryview(self._content)[begin - base : end - base]
            out[begin - start : end - start] = part

        def read(chunk: int) -> None:
            base = chunk * step
            end = base + container.chunk_nbytes(chunk)
            container.read_chunk_into(chunk, out[base - start : end - start])

        whole += range(first + 1, final)
        run_indexed(read, sorted(whole), resolve_nthreads(self._nthreads, len(out)))


def check_text(array: AnyArray) -> None:
    """Check that the items of a text array can be converted to str, and are not beyond Unicode."""
    if array.dtype.kind != "U" or not array.nbytes:
        return
    points = np.frombuffer(array.tobytes(), array.dtype.byteorder + "u4")
    if points.max() > _MAX_CODE_POINT:
        raise FormatError("an item contains code points beyond Unicode")
