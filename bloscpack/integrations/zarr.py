"""An array in a file as a Zarr array, through a Zarr store that reads and changes the file.

Each key of the store is computed: the metadata from the file's header, a chunk by reading, checking
and decoding chunks of the file. A damaged chunk raises our error. Zarr reads a missing key as fill
values, so every key within the array exists. A chunk that Zarr sets is assigned to its part of the
array, and metadata that Zarr sets change the shape or the attrs. All changes are one commit.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np

from ..array.array import Array
from ..array.arraymetadata import new_array, stored_view
from ..array.attrs import plain
from ..container.front import Verify
from ..exceptions import UnsupportedError
from ..parallel.imports import optional_library
from ..parallel.threads import run_beside
from ..types import AnyArray
from .zarrlayout import ARRAY_KEY, ATTRS_KEY, ZarrLayout, json_text

with optional_library("'zarr>=3.1.4'", "zarr"):
    import zarr
    from zarr.abc.store import (
        ByteRequest,
        OffsetByteRequest,
        RangeByteRequest,
        Store,
        SuffixByteRequest,
    )
    from zarr.core.buffer import Buffer, BufferPrototype

__all__ = ["BloscpackStore", "as_zarr"]

# For a larger array, the chunks are checked on opening: the file may promise more than it holds.
_UNCHECKED_NBYTES = 1 << 28


def as_zarr(
    path: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    verify: Verify = True,
    storage_options: Mapping[str, Any] | None = None,
) -> zarr.Array:
    """Return an array in a file as a Zarr array.

    Parameters
    ----------
    path : str, PathLike, bytes-like, binary file or Array
        Anything that `bloscpack.open` opens, also a URL; or an open array, which is then shared.
    mode : {"r", "r+"}, default "r"
        "r" to read. "r+" to read and change the file, which needs a path, or an array that is open
        in this mode.
    verify : bool or "always", default True
        Compare the checksum of each chunk once, the first time it is read; at every read
        ("always"); or never (False). An open array keeps its own setting.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL.

    Returns
    -------
    zarr.Array
        Array of the shape and dtype of the array in the file, byte order included, with its attrs.
        ``z.store.close()`` closes the file; in mode "r+", it writes all changes in one step.

    Raises
    ------
    UnsupportedError
        Zarr does not have the dtype: floats of more than 64 bits, types of ml_dtypes, records that
        are padded or nested.
    FormatError
        The file is damaged, or of another type.
    OSError
        The file cannot be opened. `LockedError`: another writer has it open.
    ValueError
        `mode` is neither, or it is "r+", but not that of the open array.
    ImportError
        zarr is not installed.

    Notes
    -----
    No data are copied or written: a read decodes the chunks it touches, in Zarr's threads. The Zarr
    array has the chunks of the file if these are whole rows or a grid. Otherwise its chunks are
    whole rows of about as many bytes, and a chunk of the file that two of them share is decoded for
    each. Damage raises the error that reading by `bloscpack.open` raises, and never gives fill
    values. The array
    pickles as the path of its file, and forked children may read.

    In mode "r+", the handle reads its own changes. They are in the file, as one commit, after
    ``z.store.flush()`` or ``z.store.close()``. If a block ``with z.store:`` ends by an exception,
    nothing since the last flush is written. Items, shape and attrs change; other metadata do not,
    and the store has no other array. Zarr writes whole chunks, also for a part of one: threads
    must not write into the same Zarr chunk at the same time.

    Opening a URL makes one request, each chunk one more. If the decoded size is at least 256 MiB
    and over 16 times that of the file, every chunk is checked on opening.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.save("ramp.blp", np.arange(60).reshape(20, 3), chunks=8)
    >>> z = bp.as_zarr("ramp.blp")
    >>> z.shape, z.chunks, z.read_only
    ((20, 3), (8, 3), True)
    >>> z[18:]
    array([[54, 55, 56],
           [57, 58, 59]])
    >>> with bp.as_zarr("ramp.blp", "r+").store as store:
    ...     z = zarr.open(store)
    ...     z[4:6, 1] = 0
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"mode must be 'r' or 'r+', not {mode!r}")
    shared = isinstance(path, Array)
    array = path
    if not shared:
        # Zarr reads several chunks in parallel, so each read uses one thread.
        nthreads = 1 if mode == "r" else None
        array = Array(path, mode, verify=verify, nthreads=nthreads, storage_options=storage_options)
    try:
        store = BloscpackStore(array, mode)
        opened = zarr.open_array(store=store, mode=mode, zarr_format=2)
        # Otherwise Zarr deletes chunks of fill values, in place of writing them.
        config = {"write_empty_chunks": True}
        return zarr.Array(zarr.AsyncArray(opened.metadata, opened.store_path, config=config))
    except BaseException as err:
        name = array.name
        if not shared:
            array.close()
        if isinstance(err, RecursionError):  # Zarr recurses deeper than the check of the attrs
            raise UnsupportedError(
                "attrs: nested too deep for Zarr; read it with bloscpack.open"
            ).at(path=name) from None
        raise


