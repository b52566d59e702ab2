"""Copies in netCDF files of version 4: items as they are stored, with attributes and coordinates.

h5netcdf writes them; `hdf5` reads them, and `netcdf3` reads files of version 3. Attributes that
netCDF cannot hold are in the attribute ``bloscpack`` as JSON.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from ..plugin import (
    DECODED,
    TYPES,
    UNLIMITED,
    AnyArray,
    ArrayFormat,
    ArraySource,
    Coord,
    CopyJob,
    Labels,
    SeveralArrays,
    UnsupportedError,
    beside,
    default_dims,
    encoded_items,
    labels_of,
    optional_library,
    typed,
    types_of,
)
from .arraytree import scope
from .hdf5 import beside_labels, is_place, is_plain, open_hdf5, refuse_text, write_attrs
from .library import TargetFile, target_file
from .treewriter import REST, NewArray, TreeWriter, name_others

with optional_library("h5netcdf", "netcdf"):
    import h5netcdf
    import h5py

_WHAT = "a netCDF file"
_FILTERS: dict[str, Any] = {"compression": "gzip", "shuffle": True}
# Type of text of variable length, which netCDF has in any case.
_TEXT = {"": "str"}


@contextmanager
def _writing(path: str, arrays: SeveralArrays, job: CopyJob) -> Iterator["_Writer"]:
    with target_file(path) as stream, h5netcdf.File(stream, "w") as file:
        yield _Writer(file, arrays, job, stream)


class _Writer(TreeWriter):
    """Writes arrays to a netCDF file."""

    what = _WHAT

    def __init__(self, file: Any, arrays: SeveralArrays, job: CopyJob, stream: TargetFile) -> None:
        super().__init__(arrays, job, stream)
        self._file = file

    def _write_group(self, path: str, attrs: Mapping[str, Any]) -> None:
        hidden = {UNLIMITED} if self.unlimited and not path else set()
        kept = {key: value for key, value in attrs.items() if key not in hidden}
        _write_attrs(self._group(path), kept)

    def _refuse(self, name: str, source: ArraySource, labels: Labels | None) -> None:
        dtype = source.rows.dtype
        if dtype.kind == "U":
            refuse_text(source, _WHAT)
        elif dtype != "S1" and not _is_number(dtype):
            raise UnsupportedError(f"{_WHAT} cannot hold items of {dtype}")
        labels = self._labels(name, source)
        for each, length in zip(labels.dims, source.rows.shape, strict=True):
            self._is_new(name, each, length)
        for key, coord in labels.coords.items():
            is_held = coord.values.dtype.kind == "U" or _is_number(coord.values.dtype)
            if not is_held or not is_place(key):
                raise ValueError(f"coordinates {key!r:.80} of {coord.values.dtype}")

    def _create(self, new: NewArray) -> Any:
        """Create a variable, with its coordinates beside it."""
        name, source, _, attrs, chunks, _ = new
        rows = source.rows
        labels = self._labels(name, source)
        dtype = np.dtype("i1") if rows.dtype.kind == "b" else rows.dtype
        group_name, _, last = name.rpartition("/")
        group = self._group(group_name)
        for each, length in zip(labels.dims, rows.shape, strict=True):
            if self._is_new(name, each, length):
                home, is_unlimited = self._home(name, each, length)
                home.dimensions[each] = None if is_unlimited else length
                if is_unlimited:
                    home.resize_dimension(each, length)
        for key, coord in labels.coords.items():
            self._write_coord(group, key, coord)
        name_others(attrs, labels)
        fill = None if attrs.get(DECODED) else typed(attrs, dtype).get("_FillValue")
        if dtype == "S1" and isinstance(fill, str):
            fill = np.bytes_(fill, "utf-8")
        if isinstance(fill, np.generic) and fill.dtype == dtype:
            del attrs["_FillValue"]
        else:
            fill = None
        stored = h5py.string_dtype() if dtype.kind == "U" else dtype
        variable = group.create_variable(
            last, labels.dims, stored, chunks=chunks, fillvalue=fill, **(_FILTERS if chunks else {})
        )
        _write_attrs(variable, beside_labels(attrs, _is_plain), dtype)
        if dtype != rows.dtype:
            variable.attrs["dtype"] = "bool"  # as xarray has it
        return variable

    def _encode(self, part: AnyArray) -> AnyArray:
        """Return booleans as integers, and text as objects."""
        if part.dtype.kind == "U":
            return part.astype(object)
        return part.view("i1") if part.dtype == bool else part

    def _group(self, name: str) -> Any:
        if not name:
            return self._file
        return self._file[name] if name in self._file else self._file.create_group(name)

    def _labels(self, place: str, source: ArraySource) -> Labels:
        """Return the labels of an array, with names for axes without names."""
        shape, names = source.rows.shape, None
        if "dims" not in source.attrs and "coords" not in source.attrs:
            dimensions = self._dimensions(place)
            names = default_dims(shape, lambda name: getattr(dimensions.get(name), "size", None))
        return Labels.unpack(source.attrs, shape, dims=names)

    def _dimensions(self, place: str) -> ChainMap[str, Any]:
        """Return the dimensions that the groups of an array have, those of inner ones first."""
        inner, found = self._file, ChainMap(self._file.dimensions)
        for each in place.split("/")[:-1]:
            inner = inner[each] if inner is not None and each in inner.groups else None
            found = found.new_child({} if inner is None else inner.dimensions)
        return found

    def _is_new(self, place: str, name: str, length: int) -> bool:
        """Return whether a dimension of an array has to be made."""
        dimensions = self._dimensions(place)
        found = dimensions.get(name)
        if found is not None and found.size == length:
            return False
        if not is_place(name) or name in dimensions.maps[0]:
            raise ValueError(
                f"an axis {name!r:.80} of {length}: copy each array to a file of its own, by "
                "FILE::/NAME"
            )
        return True

    def _home(self, name: str, dim: str, length: int) -> tuple[Any, bool]:
        """Return the group for a new dimension of an array, and whether it is unlimited.

        It is the outermost one in which arrays have the same dimension.
        """
        found = self._group(name.rpartition("/")[0]), False
        for place in scope(name, dim):
            is_unlimited = place in self.unlimited
            if is_unlimited or (place != beside(name, dim) and place in self._lengths):
                home = self._group(place.rpartition("/")[0])
                if self._lengths.get(place, length) != length or dim in home.dimensions:
                    break
                found = home, is_unlimited
            if is_unlimited:
                break
        return found

    @cached_property
    def _lengths(self) -> dict[str, int]:
        """Lengths of the axes of all arrays, by the places of dimensions in their groups."""
        found: dict[str, int] = {}
        for name in self._arrays.names:
            with self._arrays.open(name) as source:
                shape = source.rows.shape
                labels = labels_of(source.attrs, shape)
            for dim, length in zip(labels.dims, shape, strict=True) if labels else ():
                found.setdefault(beside(name, dim), length)
        return found

    def _write_coord(self, group: Any, key: str, coord: Coord) -> None:
        """Write a coordinate, unless another array of the group has it already."""
        values = coord.values
        if key in group.variables:
            return
        if values.dtype.kind == "b":
            values = values.view("i1")
        is_text = values.dtype.kind == "U"
        dtype = h5py.string_dtype() if is_text else values.dtype
        variable = group.create_variable(key, coord.dims, dtype)
        variable[...] = values.astype(object) if is_text else values
        _write_attrs(variable, coord.attrs, values.dtype)
        if coord.values.dtype == bool:
            variable.attrs["dtype"] = "bool"
        self.written.add(variable.name.strip("/"))


def _is_number(dtype: Any) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype != np.float16


def _write_attrs(node: Any, attrs: Mapping[str, Any], dtype: Any = None) -> None:
    """Write attributes; those that netCDF does not give back are stored as JSON."""
    rest = dict(attrs) if dtype is None else typed(attrs, dtype)
    hidden = {"dtype"} if attrs.get("dtype") == "bool" else set()  # by it, booleans are known
    if attrs.get(DECODED) is True:
        rest[DECODED] = True
    types = attrs.get(TYPES, _TEXT)
    if dtype is not None and types != _TEXT:
        shown = {key: each for key, each in rest.items() if _is_plain(key, each)}
        if types_of(shown, dtype) != {TYPES: types}:
            rest[TYPES] = types
    write_attrs(node, rest, lambda key, value: key not in hidden and _is_plain(key, value))


def _is_plain(key: str, value: Any) -> bool:
    """Return whether netCDF gives the same value back."""
    is_name = is_place(key) and key.isprintable() and (key[0].isalnum() or key[0] == "_")
    if not is_name or key[-1] == " " or key == REST:
        return False
    is_list = isinstance(value, list)
    is_array = isinstance(value, np.ndarray)
    if is_list and any(isinstance(each, bool) for each in value):
        return False
    if (is_list or (is_array and value.ndim)) and (len(value) < 2 or np.ndim(value[0])):
        return False  # an array of one is a scalar, and has one axis
    if (is_array and value.ndim == 1) or isinstance(value, np.generic):
        return bool(value.dtype != bool)
    return not isinstance(value, bool) and is_plain(key, value)


_FORMAT = ArrayFormat("netcdf", open_hdf5, _writing, encoded_items)
copy_to_netcdf = _FORMAT.copy
