"""Arrays in HDF5 files (h5py), with names of axes and coordinates as dimension scales.

A netCDF file of version 4 is such a file, too. Attributes that HDF5 cannot hold as they are, such
as nested ones, are in the attribute ``bloscpack`` as JSON.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ..plugin import (
    OURS,
    AnyArray,
    ArrayFormat,
    ArraySource,
    ByteSource,
    Coord,
    CopyJob,
    Labels,
    Region,
    Rows,
    SeveralArrays,
    UnsupportedError,
    default_dims,
    hidden_attrs,
    labelled,
    optional_library,
    packed_attrs,
    quoted,
    stored_attrs,
    typed,
)
from .arraytree import ArrayTree, Node, add_text, scope, unwritten
from .library import (
    SourceStream,
    TargetFile,
    bytes_behind,
    errors_of,
    refuse_units,
    target_file,
)
from .treewriter import REST, NewArray, TreeWriter

with optional_library("h5py", "hdf5"):
    import h5py

with suppress(ImportError):
    import hdf5plugin  # noqa: F401 - registers filters that many files need

_WHAT = "an HDF5 file"
_FILTERS: dict[str, Any] = {"compression": "gzip", "shuffle": True}
# Attributes of dimension scales, and of netCDF: both have functions for them.
_OF_SCALES = {"CLASS", "NAME"}
_HIDDEN = {
    *("DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"),
    *("_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict"),
}
# Name of a scale without values, which netCDF gives to each dimension without a variable.
_NO_VALUES = "This is a netCDF dimension but not a netCDF variable."
_PREFIX = "_nc4_non_coord_"
_NO_ITEMS = "it has items of variable length, references or none"
# Longer lists do not fit into the header of a dataset.
_MAX_LIST = 4096
# Attributes of any size need a format version of 2008.
_LIBVER = ("v108", "v110")


@contextmanager
def open_hdf5(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield all datasets of an HDF5 or netCDF file, or one."""
    with errors_of(_WHAT, source.name):
        file = h5py.File(SourceStream(source), "r")
    with closing(file):
        tree = ArrayTree(_WHAT, source.name)
        with errors_of(_WHAT, source.name):
            tree.inventory.add(*bytes_behind(source, _end(file, source)))
            _Reader(file, tree, source.name).read()
            found = tree.arrays(inner)
        yield found


def _end(file: Any, source: ByteSource) -> int:
    """Return the end of a file according to its superblock, which h5py does not give."""
    head = bytes(source.read_at(file.userblock_size, 64))
    is_old = head[8] < 2
    width = head[13 if is_old else 9]
    at = 24 if is_old else 12
    return int.from_bytes(head[at + 2 * width : at + 3 * width], "little")


