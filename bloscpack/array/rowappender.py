"""Appending rows to an array in a file; shared by `Array.append` and `Writer`.

Rows are stored one after the other, along the first axis in C order and along the last axis in
Fortran order. So appending rows means appending their bytes and updating the shape.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from math import prod
from threading import RLock
from typing import Any, Self

import numpy as np

from ..container.appender import Appender
from ..container.front import Verify
from ..container.reader import Container
from ..exceptions import NotANumpyArray
from ..format.chunkgrid import ChunkGrid
from ..format.header import FEATURE_ARRAY_CHUNKS
from ..format.metadata import encode_values, json_values
from ..format.rounding import Rounding
from ..notice import warn_unclosed
from ..storage.protocol import closed_on_error
from ..types import AnyArray, BytesLike
from .arraylike import as_array
from .arraymetadata import Description, check_nbytes, stored_view, unpack_array_metadata
from .dtype import Dtype, cast_exactly
from .layout import cut_grid, item_encoder


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


class RowAppender:
    """Array in a file to which rows are appended; takes ownership of `appender`.

    `description` is (dtype, shape, is_fortran) of the array before appending; `metadata` are those
    of the file, with or without those of an array. `committed_attrs` are as of the last flush.
    """

    def __init__(
        self, appender: Appender, description: Description, metadata: Any, name: str
    ) -> None:
        self.dtype, shape, self._is_fortran = description
        if not shape:
            raise ValueError("an array without dimensions has no rows to append to")
        self._row_shape = shape[:-1] if self._is_fortran else shape[1:]
        self._row_nbytes = prod(self._row_shape) * self.dtype.itemsize
        if not self._row_nbytes:
            raise ValueError(
                f"rows of shape {self._row_shape} and {self.dtype} have zero bytes to append"
            )
        self._appender = appender
        self._name = name
        self._metadata = metadata
        self._is_array = isinstance(metadata, dict) and metadata.get("container") == "numpy"
        self._rounding = Rounding.stored(metadata, self.dtype, appender.chunk_size)
        items = None
        if appender.growth.header.features & FEATURE_ARRAY_CHUNKS:
            hint = metadata.get("access") if self._is_array else None
            items = item_encoder(description, hint if hint == "series" else None)
        appender.encode_with(self._rounding, items)
        self._committed = self._encoded_attrs()
        self.committed_attrs = json.loads(self._committed)
        self._lock = RLock()
        self._is_open = True

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
    def shape(self) -> tuple[int, ...]:
        """Shape of the array, including appended rows."""
        nrows = self._appender.nbytes // self._row_nbytes
        return (*self._row_shape, nrows) if self._is_fortran else (nrows, *self._row_shape)

    @property
    def keeps_attrs(self) -> bool:
        """Whether the file can store attrs."""
        return isinstance(self._metadata, dict)

    @property
    def attrs(self) -> dict[str, Any]:
        """User's part of the metadata; may be changed in place until it is committed."""
        if not self._is_array:
            return self._metadata if isinstance(self._metadata, dict) else {}
        attrs: dict[str, Any] = self._metadata.setdefault("attrs", {})
        return attrs

    def append(self, rows: Any) -> None:
        """Append rows, or one row. The caller may reuse their memory when this returns."""
        content = self._content_of(rows)
        with self._alone():
            self._appender.append(content)

    def update_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Set some of the attrs, which must be JSON values."""
        attrs = json_values(dict(attrs), "attrs")  # raises before any change
        with self._alone():
            if self._metadata is None:
                raise ValueError("the file cannot store attrs: it has no metadata section")
            if not self._is_array and not isinstance(self._metadata, dict):
                raise ValueError(
                    "the file cannot store attrs: its metadata are a "
                    f"{type(self._metadata).__name__}, not a mapping"
                )
            self._check_attrs(attrs)
            self.attrs.update(attrs)

    def replace_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Replace all attrs."""
        attrs = json_values(dict(attrs), "attrs")
        with self._alone():
            if not self.keeps_attrs:
                raise ValueError("the file cannot store attrs: it has no metadata section")
            self._check_attrs(attrs)
            if self._is_array:
                self._metadata["attrs"] = dict(attrs)
            else:
                self._metadata = dict(attrs)

    def flush(self) -> None:
        """Make appended rows durable; does nothing if nothing was appended."""
        with self._alone():
            if self._rounding is not None:
                self._rounding.record(self.attrs)
            encoded = self._encoded_attrs()
            self._appender.commit(self._described(), is_changed=encoded != self._committed)
            self._committed, self.committed_attrs = encoded, json.loads(encoded)

    def view(self, *, verify: Verify) -> Container:
        """Return a container that reads the file, including appended rows."""
        with self._alone():
            metadata = self._described() if self._appender.has_grid else None
            return Container.open(self._appender.view(metadata), verify=verify)

    def abandon(self) -> None:
        """Close without flushing: rows appended since the last flush are discarded."""
        with self._lock if self._appender.growth.is_mine else nullcontext():  # see `_alone`
            self._is_open = False
            self._appender.close()

    def close(self) -> None:
        """Flush and close; idempotent.

        If flushing fails, rows appended since the last flush are discarded. In a forked child
        nothing is written, since the file belongs to the parent.
        """
        if not self._appender.growth.is_mine:
            self.abandon()
            return
        with self._lock:
            if not self._is_open:
                return
            try:
                if not self._appender.is_broken:
                    self.flush()
            finally:
                self.abandon()

    def __del__(self) -> None:
        # If __init__ failed, the attributes may be missing.
        if not getattr(self, "_is_open", False) or not self._appender.growth.is_mine:
            return
        is_there = self._appender.growth.is_published
        outcome = (
            "the file is as of the last flush, and rows appended since are lost"
            if is_there
            else "no file was made, and its rows are lost"
        )
        try:
            warn_unclosed("array" if is_there else "Writer", self._name, outcome, self)
        finally:
            self.abandon()

    @property
    def is_published(self) -> bool:
        """Whether the file exists under its final name."""
        return self._appender.growth.is_published

    def _check_attrs(self, attrs: Mapping[str, Any]) -> None:
        if self._rounding is not None:
            self._rounding.check_attrs(attrs)

    def _described(self) -> Any:
        """Return the current metadata, with the current shape."""
        if not self._is_array:
            return json.loads(self._encoded_attrs())
        metadata = {**self._metadata, "shape": list(self.shape)}
        if not metadata.get("attrs", True):
            del metadata["attrs"]  # empty attrs are not stored
        elif "attrs" in metadata:
            metadata["attrs"] = json.loads(self._encoded_attrs())
        # A copy: the caller may change nested values, and a commit compares with the last one.
        return json.loads(json.dumps(metadata))

    def _encoded_attrs(self) -> str:
        attrs = self._metadata.get("attrs", {}) if self._is_array else self._metadata
        return encode_values(attrs, "attrs")

    def _content_of(self, rows: Any) -> memoryview:
        """Return the bytes of `rows` in storage order; raises if they do not fit."""
        # One string may be a row, although `as_array` refuses strings.
        given = np.asarray(rows if isinstance(rows, str | bytes) else as_array(rows))
        if given.dtype != self.dtype:
            given = self._cast(given, is_array=hasattr(rows, "dtype"))
        row_shape, fortran = self._row_shape, self._is_fortran
        if given.shape != row_shape:
            found = given.shape[:-1] if fortran else given.shape[1:]
            if given.ndim != len(row_shape) + 1 or found != row_shape:
                lengths = (*row_shape, "n") if fortran else ("n", *row_shape)
                raise ValueError(
                    f"rows must have shape ({', '.join(map(str, lengths))}), or one row "
                    f"{row_shape}, not {given.shape}"
                )
        stored = np.ascontiguousarray(given.T if fortran else given)
        return stored_view(stored, False).toreadonly()

    def _cast(self, given: AnyArray, *, is_array: bool) -> AnyArray:
        exact = cast_exactly(given, self.dtype)
        if exact is not None:
            return exact
        # Python numbers have no dtype: numpy makes [1] int64 and [0.1] float64, so these are
        # accepted if their values fit.
        if not is_array and given.dtype.kind in "biufc" and self.dtype.kind in "biufc":
            with np.errstate(all="ignore"):
                cast = given.astype(self.dtype)
            is_rounded = given.dtype.kind in "fc" and np.can_cast(
                given.dtype, self.dtype, "same_kind"
            )
            if is_rounded or np.array_equal(cast.astype(given.dtype), given):
                return cast
        raise TypeError(
            f"rows are {given.dtype}, which cannot be cast to {self.dtype} without loss; "
            f"convert them with astype"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the open file."""
        # First, as a thread that a forked child does not have may hold its copy of the lock.
        self._appender.growth.check_mine()
        with self._lock:
            if not self._is_open:
                raise ValueError("I/O operation on a closed file")
            yield


def described_rows(dtype: Dtype, shape: tuple[int | None, ...]) -> Description:
    """Return the description of an empty array of rows: (dtype, (0, *row shape), False).

    Raises
    ------
    ValueError
        `shape` is not None followed by lengths.
    """
    if not shape or shape[0] is not None:
        raise ValueError(f"shape must start with None (the unknown number of rows), not {shape}")
    for length in shape[1:]:
        if type(length) is not int or length < 0:
            raise ValueError(f"shape must be (None, length, ...), not {shape}")
    return dtype, (0, *(length for length in shape[1:] if length is not None)), False
