"""Rows onto the end of an array in a file: what `Array.append` and `Writer` have in common.

Rows lie one behind the other in the content: along the first axis of an array in C order, along the
last one in Fortran order. So appending rows is appending their bytes, and the shape follows.
"""

import json
import os
from collections.abc import Mapping
from math import prod
from threading import RLock
from typing import Any, Self

import numpy as np

from ..container.appender import Appender
from ..container.reader import Container, Verify
from ..exceptions import NotANumpyArray, closed_on_error, warn_unclosed
from ..types import AnyArray
from .arraylike import as_array
from .dtype import Dtype
from .layout import Description, check_nbytes, stored_view, unpack_array_metadata


class RowAppender:
    """An array at the end of which rows are put.

    Parameters
    ----------
    appender : Appender
        The file; it becomes this object's.
    description : (dtype, shape, is_fortran)
        The array so far.
    metadata : JSON value
        Those of the file, of an array or not.
    name : str
        Of the file, for messages.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the array.
    committed_attrs : dict
        The attrs as of the last flush.
    """

    def __init__(
        self, appender: Appender, description: Description, metadata: Any, name: str
    ) -> None:
        self.dtype, shape, self._is_fortran = description
        if not shape:
            raise ValueError("an array of no dimension has no rows to append to")
        self._row_shape = shape[:-1] if self._is_fortran else shape[1:]
        self._row_nbytes = prod(self._row_shape) * self.dtype.itemsize
        if not self._row_nbytes:
            raise ValueError(
                f"rows of shape {self._row_shape} and {self.dtype} have no bytes to append"
            )
        self._appender = appender
        self._name = name
        self._metadata = metadata
        self._is_array = isinstance(metadata, dict) and metadata.get("container") == "numpy"
        self._committed = self._encoded_attrs()
        self.committed_attrs = json.loads(self._committed)
        self._lock = RLock()
        self._is_open = True

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, nthreads: int | None = None, locking: bool = True
    ) -> Self:
        """Open a file of an array, or of bytes; errors as for `Appender.open`, and more.

        Raises
        ------
        ValueError
            The array has no rows, or rows of no bytes.
        FormatError
            The metadata do not fit the chunks.
        """
        appender, metadata = Appender.open(path, nthreads=nthreads, locking=locking)
        with closed_on_error(appender, os.fspath(path)):
            try:
                description = unpack_array_metadata(metadata)
            except NotANumpyArray:
                description = np.dtype(np.uint8), (appender.nbytes,), False
            check_nbytes(appender, description[0], description[1])
            return cls(appender, description, metadata, os.fspath(path))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape with all that was appended."""
        nrows = self._appender.nbytes // self._row_nbytes
        return (*self._row_shape, nrows) if self._is_fortran else (nrows, *self._row_shape)

    @property
    def keeps_attrs(self) -> bool:
        """Whether the file has a place for attrs."""
        return isinstance(self._metadata, dict)

    @property
    def attrs(self) -> dict[str, Any]:
        """The user's part of the metadata, to be changed in place until it is committed."""
        if not self._is_array:
            return self._metadata if isinstance(self._metadata, dict) else {}
        attrs: dict[str, Any] = self._metadata.setdefault("attrs", {})
        return attrs

    def append(self, rows: Any) -> None:
        """Take rows, or one row; they are the caller's again when this returns."""
        content = self._content_of(rows)
        with self._lock:
            self._check_open()
            self._appender.append(content)

    def update_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Set some of the attrs; they must be JSON values."""
        json.dumps(dict(attrs))  # what cannot be stored is refused before it is taken
        with self._lock:
            self._check_open()
            if self._metadata is None:
                raise ValueError("the file has no metadata section, so that it can have no attrs")
            if not self._is_array and not isinstance(self._metadata, dict):
                raise ValueError("the metadata of the file are no mapping")
            self.attrs.update(attrs)

    def replace_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Set the attrs to these."""
        json.dumps(dict(attrs))
        with self._lock:
            self._check_open()
            if not self.keeps_attrs:
                raise ValueError("the file has no metadata section, so that it can have no attrs")
            if self._is_array:
                self._metadata["attrs"] = dict(attrs)
            else:
                self._metadata = dict(attrs)

    def flush(self) -> None:
        """Make everything durable that was appended; nothing is done if nothing was."""
        with self._lock:
            self._check_open()
            encoded = self._encoded_attrs()
            self._appender.commit(self._described(), is_changed=encoded != self._committed)
            self._committed, self.committed_attrs = encoded, json.loads(encoded)

    def view(self, *, verify: Verify) -> Container:
        """Return the file with all that was appended, for reading."""
        with self._lock:
            self._check_open()
            return Container(self._appender.view(), verify=verify)

    def abandon(self) -> None:
        """Close; what was appended since the last flush is given up."""
        with self._lock:
            self._is_open = False
            self._appender.close()

    def close(self) -> None:
        """Flush and close; if that fails, what was appended since the last flush is given up.

        In a forked child nothing happens: the file is the parent's. Idempotent.
        """
        with self._lock:
            if not self._is_open:
                return
            try:
                if self._appender.is_mine and not self._appender.is_broken:
                    self.flush()
            finally:
                self.abandon()

    def __del__(self) -> None:
        # Of an object whose making failed there may be no attributes.
        if not getattr(self, "_is_open", False) or not self._appender.is_mine:
            return
        is_there = self._appender.is_published
        outcome = (
            "the file is as of the last flush, and what was appended since is lost"
            if is_there
            else "no file was made, and its rows are lost"
        )
        try:
            warn_unclosed("array" if is_there else "Writer", self._name, outcome, self)
        finally:
            self.abandon()

    @property
    def is_published(self) -> bool:
        """Whether the file is there."""
        return self._appender.is_published

    def _described(self) -> Any:
        """Return the metadata as they are now."""
        if not self._is_array:
            return self._metadata
        metadata = {**self._metadata, "shape": list(self.shape)}
        if not metadata.get("attrs", True):
            del metadata["attrs"]  # empty ones are not stored
        return json.loads(json.dumps(metadata))

    def _encoded_attrs(self) -> str:
        return json.dumps(self._metadata.get("attrs", {}) if self._is_array else self._metadata)

    def _content_of(self, rows: Any) -> memoryview:
        """Return the bytes of `rows` as they are stored.

        Raises
        ------
        TypeError
            Their dtype cannot be cast safely.
        ValueError
            Their shape is of no rows of this array.
        """
        # A single text may be a row.
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
        if np.can_cast(given.dtype, self.dtype, "safe"):
            return given.astype(self.dtype)
        # Numbers of Python's have no dtype of their own: numpy makes [1] int64 and [0.1] float64.
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

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("I/O operation on a closed file")
        self._appender.check_mine()


def described_rows(dtype: Dtype, shape: tuple[int | None, ...]) -> Description:
    """Return (dtype, shape, False) of an array of no rows yet.

    Raises
    ------
    ValueError
        `shape` does not start with None and go on with lengths.
    """
    if not shape or shape[0] is not None:
        raise ValueError(f"shape must start with None, the rows to come, not {shape}")
    for length in shape[1:]:
        if type(length) is not int or length < 0:
            raise ValueError(f"shape must be (None, length, ...), not {shape}")
    return dtype, (0, *(length for length in shape[1:] if length is not None)), False
