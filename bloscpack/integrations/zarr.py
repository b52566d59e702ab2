"""An array in a file as a Zarr array, through a Zarr store that reads the file.

The file is not changed. Each key of the store is computed: the metadata from the file's header, a
chunk by reading, checking and decoding chunks of the file. A damaged chunk raises our error. Zarr
reads a missing key as fill values, so every key within the array exists.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from ..array.array import Array
from ..array.arraymetadata import new_array, stored_view
from ..container.front import Verify
from ..exceptions import UnsupportedError
from ..parallel.threads import run_beside
from ..types import AnyArray
from .zarrlayout import ARRAY_KEY, ATTRS_KEY, ZarrLayout, json_text

try:
    import zarr
    from zarr.abc.store import (
        ByteRequest,
        OffsetByteRequest,
        RangeByteRequest,
        Store,
        SuffixByteRequest,
    )
    from zarr.core.buffer import Buffer, BufferPrototype
except ImportError as err:
    raise ImportError(
        f"{err}: pip install 'zarr>=3.1.4' (or 'bloscpack[zarr]')", name=err.name
    ) from err

__all__ = ["BloscpackStore", "as_zarr"]

# For a larger array, the chunks are checked on opening: the file may promise more than it holds.
_UNCHECKED_NBYTES = 1 << 28


def as_zarr(
    path: Any,
    *,
    verify: Verify = True,
    storage_options: Mapping[str, Any] | None = None,
) -> zarr.Array:
    """Return an array in a file as a read-only Zarr array.

    Parameters
    ----------
    path : str, PathLike, bytes-like, binary file or Array
        Anything that `bloscpack.open` opens, also a URL; or an open array, which is then shared.
    verify : bool or "always", default True
        Compare the checksum of each chunk once, the first time it is read; at every read
        ("always"); or never (False). An open array keeps its own setting.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL.

    Returns
    -------
    zarr.Array
        Array of the shape and dtype of the array in the file, byte order included, with its attrs.
        ``z.store.close()`` closes the file.

    Raises
    ------
    UnsupportedError
        Zarr does not have the dtype: floats of more than 64 bits, types of ml_dtypes, records that
        are padded or nested.
    FormatError
        The file is damaged, or of another type.
    OSError
        The file cannot be opened.
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
    """
    shared = isinstance(path, Array)
    array = path
    if not shared:  # Zarr reads several chunks in parallel, so each read uses one thread
        array = Array(path, verify=verify, nthreads=1, storage_options=storage_options)
    try:
        return zarr.open_array(store=BloscpackStore(array), mode="r", zarr_format=2)
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
    """Read-only Zarr store with the array of a Bloscpack file.

    Parameters
    ----------
    array : Array
        Open array, which is closed with the store.

    Raises
    ------
    UnsupportedError
        Zarr does not have the dtype.
    """

    def __init__(self, array: Array) -> None:
        super().__init__(read_only=True)
        self._array = array
        self._layout = ZarrLayout.of(array)
        container = array.container
        # Zarr allocates by the shape before it reads. That costs nothing until it is filled, but
        # the shape must not exceed what the chunks can hold.
        container.check_size(array.nbytes if array.nbytes > _UNCHECKED_NBYTES else 0)
        self._name = container.name

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
        value = await run_beside(lambda: self._value(key))
        if value is None:
            return None
        buffer: Buffer = prototype.buffer.from_bytes(value[_bounds(byte_range, len(value))])
        return buffer

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
        """Always False."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """Always False."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Always True."""
        return True

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse."""
        raise self._refused()

    async def delete(self, key: str) -> None:
        """Refuse."""
        raise self._refused()

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
        """Return this store, which is always read-only.

        Raises
        ------
        UnsupportedError
            A writable store is requested.
        """
        if not read_only:
            raise self._refused()
        return self

    def close(self) -> None:
        """Close the file; idempotent."""
        super().close()
        self._array.close()

    def _refused(self) -> UnsupportedError:
        return UnsupportedError(
            "an array in a Bloscpack file is read-only for Zarr; append rows with "
            "bloscpack.open(path, 'a')"
        ).at(path=self._name)

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