class _Reader:
    """Adds all objects of a file to a tree."""

    def __init__(self, file: Any, tree: ArrayTree, where: str | None) -> None:
        self._file, self._tree, self._where = file, tree, where
        # Before 2016, the library of netCDF did not mark its files.
        is_named = str(where).endswith((".nc", ".nc4"))
        self._is_netcdf = is_named or bool({"_NCProperties", "_nc3_strict"} & {*file.attrs})
        self._paths: dict[Any, str] = {}  # of each object
        self._datasets: dict[str, Any] = {}
        self._used: set[str] = set()  # dimensions without values that an array has

    def read(self) -> None:
        """Add all objects, each by the first hard link to it; no link is followed outside."""
        self._paths[_key(self._file)] = "/"
        if self._file.userblock_size:
            self._tree.inventory.add(f"user block of {self._file.userblock_size} bytes")
        groups = [self._members("", self._file)]  # a stack, as their depth has no limit
        while groups:
            path, node = next(groups[-1], (None, None))
            if path is None:
                groups.pop()
            elif isinstance(node, h5py.Group):
                groups.append(self._members(path, node))
            elif isinstance(node, h5py.Dataset):
                _refuse_units_of(node)
                self._datasets[path] = node
            else:
                self._tree.inventory.add(f"type {quoted(path)}")
        self._add_all()

    def _members(self, path: str, group: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the objects of a group that no link before has led to."""
        note = self._tree.inventory.add
        _refuse_units_of(group)
        self._tree.groups[path] = _attrs(group, self._is_netcdf) | (_rest(group) or {})
        for name in group:
            if isinstance(name, bytes):
                above = f" in group {quoted(path)}" if path else ""
                note(f"object {quoted(name)}{above}, whose name is not UTF-8")
                continue
            inner = f"{path}/{name}" if path else name
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.HardLink):
                node = group[name]
                first = self._paths.setdefault(_key(node), inner)
                if first == inner:
                    yield inner, node
                else:
                    note(f"link {quoted(inner)} to {quoted(first)}")
            else:
                other = "" if isinstance(link, h5py.SoftLink) else " in another file"
                note(f"link {quoted(inner)} to {quoted(getattr(link, 'path', ''))}{other}")

    def _add_all(self) -> None:
        self._bare = {
            path
            for path, dataset in self._datasets.items()
            if _scale_name(dataset).startswith(_NO_VALUES)
        }
        labels = {path: self._dims(dataset) for path, dataset in self._datasets.items()}
        scale_dims: dict[str, list[str]] = {}
        scaled = {path: each for path, each in self._datasets.items() if each.is_scale}
        self._lengths = {path: (each.shape or (0,))[0] for path, each in scaled.items()}
        for path, (dims, scales) in labels.items():
            sides = self._datasets[path].shape or ()
            for label, found, length in zip(dims, scales, sides, strict=True):
                for each in found:
                    scale_dims.setdefault(each, [label])
                    self._lengths[each] = max(self._lengths.get(each, 0), length)
        for path, dataset in self._datasets.items():
            dims, scales = labels[path]
            if dataset.is_scale and dataset.ndim == 1:
                dims = scale_dims.get(path, dims if any(dims) else [self._name(path)])
            self._add(path, dataset, dims, scales)

    def _name(self, path: str) -> str:
        name = path.rpartition("/")[2]
        return name.removeprefix(_PREFIX) if self._is_netcdf else name

    def _dims(self, dataset: Any) -> tuple[list[str], list[list[str]]]:
        """Return the names of the axes, "" for none, and the paths of the scales of each."""
        dims, scales = [], []
        ids = dataset.attrs.get("_Netcdf4Coordinates") if self._is_netcdf else None
        numbers = {} if ids is None else self._numbers
        for axis, dimension in enumerate(dataset.dims):
            keys = map(_key, dimension.values())
            found = [self._paths[each] for each in keys if each in self._paths]
            if ids is not None and len(ids) == dataset.ndim and not found:
                found = [numbers[ids[axis]]] if ids[axis] in numbers else []
            self._used.update(found)
            dims.append(dimension.label or (self._name(found[0]) if found else ""))
            scales.append(found)
        return dims, scales

    @cached_property
    def _numbers(self) -> dict[Any, str]:
        """Return the paths of the dimensions of netCDF by their numbers."""
        scales = [(path, each) for path, each in self._datasets.items() if each.is_scale]
        return {each.attrs.get("_Netcdf4Dimid"): path for path, each in scales}

    def _add(self, path: str, dataset: Any, dims: list[str], scales: list[list[str]]) -> None:
        name = _scale_name(dataset)
        if path in self._bare:
            if path not in self._used:
                self._tree.inventory.add(f"dimension {quoted(path)} of length {len(dataset)}")
            if dataset.maxshape == (None,):
                self._tree.add_unlimited(path, self._lengths.get(path, len(dataset)))
            return
        coords = [each for found in scales for each in found if each not in self._bare]
        clean = self._name(path)
        group = path.rpartition("/")[0]
        node = Node(f"{group}/{clean}" if group else clean, _attrs(dataset, self._is_netcdf), None)
        node.rest = _rest(dataset) or {}
        if any(dims) or (self._is_netcdf and dataset.shape == ()):
            node.dims = [a or b for a, b in zip(dims, default_dims(dataset.shape), strict=True)]
        node.coords = [each for each in coords if each != path]
        node.why = _fault(dataset) or unwritten(
            prod(dataset.shape or ()) * dataset.dtype.itemsize, dataset.id.get_storage_size
        )
        if not node.why:
            self._add_rows(path, dataset, node, scales)
        if not node.why:
            inner = dataset.dtype.shape  # of items that are arrays
            node.chunks = (*dataset.chunks, *inner) if dataset.size and dataset.chunks else None
            node.lost = self._lost(dataset, node)
        if name and name != clean and dataset.is_scale:
            node.lost.append(f"name {quoted(name)} of scale {quoted(path)}")
        self._tree.add(node)

    def _add_rows(self, path: str, dataset: Any, node: Node, scales: list[list[str]]) -> None:
        shape = self._shape(path, dataset, scales) if self._is_netcdf else dataset.shape
        if dataset.dtype.subdtype is not None:
            self._add_rows_of_arrays(path, dataset, node)
            return
        if dataset.dtype.hasobject:
            given = node.attrs.get("_FillValue")
            fill = given if isinstance(given, str) else ""
            add_text(node, shape, lambda place: _text(dataset, place, fill))
            return
        dtype = np.dtype(dataset.dtype.str) if dataset.dtype.names is None else dataset.dtype
        is_bool = self._is_netcdf and dtype == "i1" and node.attrs.get("dtype") == "bool"
        if is_bool:
            node.attrs = {key: value for key, value in node.attrs.items() if key != "dtype"}

        def read(place: tuple[slice, ...]) -> Any:
            with errors_of(f"{_WHAT}: dataset {path!r:.80}", self._where):
                if dtype.kind in "mM":  # opaque for HDF5
                    return np.asarray(dataset[place], dtype)
                part = np.zeros([one.stop - one.start for one in place], dataset.dtype)
                held, own = _held(place, dataset.shape)
                if held != place:
                    part[...] = dataset.fillvalue
                if held is not None:
                    dataset.read_direct(part, held, own)
                if not is_bool:
                    return part.view(dtype)
                if ((part != 0) & (part != 1)).any():
                    raise ValueError("items of a boolean variable are neither 0 nor 1")
                return part.view(bool)

        node.rows = Rows(shape, np.dtype(bool) if is_bool else dtype, read)

    def _add_rows_of_arrays(self, path: str, dataset: Any, node: Node) -> None:
        """Give a node items that are arrays: as h5py reads them, with their axes behind others."""
        dtype, inner = dataset.dtype.subdtype
        outer = dataset.ndim

        def read(place: tuple[slice, ...]) -> Any:
            with errors_of(f"{_WHAT}: dataset {path!r:.80}", self._where):
                part: AnyArray = np.asarray(dataset[place[:outer]])
                return part[(slice(None),) * outer + place[outer:]]

        node.rows = Rows((*dataset.shape, *inner), dtype, read)
        if node.dims is not None:
            node.dims = [*node.dims, *default_dims(node.rows.shape)[outer:]]

    def _shape(self, path: str, dataset: Any, scales: list[list[str]]) -> tuple[int, ...]:
        """Return the shape of a variable: unlimited axes are as long as their dimension."""
        if dataset.is_scale and dataset.ndim == 1:  # a variable along its own dimension
            scales = [[path]]
        return tuple(
            max(length, *(self._lengths[path] for path in found))
            if most is None and found
            else length
            for length, most, found in zip(dataset.shape, dataset.maxshape, scales, strict=True)
        )

    def _lost(self, dataset: Any, node: Node) -> list[str]:
        """Return what the file has for a dataset besides its items, and a copy has not."""
        of = quoted(node.path)
        lost = list(_lost_of_type(dataset, of))
        if self._is_netcdf:
            if dataset.is_scale and dataset.maxshape == (None,):
                self._tree.add_unlimited(node.path, node.rows.shape[0] if node.rows else 0)
        elif None in dataset.maxshape:
            lost.append(f"unlimited length of {of}")
        elif dataset.maxshape != dataset.shape:
            lost.append(f"largest shape {dataset.maxshape} of {of}")
        plist = dataset.id.get_create_plist()
        if not self._is_netcdf and plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
            fill = np.asarray(dataset.fillvalue)
            if fill.tobytes().strip(b"\0") and not _is_equal(fill, node.attrs.get("_FillValue")):
                lost.append(f"fill value {fill!s:.40} of {of}")
        return lost


def _lost_of_type(dataset: Any, of: str) -> Iterator[str]:
    """Yield short texts for what the type of items has, and a dtype has not."""
    kind = dataset.id.get_type()
    if dataset.dtype.subdtype is not None:
        yield f"type of arrays {dataset.dtype.shape} of {of}"
    if labels := _enum_labels(dataset.dtype):
        yield f"labels {', '.join(labels):.80} of the items of {of}"
    if kind.get_class() == h5py.h5t.BITFIELD:
        yield f"type bit field of {of}"
    tag = kind.get_tag() if kind.get_class() == h5py.h5t.OPAQUE else b""
    if tag and not tag.startswith(b"NUMPY:"):
        yield f"tag {quoted(tag.decode('utf-8', 'replace'))} of {of}"
    text = h5py.check_string_dtype(dataset.dtype)
    if text is not None and text.length is not None and text.encoding == "utf-8":
        yield f"encoding UTF-8 of the text in {of}"


def _text(dataset: Any, place: Region, fill: str) -> AnyArray:
    """Return a part of a dataset of text, with `fill` for items that are not written yet."""
    part = np.full([one.stop - one.start for one in place], fill, object)
    held, own = _held(place, dataset.shape)
    if held is not None:
        part[own] = dataset.asstr()[held]
    return part


def _held(place: Region, shape: tuple[int, ...]) -> tuple[Region | None, Region]:
    """Return the written items of a part, None if it has none, and their place in the part."""
    held = tuple(
        slice(one.start, min(one.stop, end)) for one, end in zip(place, shape, strict=True)
    )
    own = tuple(slice(one.stop - one.start) for one in held)
    return (held if all(one.start < one.stop for one in held) else None), own


def _scale_name(dataset: Any) -> str:
    name = dataset.attrs.get("NAME", b"") if dataset.is_scale else b""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def _is_equal(fill: Any, value: Any) -> bool:
    return value is not None and np.asarray(value).tobytes() == fill.tobytes()


def _key(node: Any) -> Any:
    info = h5py.h5o.get_info(node.id)
    return info.fileno, info.addr


def _refuse_units_of(node: Any) -> None:
    """Refuse times of numpy with a unit that ends the process."""
    kinds = [h5py.h5a.open(node.id, index=k).get_type() for k in range(len(node.attrs))]
    if isinstance(node, h5py.Dataset):
        kinds.append(node.id.get_type())
    while kinds:
        kind = kinds.pop()
        if kind.get_class() == h5py.h5t.COMPOUND:
            kinds += [kind.get_member_type(k) for k in range(kind.get_nmembers())]
        elif kind.get_class() in (h5py.h5t.ARRAY, h5py.h5t.VLEN):
            kinds.append(kind.get_super())
        elif kind.get_class() == h5py.h5t.OPAQUE:
            refuse_units(kind.get_tag().decode("latin-1"))


def _fault(dataset: Any) -> str:
    """Return why an array cannot have the items of a dataset; empty if it can."""
    if dataset.shape is None:
        return _NO_ITEMS
    try:
        dtype = dataset.dtype
    except (TypeError, ValueError) as err:  # integers of 3 bytes, times of C
        return f"its type is unknown to numpy: {err!s:.80}"
    if dataset.external is not None or dataset.is_virtual:
        return "its items are in other files or datasets; copy them with h5py"
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    missing = [
        f"{number} {name.decode('utf-8', 'replace')}".strip()
        for number, _, _, name in filters
        if not h5py.h5z.filter_avail(number)
    ]
    if missing and dataset.id.get_storage_size():
        advice = "'pip install hdf5plugin' has many, PyTables has lzo"
        return f"filter {', '.join(missing):.80} is missing; {advice}"
    return _NO_ITEMS if dtype.hasobject and h5py.check_string_dtype(dtype) is None else ""


def _enum_labels(dtype: np.dtype[Any]) -> list[str]:
    """Return the labels of all enumerations in a dtype."""
    found = [str(key) for key in h5py.check_enum_dtype(dtype) or ()]
    for each, *_ in (dtype.fields or {}).values():
        found += _enum_labels(each)
    return found if dtype.subdtype is None else _enum_labels(dtype.subdtype[0])


def _attrs(node: Any, is_netcdf: bool) -> dict[str, Any]:
    """Return the attributes of a node, without those of the conventions."""
    is_scale = _is_scale(node)
    found: dict[str, Any] = {}
    for key in node.attrs:
        if key in _HIDDEN or (is_scale and key in _OF_SCALES):
            continue
        if key == REST and _rest(node) is not None:
            continue
        value: Any = None
        with suppress(OSError, TypeError, ValueError, RuntimeError, NotImplementedError):
            value = node.attrs[key]
            if isinstance(value, bytes):  # text of fixed size
                value = value.decode()
            kind = node.attrs.get_id(key).dtype
            value = None if _enum_labels(kind) else value  # JSON has no labels of numbers
        if isinstance(value, h5py.Empty) and is_netcdf and value.dtype.kind in "SO":
            value = ""
        is_single = isinstance(value, np.ndarray) and value.shape == (1,)
        # None, which HDF5 has not, stands for a value that JSON has not.
        found[key] = value[0] if is_netcdf and is_single else _UNKNOWN if value is None else value
    return found


_UNKNOWN = object()


def _rest(node: Any) -> dict[str, Any] | None:
    """Return the attributes that are stored as JSON; None if it is another program's attribute."""
    rest = None
    with suppress(TypeError, ValueError):
        rest = json.loads(node.attrs.get(REST, "{}"))
    return rest if isinstance(rest, dict) else None


@contextmanager
def _writing(path: str, arrays: SeveralArrays, job: CopyJob) -> Iterator["_Writer"]:
    with target_file(path) as stream, h5py.File(stream, "w", libver=_LIBVER) as file:
        writer = _Writer(file, arrays, job, stream)
        yield writer
        writer.finish()


class _Writer(TreeWriter):
    """Writes arrays to an HDF5 file."""

    what = _WHAT

    def __init__(self, file: Any, arrays: SeveralArrays, job: CopyJob, stream: TargetFile) -> None:
        super().__init__(arrays, job, stream)
        self._file = file
        self._labelled: list[tuple[Any, tuple[str, ...]]] = []
        # Objects with attributes of scales as JSON: only at the end it is known which are scales.
        self._marked: list[Any] = []

    def _write_group(self, path: str, attrs: Mapping[str, Any]) -> None:
        self._write_attrs(self._file.require_group(f"/{path}"), attrs)

    def _write_attrs(self, node: Any, attrs: Mapping[str, Any], hidden: Any = ()) -> None:
        write_attrs(node, attrs, lambda key, value: key not in hidden and is_plain(key, value))
        if attrs.keys() & _OF_SCALES:
            self._marked.append(node)

    def _refuse(self, name: str, source: ArraySource, labels: Labels | None) -> None:
        dtype = _type_of(source.rows.dtype)
        if source.rows.dtype.kind == "U":
            refuse_text(source, _WHAT)
        elif h5py.h5t.py_create(dtype, logical=True).dtype != source.rows.dtype:
            raise UnsupportedError(f"{_WHAT} cannot hold items of {source.rows.dtype}")

    def _create(self, new: NewArray) -> Any:
        """Create a dataset, with coordinates as scales; others are attributes."""
        name, source, labels, attrs, chunks, hidden = new
        rows = source.rows
        dataset = self._file.create_dataset(
            name, rows.shape, _type_of(rows.dtype), chunks=chunks, **(_FILTERS if chunks else {})
        )
        attrs |= typed(attrs, rows.dtype)
        others = [] if labels is None else self._write_labels(dataset, labels, name)
        if others:
            coords = stored_attrs(source.attrs, rows.shape)["coords"]
            attrs = packed_attrs(attrs) | {"coords": {key: coords[key] for key in others}}
        elif not hidden:
            attrs = beside_labels(attrs)
        self._write_attrs(dataset, attrs, hidden)
        return dataset

    def _encode(self, part: AnyArray) -> AnyArray:
        """Return text as objects, and times as opaque items."""
        return part.astype(object) if part.dtype.kind == "U" else part.view(_type_of(part.dtype))

    def _write_labels(self, dataset: Any, labels: Labels, name: str) -> list[str]:
        """Write names of axes and coordinates; return the coordinates that cannot be scales."""
        others = []
        name = name.rpartition("/")[2]
        if labels.dims == (name,):
            dataset.make_scale(name)
        else:
            for axis, each in enumerate(labels.dims):
                dataset.dims[axis].label = each
        for key, coord in labels.coords.items():
            is_scale = len(coord.dims) == 1 and labels.dims.count(coord.dims[0]) == 1
            if is_scale and coord.values.dtype.kind in "biufU" and is_place(key):
                self._attach_scale(dataset, labels.dims.index(coord.dims[0]), key, coord)
            else:
                others.append(key)
        self._labelled.append((dataset, labels.dims))
        return others

    def _attach_scale(self, dataset: Any, axis: int, name: str, coord: Coord) -> None:
        """Attach a coordinate to an axis; another array of the group may have it already."""
        scale, values = dataset.parent.get(name), coord.values
        if scale is None:
            text = values.dtype.kind == "U"
            scale = dataset.parent.create_dataset(
                name,
                data=values.astype(object) if text else values,
                dtype=h5py.string_dtype() if text else None,
            )
            write_attrs(scale, coord.attrs | typed(coord.attrs, values.dtype))
            self.written.add(scale.name.strip("/"))
        if not scale.is_scale:
            scale.make_scale(name)
        dataset.dims[axis].attach_scale(scale)

    def finish(self) -> None:
        """Attach a scale without values to each axis that has none, as xarray needs one."""
        for dataset, dims in self._labelled:
            for axis, (name, length) in enumerate(zip(dims, dataset.shape, strict=True)):
                if len(dataset.dims[axis]) or dataset.is_scale or not is_place(name):
                    continue
                places = scope(dataset.name.strip("/"), name)
                found: Any = next((self._file[each] for each in places if each in self._file), None)
                is_fitting = _is_scale(found) and found.shape == (length,)
                if not is_fitting and name not in dataset.parent:
                    found = dataset.parent.create_dataset(name, (length,), "f4")
                    found.make_scale(f"{_NO_VALUES}{length:10d}")
                if _is_scale(found) and found.shape == (length,):
                    dataset.dims[axis].attach_scale(found)
        for node in self._marked:
            rest = json.loads(node.attrs.pop(REST))
            for key in () if _is_scale(node) else _OF_SCALES & rest.keys():
                if rest[key] != "DIMENSION_SCALE" and is_plain("text", rest[key]):
                    node.attrs[key] = rest.pop(key)
            if rest:
                node.attrs[REST] = json.dumps(rest)


def _is_scale(node: Any) -> bool:
    return isinstance(node, h5py.Dataset) and node.is_scale


def _type_of(dtype: Any) -> Any:
    if dtype.kind == "U":
        return h5py.string_dtype()
    return h5py.opaque_dtype(dtype) if dtype.kind in "mM" else dtype


def refuse_text(source: ArraySource, what: str) -> None:
    """Raise UnsupportedError for text that HDF5 cannot hold, nor a netCDF file `what`."""
    for place in source.parts():
        for text in source.rows.read(place).ravel().tolist():
            if "\0" in text or text != text.encode(errors="replace").decode():
                raise UnsupportedError(f"{what} cannot hold the text {text!r:.80}")


def is_place(name: str) -> bool:
    """Return whether a dataset of a group can have this name."""
    return bool(name) and name not in (".", "..") and not set(name) & set("/\0")


def is_plain(key: str, value: Any) -> bool:
    """Return whether HDF5 gives the same value back."""
    if not key or "\0" in key or key in _HIDDEN | _OF_SCALES | {REST}:
        return False
    if isinstance(value, list):
        if value and all(isinstance(each, str) for each in value):
            return len(value) <= _MAX_LIST and all(is_plain(key, each) for each in value)
        try:
            array = np.array(value)
        except ValueError:  # lists of several lengths
            return False
        same = json.dumps(array.tolist()) == json.dumps(value) if array.dtype != object else False
        return same and array.dtype.kind in "biuf" and 0 < array.size <= _MAX_LIST
    if isinstance(value, str):
        return "\0" not in value and value.encode("utf-8", "ignore").decode() == value
    return isinstance(value, bool | float | np.generic | np.ndarray) or (
        isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    )


def beside_labels(
    attrs: dict[str, Any], is_plain: Callable[[str, Any], bool] = is_plain
) -> dict[str, Any]:
    """Return attributes so that none of those stored as JSON has the name of a label."""
    is_kept = all(is_plain(key, attrs[key]) for key in attrs.keys() & {*OURS})
    return attrs if is_kept else packed_attrs(attrs)


def write_attrs(
    node: Any, attrs: Mapping[str, Any], is_plain: Callable[[str, Any], bool] = is_plain
) -> None:
    """Write attributes; those that the library does not give back are stored as JSON."""
    rest, hidden = dict(attrs), hidden_attrs(attrs)
    for key in [key for key in rest if key not in hidden and is_plain(key, rest[key])]:
        value = rest.pop(key)
        is_list = isinstance(value, list) and not isinstance(value[0], str)
        node.attrs[key] = np.array(value) if is_list else value
    if rest:
        node.attrs[REST] = json.dumps(rest, default=lambda value: value.tolist())


_FORMAT = ArrayFormat("hdf5", open_hdf5, _writing, labelled)
copy_to_hdf5 = _FORMAT.copy