class BloscpackStore(Store):  # type: ignore[misc]
    """Zarr store with the array of a Bloscpack file.

    Parameters
    ----------
    array : Array
        Open array, which is closed with the store.
    mode : {"r", "r+"}, default "r"
        "r+" if the array is open for changes, and the store shall make them.

    Raises
    ------
    UnsupportedError
        Zarr does not have the dtype.
    ValueError
        The array is not open for changes.
    """

    def __init__(self, array: Array, mode: Literal["r", "r+"] = "r") -> None:
        super().__init__(read_only=mode == "r")
        if mode == "r+" and array.mode != "r+":
            raise ValueError(f"the array is open in mode {array.mode!r}, not 'r+'")
        self._array = array
        self._last_layout = ZarrLayout.of(array)
        container = array.container
        # Zarr allocates by the shape before it reads. That costs nothing until it is filled, but
        # the shape must not exceed what the chunks can hold.
        container.check_size(array.nbytes if array.nbytes > _UNCHECKED_NBYTES else 0)
        self._name = container.name
        # Chunks that Zarr has deleted: before a change of the shape, or as they are fill values.
        self._deleted: set[str] = set()
        self._fault: BaseException | None = None

    @property
    def _layout(self) -> ZarrLayout:
        """Layout with the current shape; Zarr never changes that of chunks."""
        layout, shape = self._last_layout, self._array.shape
        if layout.shape != shape:
            self._last_layout = layout = replace(layout, shape=shape)
        return layout

    def __eq__(self, other: object) -> bool:
        """Return whether both are stores of the same state of the same file."""
        if not isinstance(other, BloscpackStore):
            return NotImplemented
        if self._array is other._array:
            return True
        try:
            return self._array.__reduce__() == other._array.__reduce__()
        except (TypeError, ValueError):  # opened from a file object, or closed
            return False

    def __repr__(self) -> str:
        return f"BloscpackStore({self._name or 'memory'!r})"

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or None if it does not exist; errors as for `Array.read`."""
        if key in self._deleted:
            return None
        value = await run_beside(lambda: self._value(key))
        if value is None:
            return None
        return prototype.buffer.from_bytes(value[_bounds(byte_range, len(value))])

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return the values of several keys, one after the other."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether a key exists, without reading."""
        return key in (ARRAY_KEY, ATTRS_KEY) or self._layout.region(key) is not None

    async def getsize(self, key: str) -> int:
        """Return the size of a value in bytes; a chunk counts decoded."""
        if self._layout.region(key) is not None:
            return prod(self._layout.chunks) * self._layout.dtype.itemsize
        value = self._value(key)
        if value is None:
            raise FileNotFoundError(key)
        return len(value)

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of the file."""
        return 0 if prefix.strip("/") else self._array.cbytes

    @property
    def supports_writes(self) -> bool:
        """Whether the store is open for changes."""
        return not self.read_only

    @property
    def supports_deletes(self) -> bool:
        """Whether the store is open for changes, although only chunks can be deleted."""
        return not self.read_only

    @property
    def supports_listing(self) -> bool:
        """Always True."""
        return True

    async def set(self, key: str, value: Buffer) -> None:
        """Set a chunk, the shape or the attrs; raises as `Array.__setitem__` and `resize` do.

        Raises
        ------
        UnsupportedError
            The store is read-only, or the key or the metadata are not those of this array.
        """
        self._check_can_change()
        content = value.to_bytes()
        await run_beside(lambda: self._set(key, content))

    async def delete(self, key: str) -> None:
        """Delete a chunk, which makes its items fill values; raises as `set` does."""
        self._check_can_change()
        if self._layout.region(key) is None:
            raise self._refused(f"{key!r:.80} cannot be deleted")
        self._deleted.add(key)

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        yield ARRAY_KEY
        yield ATTRS_KEY
        for key in self._layout.iter_keys():
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin with `prefix`."""
        async for key in self.list():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys in a folder; all keys are at the top."""
        if not prefix.strip("/"):
            async for key in self.list():
                yield key

    def with_read_only(self, read_only: bool = False) -> "BloscpackStore":
        """Return this store, or one that only reads the same open array.

        Raises
        ------
        UnsupportedError
            A writable store is requested of a read-only one.
        """
        if read_only == self.read_only:
            return self
        if not read_only:
            raise self._refused("it is read-only")
        other = BloscpackStore(self._array)
        other._deleted = self._deleted
        return other

    def flush(self) -> None:
        """Write all changes to the file, in one step; raises as `Array.flush` does."""
        self._check_can_change()
        self._fill_deleted()
        self._array.flush()

    def close(self) -> None:
        """Write all changes and close the file; idempotent."""
        super().close()
        try:
            if self._fault is None:
                self._fill_deleted()
        except BaseException as err:
            self._fault = err
            raise
        finally:
            fault = self._fault
            self._array.__exit__(fault and type(fault), fault, None)

    def __exit__(self, kind: object, err: BaseException | None, _: object) -> None:
        """Close the file; after an exception, nothing since the last flush is written."""
        self._fault = self._fault or err
        self.close()

    def _check_can_change(self) -> None:
        if self.read_only:
            raise self._refused("it is read-only")
        if self._fault is not None:
            raise ValueError(
                f"{self._name}: changing the shape has failed before; close the store to restore "
                "the state of the last flush"
            )

    def _refused(self, reason: str) -> UnsupportedError:
        return UnsupportedError(
            f"Zarr cannot do this to a Bloscpack file: {reason}; as_zarr(path, 'r+') can change "
            "items, shape and attrs of the array that it has"
        ).at(path=self._name)

    def _set(self, key: str, content: bytes) -> None:
        """Set a value."""
        if key == ARRAY_KEY:
            self._set_document(json.loads(content))
        elif key == ATTRS_KEY:
            attrs = json.loads(content)
            if attrs != plain(self._array.attrs):
                self._array.attrs = attrs
        else:
            layout = self._layout
            region = layout.region(key)
            if region is None:
                raise self._refused(f"{key!r:.80} is not of its array")
            whole = np.frombuffer(content, layout.dtype)
            whole = whole.reshape(layout.chunks, order="F" if layout.is_fortran else "C")
            self._array[region] = whole[tuple(slice(each.stop - each.start) for each in region)]
            self._deleted.discard(key)

    def _set_document(self, document: dict[str, Any]) -> None:
        """Change the shape, if nothing else of the metadata differs."""
        layout = self._layout
        shape = tuple(document.get("shape", ()))
        known = {"dimension_separator": ".", **replace(layout, shape=shape).document()}
        if {"dimension_separator": ".", **document} != known:
            raise self._refused("metadata other than the shape would change")
        if shape == layout.shape:
            return
        try:
            self._array.resize(shape)
        except BaseException as err:
            if self._deleted:  # by Zarr, before it sets the shape
                self._fault = err
                err.add_note("nothing since the last flush will be written")
            raise
        after = self._layout
        # In place, as stores that only read have the same set.
        self._deleted -= {key for key in self._deleted if after.region(key) is None}

    def _fill_deleted(self) -> None:
        """Write chunks that Zarr has deleted and not set again."""
        while self._deleted:
            region = self._layout.region(self._deleted.pop())
            if region is not None:
                default = zarr.dtype.parse_dtype(self._layout.dtype, zarr_format=2)
                self._array[region] = np.array(default.default_scalar(), self._layout.dtype)

    def _value(self, key: str) -> memoryview | None:
        if key == ARRAY_KEY:
            return _json_bytes(self._layout.document())
        if key == ATTRS_KEY:
            return _json_bytes(self._array.attrs)
        region = self._layout.region(key)
        return None if region is None else self._read(region)

    def _read(self, region: tuple[slice, ...]) -> memoryview:
        """Return the items of a chunk as bytes in its order, with zeros beyond the array."""
        layout, array = self._layout, self._array
        found: AnyArray = array.read(region)
        if found.shape != layout.chunks:
            whole = new_array(layout.chunks, layout.dtype, layout.is_fortran)
            np.frombuffer(stored_view(whole, layout.is_fortran), np.uint8)[:] = 0
            whole[tuple(slice(length) for length in found.shape)] = found
            found = whole
        return stored_view(found, layout.is_fortran)


def _json_bytes(value: Any) -> memoryview:
    return memoryview(json_text(value).encode("ascii"))


def _bounds(byte_range: ByteRequest | None, nbytes: int) -> slice:
    """Return the requested part of a value of `nbytes` bytes."""
    if isinstance(byte_range, RangeByteRequest):
        return slice(byte_range.start, byte_range.end)
    if isinstance(byte_range, OffsetByteRequest):
        return slice(byte_range.offset, None)
    if isinstance(byte_range, SuffixByteRequest):
        return slice(max(0, nbytes - byte_range.suffix), None)
    return slice(None)
