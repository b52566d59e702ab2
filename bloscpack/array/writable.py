"""Array in a file that this process may change: its attrs, its lock and its end.

`RowAppender` adds rows to a file of version 3, and `ArrayChanges` changes a log.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod
from threading import RLock
from typing import Any, Protocol, Self

import numpy as np

from ..container.front import Verify
from ..container.reader import Container
from ..format.codec import ItemEncoder
from ..format.header import FEATURE_ARRAY_CHUNKS
from ..format.metadata import attr_values, describes_array, encode_values
from ..format.rounding import Rounding
from ..notice import notice, warn_unclosed
from ..parallel.imports import importing
from .arraylike import as_array, filled, is_data_array
from .arraymetadata import Description, stored_view
from .attrs import check_dims
from .dtype import cast_rows
from .layout import item_encoder


class OwnedFile(Protocol):
    """File that one process changes."""

    @property
    def is_mine(self) -> bool:
        """Whether this process opened it."""

    def check_mine(self) -> None:
        """Raise LockedError if another process, of which this is a fork, opened it."""

    @property
    def is_published(self) -> bool:
        """Whether it exists under its final name."""


class WritableArray(ABC):
    """Array in a file that this process may change.

    Parameters
    ----------
    file : OwnedFile
        The file.
    description : Description
        (dtype, shape, is_fortran) of the array before a change.
    metadata : JSON value
        Those of the file, with or without those of an array.
    name : str
        Name of the file for messages.
    chunk_size : int
        Decoded size of a chunk, or of a row of a chunk grid, in bytes.

    Attributes
    ----------
    committed_attrs : dict
        The attrs as of the last flush.
    """

    shape: tuple[int, ...]

    @classmethod
    @abstractmethod
    def open(
        cls, path: str | os.PathLike[str], *, nthreads: int | None = None, locking: bool = True
    ) -> Self:
        """Open a file of an array or of bytes; raises as `UpdateFile.open` does."""

    def __init__(
        self,
        file: OwnedFile,
        description: Description,
        metadata: Any,
        name: str,
        chunk_size: int,
    ) -> None:
        self.dtype, shape, self._is_fortran = description
        self._set_rows(shape)
        self._file = file
        self._name = name
        self._metadata = metadata
        self._is_array = describes_array(metadata)
        self._rounding = Rounding.stored(metadata, self.dtype, chunk_size)
        self._committed = self._encoded_attrs()
        self.committed_attrs = json.loads(self._committed)
        self._lock = RLock()
        self._is_open = True

    @abstractmethod
    def append(self, rows: Any) -> None:
        """Append rows, or one row. The caller may reuse their memory when this returns."""

    def reading(self) -> AbstractContextManager[Any]:
        """Return a context in which no other thread changes what is read."""
        return nullcontext()  # rows that are added do not change others

    @abstractmethod
    def view(self, *, verify: Verify) -> Container:
        """Return a container that reads the file, including all changes."""

    @abstractmethod
    def _commit(self, metadata: Any, *, is_changed: bool) -> None:
        """Make all changes durable, and `metadata` if they have changed."""

    @abstractmethod
    def _release(self) -> None:
        """Close the file; what was not committed is lost."""

    def _set_rows(self, shape: tuple[int, ...]) -> None:
        """Set the shape of the rows to that of an array of this shape."""
        self._row_shape = shape[:-1] if self._is_fortran else shape[1:]
        self._row_nbytes = prod(self._row_shape) * self.dtype.itemsize

    @property
    @abstractmethod
    def is_broken(self) -> bool:
        """Whether writing has failed."""

    def _item_encoder(self, features: int, shape: tuple[int, ...]) -> ItemEncoder | None:
        """Return the encoder of array chunks for a file of these features; None without them."""
        if not features & FEATURE_ARRAY_CHUNKS:
            return None
        hint = self._metadata.get("access") if self._is_array else None
        description = self.dtype, shape, self._is_fortran
        return item_encoder(description, hint if hint == "series" else None)

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

    def update_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Set some of the attrs, which must be JSON values."""
        attrs = attr_values(attrs)  # raises before any change
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
        attrs = attr_values(attrs)
        with self._alone():
            if not self.keeps_attrs:
                raise ValueError("the file cannot store attrs: it has no metadata section")
            self._check_attrs(attrs)
            if self._is_array:
                self._metadata["attrs"] = dict(attrs)
            else:
                self._metadata = dict(attrs)

    def flush(self) -> None:
        """Make all changes durable; does nothing without changes."""
        with self._alone():
            if self._rounding is not None:
                self._rounding.record(self.attrs)
            encoded = self._encoded_attrs()
            self._commit(self._described(), is_changed=encoded != self._committed)
            self._committed, self.committed_attrs = encoded, json.loads(encoded)

    def abandon(self) -> None:
        """Close without flushing: changes since the last flush are discarded."""
        with self._lock if self._file.is_mine else nullcontext():  # see `_alone`
            self._is_open = False
            self._release()

    def close(self) -> None:
        """Flush and close; idempotent.

        If flushing fails, changes since the last flush are discarded. In a forked child
        nothing is written, since the file belongs to the parent.
        """
        if not self._file.is_mine:
            self.abandon()
            return
        with self._lock:
            if not self._is_open:
                return
            try:
                if not self.is_broken:
                    self.flush()
                else:
                    notice("%s: a change failed; those since the last flush are lost", self._name)
            finally:
                self.abandon()

    def __del__(self) -> None:
        # If __init__ failed, the attributes may be missing.
        if not getattr(self, "_is_open", False) or not self._file.is_mine:
            return
        is_there = self._file.is_published
        outcome = (
            "the file is as of the last flush, and changes since are lost"
            if is_there
            else "no file was made, and its rows are lost"
        )
        try:
            warn_unclosed("array" if is_there else "Writer", self._name, outcome, self)
        finally:
            self.abandon()

    def _check_attrs(self, attrs: Mapping[str, Any]) -> None:
        if self._is_array:
            check_dims(attrs, self.shape)
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
        if is_data_array(rows):
            raise TypeError(
                "rows have no labels, and coordinates along them would be too short: close the "
                "file and use bloscpack.append(path, x), or append x.to_numpy()"
            )
        rows = self._without_mask(rows)
        # One string may be a row, although `as_array` refuses strings.
        given = np.asarray(rows if isinstance(rows, str | bytes) else as_array(rows))
        if given.dtype != self.dtype:
            given = cast_rows(given, self.dtype, is_array=hasattr(rows, "dtype"))
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

    def _without_mask(self, values: Any) -> Any:
        """Return a masked array with the fill value of the file; other values as they are."""
        if not np.ma.is_masked(values) or "_FillValue" not in self.attrs:
            return values
        with importing:  # on use: few values have a mask
            from .axislabels import DECODED

        fill = self.attrs["_FillValue"]
        if self.attrs.get(DECODED) is True:  # it has no effect
            return values
        if values is np.ma.masked:
            values = np.ma.masked_array(np.zeros((), self.dtype), mask=True)
        if values.dtype != self.dtype:
            raise TypeError(
                f"the array has masked items and dtype {values.dtype}, the file {self.dtype}: use "
                "x.astype, so that its fill value is compared with the items as they are stored"
            )
        if self._rounding is not None and fill == fill:
            raise ValueError("items may be rounded to the fill value of the file: use x.filled")
        is_text = self.dtype.kind == "S" and isinstance(fill, str)  # JSON has no bytes
        return filled(values, fill.encode() if is_text else fill)[0]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the open file."""
        # First, as a thread that a forked child does not have may hold its copy of the lock.
        self._file.check_mine()
        with self._lock:
            if not self._is_open:
                raise ValueError("I/O operation on a closed file")
            yield


class Breakable(Protocol):
    """Changes of which one may fail.

    Attributes
    ----------
    is_broken : bool
        Whether one has failed.
    """

    is_broken: bool


@contextmanager
def breaking(changes: Breakable) -> Iterator[None]:
    """Refuse further changes if the block fails, which may have made a part of one."""
    if changes.is_broken:
        raise ValueError(
            "a change has failed before; close the file to restore the state of the last flush"
        )
    try:
        yield
    except BaseException:
        changes.is_broken = True
        raise
