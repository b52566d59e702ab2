"""Variables of netCDF files: items as they are stored, with their attributes, axes and coordinates.

Copies have version 4, and are written by h5netcdf; `hdf5` reads these. Files of version 3 are read
by scipy. Attributes that netCDF cannot hold are in the attribute ``bloscpack`` as JSON.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import numpy as np

from ...exceptions import UnsupportedError
from ...filetypes.arraysource import ArraySource, Rows, SeveralArrays
from ...filetypes.copyjob import Conversion, CopyJob
from ...filetypes.inventory import quoted
from ...storage.protocol import ByteSource
from ..axislabels import DECODED, DEFAULT_NAME, Coord, Labels, typed
from .arrayfile import Add, ArrayFormat, chunks_for, copy_arrays, copy_one, split_groups
from .arraylabels import encoded, others_of
from .arraytree import ArrayTree, Node
from .hdf5 import REST, is_place, is_plain
from .hdf5 import open_several as open_datasets
from .library import SourceStream, TargetFile, errors_of

try:
    import h5netcdf
    import h5py
    from scipy.io import netcdf_file
except ImportError as err:
    raise ImportError(
        f"{err}: pip install h5netcdf scipy (or 'bloscpack[netcdf]')", name=err.name
    ) from err

_WHAT = "a netCDF file"
# Attributes by which libraries decode items, which they must not do with decoded ones.
_OF_DECODING = {
    *("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"),
    *("units", "calendar", "dtype"),
}
_FILTERS: dict[str, Any] = {"compression": "gzip", "shuffle": True}


@contextmanager
def open_netcdf(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[ArraySource]:
    """Yield a variable of a netCDF file of version 3.

    Raises
    ------
    FormatError
        The file is damaged.
    """
    with _tree(source) as tree:
        with errors_of(_WHAT, source.name):
            found = tree.one(inner)
        yield found


@contextmanager
def open_several(source: ByteSource, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield all variables that are not coordinates. Raises as `open_netcdf` does."""
    with _tree(source) as tree:
        with errors_of(_WHAT, source.name):
            found = tree.several()
        yield found


@contextmanager
def _tree(source: ByteSource) -> Iterator[ArrayTree]:
    # scipy maps a file to memory, and reads any other stream whole.
    place = source.place()
    is_file = isinstance(place, str)
    with errors_of(_WHAT, source.name):
        stream = io.BufferedReader(SourceStream(source))
        file = netcdf_file(place if is_file else stream, mmap=is_file)
    with closing(file):
        tree = ArrayTree(_WHAT, source.name)
        with errors_of(_WHAT, source.name):
            _add_variables(tree, file, source.name)
        yield tree


def _add_variables(tree: ArrayTree, file: Any, where: str | None) -> None:
    tree.groups[""] = _decoded(file._attributes)
    used = {each for variable in file.variables.values() for each in variable.dimensions}
    for name, length in file.dimensions.items():
        if length is None:
            tree.inventory.add(f"unlimited length of dimension {quoted(name)}")
        if name not in used:
            tree.inventory.add(f"dimension {quoted(name)} of length {length}")
    for name, variable in file.variables.items():
        attrs, dims = _decoded(variable._attributes), list(variable.dimensions)
        tree.add(Node(name, attrs, _rows(file, name, where), dims))


def _decoded(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        for key, value in attrs.items()
    }


def _rows(file: Any, name: str, where: str | None) -> Rows:
    """Return the items of a variable in the byte order of this machine."""
    data = file.variables[name].data
    dtype = data.dtype.newbyteorder("=")

    def read(place: tuple[slice, ...]) -> Any:
        with errors_of(f"{_WHAT}: variable {name!r:.80}", where):
            # By its name, as scipy does not close a file whose items are referred to.
            return np.array(file.variables[name].data[place], dtype)

    return Rows(data.shape, dtype, read)


def copy_to_netcdf(source: ArraySource, job: CopyJob) -> Conversion:
    """Copy an array to a variable of a new netCDF file of version 4."""
    return copy_one(_FORMAT, source, job, default=DEFAULT_NAME)


def copy_several(arrays: SeveralArrays, job: CopyJob) -> Conversion:
    """Copy named arrays to the variables of a new file, in groups where names have a "/"."""
    return copy_arrays(_FORMAT, arrays, job)


@contextmanager
def _writing(path: str, job: CopyJob) -> Iterator["_Writer"]:
    with TargetFile(path) as stream:
        with h5netcdf.File(stream, "w") as file:
            yield _Writer(file, job, stream)
        stream.check()


