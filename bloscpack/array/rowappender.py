"""Appending rows to an array in a file; shared by `Array.append` and `Writer`.

Rows are stored one after the other, along the first axis in C order and along the last axis in
Fortran order. So appending rows means appending their bytes and updating the shape.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any, Self

import numpy as np

from ..container.appender import Appender
from ..container.front import Verify
from ..container.reader import Container
from ..exceptions import NotANumpyArray
from ..format.chunkgrid import ChunkGrid
from ..storage.protocol import closed_on_error
from ..types import BytesLike
from .arraymetadata import Description, check_nbytes, statistics_type, unpack_array_metadata
from .dtype import Dtype
from .layout import checked_shape, cut_grid
from .writable import WritableArray


class GridRows:
    """Division of rows of an array into the chunks of a grid, and back.

    The number of rows of the grid's array does not matter. `row_nchunks` and `row_nbytes` are those
    of a full row of the grid, decoded.
    """

    def __init__(self, grid: ChunkGrid) -> None:
        self._grid = grid
        self._item = np.dtype((np.void, grid.itemsize))
        self._shape = grid.shape[1:]
        self.row_nchunks = grid.row_nchunks
        self.row_nbytes = grid.with_rows(grid.chunks[0]).nbytes

    def cut(self, content: BytesLike) -> Iterable[BytesLike]:
        """Return the chunks of a row of the grid, given the stored bytes of its rows."""
        if not len(content):
            return (b"",)  # an array without rows is one chunk without bytes
        rows = np.frombuffer(content, self._item).reshape(-1, *self._shape)
        return cut_grid(rows, self._grid.with_rows(len(rows)))

    def join(self, chunks: Iterable[bytes]) -> bytes:
        """Return the stored bytes of the rows in the chunks of a row of the grid."""
        chunks = list(chunks)
        nrows = sum(map(len, chunks)) * self._grid.chunks[0] // self.row_nbytes
        grid = self._grid.with_rows(nrows)
        rows = np.empty(grid.shape, self._item)
        for index, content in enumerate(chunks if nrows else ()):
            box = tuple(slice(side.start, side.stop) for side in grid.box(index))
            rows[box] = np.frombuffer(content, self._item).reshape(grid.lengths(index))
        return rows.tobytes()


def _grid_rows(grid: ChunkGrid, metadata: Any) -> GridRows:
    """Return the division into the chunks of a file."""
    itemsize = unpack_array_metadata(metadata)[0].itemsize
    if not itemsize or not prod(grid.shape[1:]):
        raise ValueError("rows without bytes cannot be appended")
    grid = replace(grid, itemsize=itemsize)  # which the grid of a file without rows lacks
    grid.check()
    return GridRows(grid)


class RowAppender(WritableArray):
    """Array in a file to which rows are appended; takes ownership of `appender`.

    `description` is (dtype, shape, is_fortran) of the array before appending; `metadata` are those
    of the file, with or without those of an array.
    """

    def __init__(
        self, appender: Appender, description: Description, metadata: Any, name: str
    ) -> None:
        shape = description[1]
        if not shape:
            raise ValueError("an array without dimensions has no rows to append to")
        super().__init__(appender.growth, description, metadata, name, appender.chunk_size)
        if not self._row_nbytes:
            self._is_open = False
            raise ValueError(
                f"rows of shape {self._row_shape} and {self.dtype} have zero bytes to append"
            )
        self._appender = appender
        features = appender.growth.header.features
        statistics = None
        if appender.growth.has_statistics:
            statistics = statistics_type().stored(self.dtype, appender.chunk_size)
        appender.encode_with(self._rounding, self._item_encoder(features, shape), statistics)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, nthreads: int | None = None, locking: bool = True
    ) -> Self:
        """Open a file of an array or of bytes.

        Raises
        ------
        ValueError
            The array has no dimensions, or its rows have zero bytes.
        FormatError
            The metadata do not fit the chunks.

        Also raises the errors of `Appender.open`.
        """
        appender, metadata = Appender.open(path, _grid_rows, nthreads=nthreads, locking=locking)
        with closed_on_error(appender, os.fspath(path)):
            try:
                description = unpack_array_metadata(metadata)
            except NotANumpyArray:
                description = np.dtype(np.uint8), (appender.nbytes,), False
            check_nbytes(appender, description[0], description[1])
            return cls(appender, description, metadata, os.fspath(path))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the array, including appended rows."""
        nrows = self._appender.nbytes // self._row_nbytes
        return (*self._row_shape, nrows) if self._is_fortran else (nrows, *self._row_shape)

    def append(self, rows: Any) -> None:
        """Append rows, or one row. The caller may reuse their memory when this returns."""
        content = self._content_of(rows)
        with self._alone():
            self._appender.append(content)

    def view(self, *, verify: Verify) -> Container:
        """Return a container that reads the file, including appended rows."""
        with self._alone():
            metadata = self._described() if self._appender.has_grid else None
            return Container.open(self._appender.view(metadata), verify=verify)

    @property
    def is_published(self) -> bool:
        """Whether the file exists under its final name."""
        return self._file.is_published

    def _commit(self, metadata: Any, *, is_changed: bool) -> None:
        self._appender.commit(metadata, is_changed=is_changed)

    def _release(self) -> None:
        self._appender.close()

    @property
    def is_broken(self) -> bool:
        """Whether writing has failed."""
        return self._appender.is_broken


def described_rows(dtype: Dtype, shape: Any) -> Description:
    """Return the description of an empty array of rows: (dtype, (0, *row shape), False).

    Raises
    ------
    ValueError
        `shape` is not None followed by lengths.
    """
    lengths = tuple(shape) if isinstance(shape, Iterable) else ()
    if lengths[:1] != (None,):
        raise ValueError(
            "shape must start with None (the unknown number of rows), such as (None, 4), not "
            f"{shape!r:.80}"
        )
    return dtype, (0, *checked_shape(lengths[1:])), False
