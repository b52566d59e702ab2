"""Arrays in HDF5 files (h5py), with names of axes and coordinates as dimension scales.

Attributes that HDF5 cannot hold as they are, such as nested ones, are in the attribute
``bloscpack`` as JSON.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import Any

import numpy as np

from ...exceptions import UnsupportedError
from ...filetypes.arraysource import ArraySource, Rows, SeveralArrays
from ...filetypes.copyjob import Conversion, CopyJob
from ...storage.protocol import ByteSource
from .arrayfile import Add, chunks_for, copy_array, copy_several_arrays
from .arraylabels import attrs_with, labels_of
from .library import SourceStream, chosen, errors_of

try:
    import h5py
except ImportError as err:
    raise ImportError(f"{err}: pip install h5py (or 'bloscpack[hdf5]')", name=err.name) from err

with suppress(ImportError):
    import hdf5plugin  # noqa: F401 - registers filters that many files need

_WHAT = "an HDF5 file"
_FILTERS: dict[str, Any] = {"compression": "gzip", "shuffle": True}
_REST = "bloscpack"
# Attributes of dimension scales: netCDF has the same.
_OF_SCALES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", _REST}
# Longer lists do not fit into the header of a dataset.
_MAX_LIST = 4096
_MAX_COORD_NBYTES = 64 << 20
# Attributes of any size need a format version of 2008.
_LIBVER = ("v108", "v110")


@contextmanager
def open_hdf5(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[ArraySource]:
    """Yield a dataset of an HDF5 file.

    Raises
    ------
    FormatError
        The file is damaged.
    UnsupportedError
        The dataset has no plain items, or they are in other files.
    """
    with _opened_file(source) as file:
        if file is not None:
            with errors_of(_WHAT, source.name):
                name = chosen(inner, _datasets(file), _WHAT, source.name)
            yield _opened(file, name, source.name)
            return
    from .netcdf import open_netcdf

    with open_netcdf(source, inner, nthreads=nthreads) as found:
        yield found


@contextmanager
def open_several(source: ByteSource, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield all datasets of an HDF5 file. Raises as `open_hdf5` does."""
    with _opened_file(source) as file:
        if file is not None:
            with errors_of(_WHAT, source.name):
                names = tuple(_datasets(file))
                attrs = attrs_with(None, None, (), {}, _without_rest(file), source.name)
                attrs |= _rest(file)

            def read(name: str) -> AbstractContextManager[ArraySource]:
                return nullcontext(_opened(file, name, source.name))

            yield SeveralArrays(names, read, attrs)
            return
    from .netcdf import open_several as open_variables

    with open_variables(source, nthreads=nthreads) as found:
        yield found


@contextmanager
def _opened_file(source: ByteSource) -> Iterator[Any]:
    """Yield an HDF5 file; None if it is a netCDF file, whose values xarray decodes."""
    with errors_of(_WHAT, source.name):
        file = h5py.File(SourceStream(source), "r")
    with closing(file):
        with errors_of(_WHAT, source.name):
            is_netcdf = "_NCProperties" in file.attrs
            if is_netcdf:
                _check_links(file, source.name)
        yield None if is_netcdf else file


def _opened(file: Any, name: str, where: str | None) -> ArraySource:
    with errors_of(_WHAT, where):
        dataset = file[name]
        _check(dataset, where)
        attrs = _attrs(dataset, where)

    def read(place: tuple[slice, ...]) -> Any:
        with errors_of(f"{_WHAT}: dataset {name!r:.80}", where):
            if dataset.dtype.kind in "mM":  # opaque for HDF5
                return np.asarray(dataset[place], dataset.dtype)
            part = np.empty([one.stop - one.start for one in place], dataset.dtype)
            if part.size:
                dataset.read_direct(part, place)
            return part

    return ArraySource(Rows(dataset.shape, dataset.dtype, read), chunks=dataset.chunks, attrs=attrs)


def copy_to_hdf5(source: ArraySource, job: CopyJob) -> Conversion:
    """Copy an array to a dataset of a new HDF5 file."""
    return copy_array("hdf5", source, job, _write, open_hdf5, options=("chunks",), names=True)


def copy_several(arrays: SeveralArrays, job: CopyJob) -> Conversion:
    """Copy named arrays to the datasets of a new HDF5 file, in groups where names have a "/"."""
    return copy_several_arrays(
        "hdf5", arrays, job, _write, _write_root, open_several, options=("chunks",)
    )


def _write_root(path: str, attrs: Mapping[str, Any]) -> None:
    with h5py.File(path, "x", libver=_LIBVER) as file:
        _write_attrs(file, attrs)


def _datasets(file: Any) -> list[str]:
    """Return the names of all datasets that are not the coordinates of others."""
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and not node.is_scale:
            found.append(name)

    file.visititems(visit)  # follows neither soft links nor those to other files
    return found


def _check_links(file: Any, name: str | None) -> None:
    """Refuse links to other files, which xarray would follow, and items in other files."""
    found = file.visititems_links(
        lambda path, link: path if isinstance(link, h5py.ExternalLink) else None
    )
    if found is not None:
        raise UnsupportedError(f"{_WHAT}: {found!r:.80} is a link to another file").at(path=name)
    nodes: list[Any] = []
    file.visititems(lambda _, node: nodes.append(node))
    for node in nodes:
        _check_place(node, name)


def _check_place(node: Any, name: str | None) -> None:
    if isinstance(node, h5py.Dataset) and (node.external is not None or node.is_virtual):
        raise UnsupportedError(
            f"{_WHAT}: the items of {node.name!r:.80} are in other files; copy them with h5py"
        ).at(path=name)


