"""Variables of netCDF files of version 3, read by ranges of their items.

The header names dimensions, attributes and variables, with the place of the items of each variable.
Variables along the unlimited dimension are interleaved: a record has one row of each. Files have 32
or 64 bits for places (CDF-1 and CDF-2), or 64 bits for all sizes (CDF-5). Numbers are big-endian.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..plugin import (
    AnyArray,
    ByteSource,
    Dtype,
    FormatError,
    Region,
    Rows,
    SeveralArrays,
    TruncatedError,
    errors_at,
    quoted,
)
from .arraytree import ArrayTree, Node
from .library import SourceStream, bytes_behind, errors_of
from .npy import ItemRows

_WHAT = "a netCDF file"
# Tags of lists, and types of items by their numbers. Stored on disk.
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_TYPES = ("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8")
_ALIGNMENT = 4
_STREAMING = -1  # number of records that a writer could not go back to write. Stored on disk.
# Records that are read at once, for the rows of one variable in them.
_BLOCK_NBYTES = 4 << 20


@contextmanager
def open_netcdf3(
    source: ByteSource, inner: str, *, nthreads: int | None
) -> Iterator[SeveralArrays]:
    """Yield all variables of a netCDF file that are not coordinates, or one."""
    tree = ArrayTree(_WHAT, source.name)
    with errors_at(source.name, whole=""), errors_of(_WHAT, source.name):
        _Reader(source, tree).read()
        found = tree.arrays(inner)
    yield found


class _Variable(NamedTuple):
    name: str
    dims: list[str]
    shape: tuple[int, ...]
    is_record: bool
    attrs: dict[str, Any]
    dtype: Dtype
    start: int

    @property
    def row_nbytes(self) -> int:
        """Size of the part in a record; of a variable of no records, of all items."""
        return prod(self.shape[self.is_record :]) * self.dtype.itemsize

    def with_records(self, count: int) -> "_Variable":
        """Return the variable with the length of the unlimited dimension."""
        return self._replace(shape=(count, *self.shape[1:])) if self.is_record else self


class _Reader:
    """Adds all variables of a file to a tree."""

    def __init__(self, source: ByteSource, tree: ArrayTree) -> None:
        self._source, self._tree, self._nbytes = source, tree, source.size()
        self._stream = io.BufferedReader(SourceStream(source), 1 << 16)
        self._version = self._take(4)[3]
        self._width = 8 if self._version == 5 else 4

    def read(self) -> None:
        """Add all variables, dimensions and attributes."""
        tree = self._tree
        nrecords = self._number(self._width)
        if nrecords < _STREAMING:
            raise FormatError(f"{nrecords} records")
        dims = [(self._text(), self._number(self._width)) for _ in self._list(_DIMENSIONS)]
        if any(length < 0 for _, length in dims):
            raise FormatError("a dimension has a negative length")
        tree.groups[""] = self._attributes()
        variables = [self._variable(dims) for _ in self._list(_VARIABLES)]
        end = self._stream.tell()
        rows = [each.row_nbytes for each in variables if each.is_record]
        # Rows of a single variable are adjacent.
        step = rows[0] if len(rows) == 1 else sum(nbytes + -nbytes % _ALIGNMENT for nbytes in rows)
        places = [each.start for each in variables if each.is_record]
        if nrecords == _STREAMING:  # as many as there are
            nrecords = max(self._nbytes - min(places, default=0), 0) // step if step else 0
        variables = [each.with_records(nrecords) for each in variables]
        used = {name for each in variables for name in each.dims}
        for name, length in dims:
            if not length:
                tree.add_unlimited(name, nrecords)
            if name not in used:
                tree.inventory.add(f"dimension {quoted(name)} of length {length or None}")
        if len({each.name for each in variables}) < len(variables):
            raise FormatError("two variables have the same name")
        for each in variables:
            tree.add(Node(each.name, each.attrs, self._rows(each, step, end), each.dims))
        ends = [
            each.start + each.row_nbytes + -each.row_nbytes % _ALIGNMENT
            for each in variables
            if not each.is_record
        ]
        last = max(end, *ends, min(places, default=0) + nrecords * step)
        tree.inventory.add(*bytes_behind(self._source, last))

    def _rows(self, of: _Variable, step: int, end: int) -> Rows:
        """Return the items of a variable in the byte order of this machine."""
        source, what = self._source, f"variable {of.name!r:.80}"
        native = of.dtype.newbyteorder("=")
        if prod(of.shape) > 0 and of.start < end:
            raise FormatError(f"{what} begins at byte {of.start}, in the header of {end} bytes")
        if not of.is_record or step == of.row_nbytes or not prod(of.shape):
            items = ItemRows(source, of.start, of.shape, of.dtype, is_fortran=False, what=what)
            return Rows(of.shape, native, lambda place: items.read(place).astype(native))
        stop = of.start + (of.shape[0] - 1) * step + of.row_nbytes
        if stop > self._nbytes:
            raise TruncatedError(f"{what} ends at byte {stop}, the file has {self._nbytes}")

        def read(place: Region) -> AnyArray:
            wanted = range(of.shape[0])[place[0] if place else slice(None)]
            count = max(_BLOCK_NBYTES // step, 1)
            parts = [np.empty((0, *of.shape[1:]), native)[(slice(None), *place[1:])]]
            for first in wanted[::count]:
                held = range(first, min(first + count, wanted.stop))
                data = bytes(source.read_at(of.start + first * step, len(held) * step))
                if len(data) < (len(held) - 1) * step + of.row_nbytes:
                    what_is_there = f"{what}: found {len(data)} bytes from record {first} on"
                    raise TruncatedError(what_is_there).at(path=source.name, whole="")
                block = np.frombuffer(data.ljust(len(held) * step, b"\0"), "u1")
                rows = np.ascontiguousarray(block.reshape(len(held), step)[:, : of.row_nbytes])
                items = rows.view(of.dtype).reshape(-1, *of.shape[1:])
                parts.append(items[(slice(None), *place[1:])].astype(native))
            return np.concatenate(parts)

        return Rows(of.shape, native, read)

    def _variable(self, dims: list[tuple[str, int]]) -> _Variable:
        name = self._text()
        numbers = [self._number(self._width) for _ in range(self._count())]
        for number in numbers:
            if not 0 <= number < len(dims):
                raise FormatError(f"variable {name!r:.80}: dimension {number} of {len(dims)}")
        names = [dims[number][0] for number in numbers]
        shape = [dims[number][1] for number in numbers]
        is_record = shape[:1] == [0]
        if 0 in shape[1:]:
            raise FormatError(f"variable {name!r:.80}: its unlimited dimension is not the first")
        np.empty((0,) * len(shape))  # raises for more axes than numpy has
        attrs, dtype = self._attributes(), self._type()
        self._number(self._width)  # its size, which other programs limit to 32 bits
        start = self._number(4 if self._version == 1 else 8)
        return _Variable(name, names, tuple(shape), is_record, attrs, dtype, start)

    def _attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in self._list(_ATTRIBUTES):
            key, dtype, count = self._text(), self._type(), self._count()
            values = np.frombuffer(self._padded(count * dtype.itemsize), dtype)
            if dtype.kind == "S":
                text = values.tobytes().rstrip(b"\0")
                found[key] = text.decode("utf-8", "surrogateescape")
            else:
                found[key] = values[0] if values.shape == (1,) else values
        return found

    def _list(self, tag: int) -> range:
        """Return the range of a list of this kind, or of one that is absent."""
        found, count = self._number(4), self._count()
        if found != tag and (found or count):
            raise FormatError(f"tag {found} of a list of {count}, expected {tag}")
        return range(count)

    def _type(self) -> Dtype:
        number = self._number(4)
        if not 1 <= number <= len(_TYPES):
            raise FormatError(f"type {number} of items")
        return np.dtype(_TYPES[number - 1])

    def _text(self) -> str:
        data = self._padded(self._count()).rstrip(b"\0")
        with suppress(UnicodeDecodeError):
            return data.decode()
        return data.decode("latin-1")

    def _padded(self, nbytes: int) -> bytes:
        return self._take(nbytes + -nbytes % _ALIGNMENT)[:nbytes]

    def _count(self) -> int:
        count = self._number(self._width)
        if not 0 <= count <= self._nbytes:
            raise FormatError(f"{count} entries in a file of {self._nbytes} bytes")
        return count

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big", signed=True)

    def _take(self, nbytes: int) -> bytes:
        data = self._stream.read(nbytes) if nbytes <= self._nbytes else b""
        if len(data) < nbytes:
            raise TruncatedError(f"its header is cut off at byte {self._nbytes}")
        return data
