"""Zarr's description of an array: dtype, chunk grid, keys (format version 2 of the Zarr spec).

Version 2 names dtypes as numpy does, including byte order, fixed-length text and records, and has
an order of axes. This module does not import zarr: references are made without it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from ..array.array import Array
from ..array.arraymetadata import new_array
from ..array.dtype import Dtype
from ..exceptions import UnsupportedError
from ..storage.protocol import errors_at

ARRAY_KEY = ".zarray"
ATTRS_KEY = ".zattrs"
# Name of our codec in numcodecs; an entry point in pyproject.toml.
ARRAY_CHUNK_CODEC = "bloscpack_array_chunk"

# Largest item in bytes, for kinds that have a limit: Zarr does not have 80-bit or 128-bit floats.
_MAX_ITEMSIZE = {"f": 8, "c": 16}
# Value of ``dtype.isbuiltin`` for types that packages add to numpy, such as bfloat16.
_IS_USER_DEFINED = 2


@dataclass(frozen=True, slots=True)
class ZarrLayout:
    """Shape, dtype and chunk grid of an array in Zarr."""

    shape: tuple[int, ...]  # shape of the array
    chunks: tuple[int, ...]  # shape of a chunk, at least 1 along each axis
    dtype: Dtype  # dtype of the items
    is_fortran: bool  # whether the items of a chunk are in Fortran order

    @classmethod
    def of(cls, array: Array) -> "ZarrLayout":
        """Return the layout by which Zarr can read `array`.

        Its chunks are those of the file, if these are whole rows; else about as large.

        Raises
        ------
        UnsupportedError
            Zarr does not have the dtype.
        FormatError
            The array is empty, and numpy does not support its shape.
        """
        with errors_at(array.name):
            check_dtype(array.dtype)
            if not array.size:
                new_array(array.shape, array.dtype, array.is_fortran)
        chunks = array.chunks or _whole_rows(array)
        shape = tuple(max(1, length) for length in chunks)
        return cls(array.shape, shape, array.dtype, array.is_fortran)

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis."""
        return tuple(
            -(-length // step) for length, step in zip(self.shape, self.chunks, strict=True)
        )

    def document(self, compressor: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the Zarr metadata of the array, for chunks compressed by a numcodecs codec."""
        dtype = self.dtype
        fields = dtype.fields
        described: Any = dtype.str
        if dtype.names is not None and fields is not None:
            described = [[name, fields[name][0].str] for name in dtype.names]
        return {
            "zarr_format": 2,
            "shape": list(self.shape),
            "chunks": list(self.chunks),
            "dtype": described,
            "compressor": compressor,
            "fill_value": None,
            "order": "F" if self.is_fortran else "C",
            "filters": None,
        }

    def iter_keys(self) -> Iterator[str]:
        """Yield the keys of all chunks in file order."""
        if not prod(self.shape):
            return
        grid = self.grid
        sides = [range(length) for length in (grid[::-1] if self.is_fortran else grid)]
        for place in product(*sides):
            yield ".".join(map(str, place[::-1] if self.is_fortran else place)) or "0"

    def region(self, key: str) -> tuple[slice, ...] | None:
        """Return the region of the array for the key of a chunk, or None for another key."""
        grid = self.grid
        parts = key.split(".") if grid else []
        if (not grid and key != "0") or len(parts) != len(grid):
            return None
        region = []
        for part, count, step, length in zip(parts, grid, self.chunks, self.shape, strict=True):
            # ASCII digits, at most as many as the number of chunks has.
            if not (part.isascii() and part.isdecimal()) or len(part) > len(str(count)):
                return None
            index = int(part)
            if index >= count:
                return None
            region.append(slice(index * step, min((index + 1) * step, length)))
        return tuple(region)


def json_text(value: Any) -> str:
    """Return JSON values as text for Zarr."""
    try:
        return json.dumps(value)
    except RecursionError as err:
        raise UnsupportedError(f"attrs: nested too deep for Zarr: {err}") from err


def _whole_rows(array: Array) -> tuple[int, ...]:
    """Return the shape of a chunk of whole rows with about the bytes of a chunk of the file."""
    shape = array.shape[::-1] if array.is_fortran else array.shape
    chunk_nbytes = max(array.header.chunk_size, array.nbytes // max(array.nchunks, 1))
    chunk = (1,) * len(shape)
    for axis, length in enumerate(shape):
        row = prod(shape[axis + 1 :]) * array.dtype.itemsize
        if row <= chunk_nbytes:
            rows = min(chunk_nbytes // row, length)
            chunk = (1,) * axis + (rows,) + shape[axis + 1 :]
            break
    return chunk[::-1] if array.is_fortran else chunk


def check_dtype(dtype: Dtype) -> None:
    """Raise unless Zarr has `dtype`."""
    fault = _scalar_fault(dtype) if dtype.names is None else _record_fault(dtype)
    if fault:
        raise UnsupportedError(
            f"Zarr has no dtype {str(dtype)[:200]} ({fault}); read the array with bloscpack.load "
            "or bloscpack.open"
        )


def _record_fault(dtype: Dtype) -> str:
    """Return the reason why Zarr does not have such records, or an empty text if it does."""
    packed = 0
    fields: Mapping[str, Any] = dtype.fields or {}
    for name in dtype.names or ():
        field = fields[name]
        if field[1] != packed or len(field) > 2:
            return "fields with padding, with titles or in another order than in memory"
        fault = _scalar_fault(field[0])
        if fault:
            return f"field {name!r:.80}: {fault}"
        packed += field[0].itemsize
    return "" if packed == dtype.itemsize > 0 else "items with padding at their end, or empty"


def _scalar_fault(dtype: Dtype) -> str:
    """Return the reason why Zarr does not have items of `dtype`, or an empty text if it does."""
    if dtype.names is not None or dtype.subdtype is not None:
        return "zarr 3 does not read records or arrays in records"
    if not dtype.itemsize:
        return "items without bytes"
    if dtype.isbuiltin == _IS_USER_DEFINED:
        return "not a type of numpy itself"
    if dtype.itemsize > _MAX_ITEMSIZE.get(dtype.kind, dtype.itemsize):
        return "floats of more than 64 bits"
    return ""