def _check(dataset: Any, name: str | None) -> None:
    _check_place(dataset, name)
    if dataset.shape is None or dataset.dtype.hasobject:
        raise UnsupportedError(
            f"{_WHAT}: {dataset.name!r:.80} has items of variable length, references or none"
        ).at(path=name)


def _attrs(dataset: Any, where: str | None) -> dict[str, Any]:
    """Return the attributes of a dataset, with its labels."""
    rest = _rest(dataset)
    dims: list[str] = []
    coords: dict[str, Any] = {}
    for axis, dimension in enumerate(dataset.dims):
        scales = list(dimension.values())
        label = dimension.label or (scales[0].name.rpartition("/")[2] if scales else "")
        dims.append(label or f"dim_{axis}")
        for scale in scales[:1]:
            _check_place(scale, where)
            if scale.shape == (dataset.shape[axis],) and scale.nbytes <= _MAX_COORD_NBYTES:
                values = scale.asstr()[:] if h5py.check_string_dtype(scale.dtype) else scale[:]
                others = dict(_without_rest(scale)) | _rest(scale)
                coords[dims[-1]] = (dims[-1:], _as_text(values), others)
    has_labels = bool(coords) or any(each.label for each in dataset.dims)
    name = dataset.name.rpartition("/")[2]
    attrs = _without_rest(dataset)
    found = attrs_with(name, dims if has_labels else None, dataset.shape, coords, attrs, where)
    if isinstance(rest.get("coords"), dict) and "coords" in found:
        rest["coords"] = found["coords"] | rest["coords"]
    return found | rest


def _without_rest(node: Any) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in node.attrs.items() if key not in _OF_SCALES]


def _rest(node: Any) -> dict[str, Any]:
    """Return the attributes that are stored as JSON."""
    rest = None
    with suppress(TypeError, ValueError):
        rest = json.loads(node.attrs.get(_REST, "{}"))
    return rest if isinstance(rest, dict) else {}


def _as_text(values: Any) -> Any:
    """Return text, which h5py reads as objects, as numpy's text."""
    return values.astype("U") if values.dtype.hasobject else values


def _write(path: str, source: ArraySource, job: CopyJob, add: Add) -> None:
    rows = source.rows
    labels = labels_of(source.attrs, rows.shape)
    name = job.inner or (labels.name if labels else "data")
    chunks = chunks_for(source, job)
    dtype = h5py.opaque_dtype(rows.dtype) if rows.dtype.kind in "mM" else rows.dtype
    with h5py.File(path, "a", libver=_LIBVER) as file:
        with errors_of(f"{_WHAT} cannot hold the array", job.name, UnsupportedError):
            dataset = file.create_dataset(
                name, rows.shape, dtype, chunks=chunks, **(_FILTERS if chunks else {})
            )
        if dataset.dtype != rows.dtype:
            raise UnsupportedError(f"{_WHAT} cannot hold items of {rows.dtype}").at(path=job.name)
        rest = dict(source.attrs)
        if labels is not None:
            rest = labels.attrs | {"coords": dict(source.attrs["coords"])}
            for axis, each in enumerate(labels.dims):
                dataset.dims[axis].label = each
                coord = labels.coords.get(each)
                if coord is not None and coord.values.dtype.kind in "biufU":
                    with errors_of(
                        f"{_WHAT} cannot hold coordinates {each!r:.80}", job.name, UnsupportedError
                    ):
                        _write_scale(dataset, axis, each, coord.values, coord.attrs)
                    del rest["coords"][each]
            if not rest["coords"]:
                del rest["coords"]
        _write_attrs(dataset, rest)
        aligned = source if chunks is None else source._replace(chunks=source.chunks or chunks)
        for place in aligned.parts():
            part = rows.read(place)
            dataset[place] = part.view(dtype)
            add(part.nbytes)


def _write_attrs(node: Any, attrs: Mapping[str, Any]) -> None:
    rest = dict(attrs)
    for key in [key for key, value in rest.items() if _is_plain(key, value)]:
        node.attrs[key] = rest.pop(key)
    if rest:
        node.attrs[_REST] = json.dumps(rest)


def _write_scale(dataset: Any, axis: int, name: str, values: Any, attrs: Mapping[str, Any]) -> None:
    """Attach a coordinate to an axis; another array of the group may have it already."""
    found = dataset.parent.get(name)
    if isinstance(found, h5py.Dataset) and found.is_scale:
        dataset.dims[axis].attach_scale(found)
        return
    text = values.dtype.kind == "U"
    scale = dataset.parent.create_dataset(
        name,
        data=values.astype(object) if text else values,
        dtype=h5py.string_dtype() if text else None,
    )
    _write_attrs(scale, attrs)
    scale.make_scale(name)
    dataset.dims[axis].attach_scale(scale)


def _is_plain(key: str, value: Any) -> bool:
    """Return whether HDF5 gives the same value back."""
    if not key or "\0" in key or key in _OF_SCALES:
        return False
    if isinstance(value, list):
        kinds = {type(each) for each in value}
        return (
            len(kinds) == 1
            and len(value) <= _MAX_LIST
            and all(_is_plain(key, each) for each in value)
            and not isinstance(value[0], list | dict)
        )
    if isinstance(value, str):
        return "\0" not in value and value.encode("utf-8", "ignore").decode() == value
    return isinstance(value, bool | float) or (
        isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    )