class _Writer:
    """Writes arrays to a netCDF file; see `arrayfile.ArrayWriter`."""

    def __init__(self, file: Any, job: CopyJob, stream: TargetFile) -> None:
        self._file, self._job, self._stream = file, job, stream

    def write_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Write the attributes of the file and its groups."""
        root, groups = split_groups(attrs)
        for path, found in groups.items():
            _write_attrs(self._group(path), found)
        _write_attrs(self._file, root)

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        """Write an array."""
        rows, job = source.rows, self._job
        dtype = np.dtype("i1") if rows.dtype.kind == "b" else rows.dtype
        is_number = dtype.kind in "iuf" and dtype.itemsize <= 8 and dtype != np.float16
        if not is_number and dtype != "S1":
            raise UnsupportedError(f"{_WHAT} cannot hold items of {rows.dtype}").at(path=job.name)
        labels = Labels.unpack(source.attrs, rows.shape)
        attrs = others_of(source.attrs, rows.shape)
        group_name, _, name = name.rpartition("/")
        chunks = chunks_for(source, job)
        with errors_of(f"{_WHAT} cannot hold the array", job.name, UnsupportedError):
            group = self._group(group_name)
            is_default = "dims" not in source.attrs and "coords" not in source.attrs
            dims = tuple(
                self._dimension(group, each, length, is_default)
                for each, length in zip(labels.dims, rows.shape, strict=True)
            )
            others = [key for key in labels.coords if key not in labels.dims]
            for key, coord in labels.coords.items():
                self._write_coord(group, key, coord)
            if others and "coordinates" not in attrs:
                attrs["coordinates"] = " ".join(others)
            fill = None if attrs.get(DECODED) else typed(attrs, dtype).get("_FillValue")
            if isinstance(fill, np.generic) and fill.dtype == dtype:
                del attrs["_FillValue"]
            else:
                fill = None
            variable = group.create_variable(
                name, dims, dtype, chunks=chunks, fillvalue=fill, **(_FILTERS if chunks else {})
            )
            _write_attrs(variable, attrs, dtype)
            if dtype != rows.dtype:
                variable.attrs["dtype"] = "bool"  # as xarray has it
            for place in source._replace(chunks=chunks).parts():
                part = rows.read(place)
                variable[place] = part.astype(dtype, copy=False)
                self._stream.check()
                add(part.nbytes)

    def _group(self, name: str) -> Any:
        if not name:
            return self._file
        return self._file[name] if name in self._file else self._file.create_group(name)

    def _dimension(self, group: Any, name: str, length: int, is_default: bool) -> str:
        """Return the name of a dimension of a group or those above, after it is made."""
        found = next(
            (each.dimensions[name] for each in _up(group) if name in each.dimensions), None
        )
        if found is not None and found.size == length:
            return name
        if found is not None and is_default:
            return self._dimension(group, f"{name}_{length}", length, is_default)
        if not is_place(name) or name in group.dimensions:
            raise ValueError(
                f"an axis {name!r:.80} of {length}: copy each array to a file of its own, by "
                "FILE::/NAME"
            )
        group.dimensions[name] = length
        return name

    def _write_coord(self, group: Any, key: str, coord: Coord) -> None:
        """Write a coordinate, unless another array of the group has it already."""
        values = coord.values
        if key in group.variables or _has_above(group, key, coord):
            return
        if values.dtype.kind not in "biufU" or values.dtype == np.float16 or not is_place(key):
            raise ValueError(f"coordinates {key!r:.80} of {values.dtype}")
        if values.dtype.kind == "b":
            values = values.view("i1")
        is_text = values.dtype.kind == "U"
        dtype = h5py.string_dtype() if is_text else values.dtype
        variable = group.create_variable(key, coord.dims, dtype)
        variable[...] = values.astype(object) if is_text else values
        _write_attrs(variable, coord.attrs, values.dtype)
        if coord.values.dtype == bool:
            variable.attrs["dtype"] = "bool"


def _up(group: Any) -> Iterator[Any]:
    """Yield a group and those above."""
    while group is not None:
        yield group
        group = group.parent


def _has_above(group: Any, key: str, coord: Coord) -> bool:
    """Return whether a group above has the same coordinate."""
    found = next((each.variables[key] for each in _up(group) if key in each.variables), None)
    if found is None or found.dimensions != coord.dims:
        return False
    return bool(np.array_equal(found[...], coord.values))


def _write_attrs(node: Any, attrs: Mapping[str, Any], dtype: Any = None) -> None:
    """Write attributes; those that netCDF does not give back are stored as JSON."""
    rest = dict(attrs) if dtype is None else typed(attrs, dtype)
    hidden = {"dtype"}  # by it, booleans are known
    if attrs.get(DECODED) is True:
        rest[DECODED] = True
        hidden = _OF_DECODING
    for key in [key for key, value in rest.items() if key not in hidden and _is_plain(key, value)]:
        node.attrs[key] = rest.pop(key)
    if rest:
        node.attrs[REST] = json.dumps(rest, default=lambda value: value.tolist())


def _is_plain(key: str, value: Any) -> bool:
    """Return whether netCDF gives the same value back."""
    is_name = is_place(key) and key.isprintable() and (key[0].isalnum() or key[0] == "_")
    if not is_name or key[-1] == " " or key == REST:
        return False
    is_list = isinstance(value, list)
    is_array = isinstance(value, np.ndarray)
    if (is_list or (is_array and value.ndim)) and (len(value) < 2 or np.ndim(value[0])):
        return False  # an array of one is a scalar, and has one axis
    if (is_array and value.ndim == 1) or isinstance(value, np.generic):
        return bool(value.dtype != bool)
    return not isinstance(value, bool) and is_plain(key, value)


_FORMAT = ArrayFormat("netcdf", _writing, open_datasets, ("chunks",), encoded)
