"""An array in a file as a Zarr array: a store of Zarr that gives what is in the file.

The file stays as it is. Each key of the store is answered from it: the metadata from its header,
a chunk by reading, checking and decoding what the file has of it. A chunk that is damaged raises
our error: Zarr takes a key without value for fill values, so none within the array is ever without.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from ..array.array import Array
from ..array.layout import new_array, stored_view
from ..container.reader import Verify
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

# Of an array that is larger, whether its chunks can hold so much is looked at when it is opened.
_UNCHECKED_NBYTES = 1 << 28


def as_zarr(
    path: Any,
    *,
    verify: Verify = True,
    storage_options: Mapping[str, Any] | None = None,
) -> zarr.Array:
    """Return an array in a file as a Zarr array, to be read.

    Parameters
    ----------
    path : str, PathLike, bytes-like, binary file or Array
        What `bloscpack.open` opens, a URL too; or an array that is open, and is then shared.
    verify : bool or "always", default True
        Compare the checksum of each chunk once, the first time it is read; at every read
        ("always"); or never (False). Of an open array its own setting counts.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes.

    Returns
    -------
    zarr.Array
        Of the shape and dtype of the array in the file, byte order included, and with its attrs.
        ``z.store.close()`` closes the file.

    Raises
    ------
    UnsupportedError
        Zarr has no such dtype: floats of more than 64 bits, types of ml_dtypes, records that are
        padded or nested.
    FormatError
        The file is damaged, or of another kind.
    OSError
        It cannot be opened.
    ImportError
        zarr is missing.

    Notes
    -----
    Nothing is copied or written: a read decodes the chunks it touches, in threads of Zarr's. The
    chunks of the Zarr array are those of the file where these are made of whole rows; else they are
    whole rows of about as many bytes, and a chunk of the file that two of them share is decoded for
    each. Damage raises what reading by `bloscpack.open` raises, never fill values. The array
    pickles as the path of its file, and forked children may read.

    Opening a URL is one request, each chunk is one more. Where the file promises far more than it
    holds bytes, 256 MiB at least and over 16 times as much, every chunk is looked at on opening.

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
    if not shared:  # Zarr reads several chunks at once: one thread each
        array = Array(path, verify=verify, nthreads=1, storage_options=storage_options)
    try:
        return zarr.open_array(store=BloscpackStore(array), mode="r", zarr_format=2)
    except BaseException as err:
        name = array._known_container().name
        if not shared:
            array.close()
        if isinstance(err, RecursionError):  # Zarr takes them apart deeper down in its own calls
            error = UnsupportedError("attrs: nested too deep for Zarr; read it with bloscpack.open")
            error.path = name
            raise error from None
        raise


class BloscpackStore(Store):  # type: ignore[misc]
    """A store of Zarr, for reading, that holds one array: that of a Bloscpack file.

    Parameters
    ----------
    array : Array
        Closed with the store.

    Raises
    ------
    UnsupportedError
        Zarr has no such dtype.
    """

    def __init__(self, array: Array) -> None:
        super().__init__(read_only=True)
        self._array = array
        self._layout = ZarrLayout.of(array)
        container = array._open_container()
        # Zarr allocates by the shape before it reads, which costs nothing until it is filled, but
        # not more than there may be.
        container.check_size(array.nbytes if array.nbytes > _UNCHECKED_NBYTES else 0)
        self._name = container.name

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one state of one file."""
        if not isinstance(other, BloscpackStore):
            return NotImplemented
        if self._array is other._array:
            return True
        try:
            return self._array.__reduce__() == other._array.__reduce__()
        except (TypeError, ValueError):  # of a file object, or closed
            return False

    def __repr__(self) -> str:
        return f"BloscpackStore({self._name or 'memory'!r})"

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, None if there is no such key; errors as for `Array.read`."""
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
        """Return whether there is a value for a key; nothing is read."""
        return key in (ARRAY_KEY, ATTRS_KEY) or self._layout.region(key) is not None

    async def getsize(self, key: str) -> int:
        """Return the size of a value in bytes; chunks are given decoded."""
        if self._layout.region(key) is not None:
            return prod(self._layout.chunks) * self._layout.dtype.itemsize
        value = self._value(key)
        if value is None:
            raise FileNotFoundError(key)
        return len(value)

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of the file for the whole store."""
        return 0 if prefix.strip("/") else self._array.cbytes

    @property
    def supports_writes(self) -> bool:
        """False."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """False."""
        return False

    @property
    def supports_listing(self) -> bool:
        """True."""
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
        """Yield the keys in a folder; all of them are at the top."""
        if not prefix.strip("/"):
            async for key in self.list():
                yield key

    def with_read_only(self, read_only: bool = False) -> "BloscpackStore":
        """Return this store, which is always read-only.

        Raises
        ------
        UnsupportedError
            One to write to is asked for.
        """
        if not read_only:
            raise self._refused()
        return self

    def close(self) -> None:
        """Close the file; idempotent."""
        super().close()
        self._array.close()

    def _refused(self) -> UnsupportedError:
        error = UnsupportedError(
            "an array in a Bloscpack file is read-only for Zarr; rows are appended with "
            "bloscpack.open(path, 'a')"
        )
        error.path = self._name
        return error

    def _value(self, key: str) -> memoryview | None:
        if key == ARRAY_KEY:
            return _json_bytes(self._layout.document())
        if key == ATTRS_KEY:
            return _json_bytes(self._array.attrs)
        region = self._layout.region(key)
        return None if region is None else self._read(region)

    def _read(self, region: tuple[slice, ...]) -> memoryview:
        """Return the items of a chunk as bytes in its order, zeros where the array has ended."""
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
    """Return the part of a value of `nbytes` that is asked for."""
    if isinstance(byte_range, RangeByteRequest):
        return slice(byte_range.start, byte_range.end)
    if isinstance(byte_range, OffsetByteRequest):
        return slice(byte_range.offset, None)
    if isinstance(byte_range, SuffixByteRequest):
        return slice(max(0, nbytes - byte_range.suffix), None)
    return slice(None)
