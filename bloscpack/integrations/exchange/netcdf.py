"""Variables of netCDF files, through xarray: values as it decodes them, with dims and coordinates.

Files of version 4 are read and written by h5netcdf, those of version 3 read by scipy. Attributes
that netCDF cannot hold, or that would change how values are decoded, are in the attribute
``bloscpack`` as JSON.
"""

import io
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import Any

import numpy as np

from ...exceptions import UnsupportedError
from ...filetypes.arraysource import ArraySource, Rows, SeveralArrays
from ...filetypes.copyjob import Conversion, CopyJob
from ...format.filekind import HDF5, kind_of
from ...storage.protocol import ByteSource
from ..axislabels import Labels
from .arrayfile import Add, chunks_for, copy_array
from .arraylabels import attrs_with
from .library import SourceStream, chosen, errors_of

try:
    import h5netcdf
    import xarray as xr
except ImportError as err:
    raise ImportError(
        f"{err}: pip install xarray h5netcdf scipy (or 'bloscpack[netcdf]')", name=err.name
    ) from err

_WHAT = "a netCDF file"
_REST = "bloscpack"
_FILTERS: dict[str, Any] = {"compression": "gzip", "shuffle": True}
# Attributes by which xarray decodes values.
_DECODING = {
    *("scale_factor", "add_offset", "_FillValue", "missing_value", "dtype", "coordinates"),
    *("units", "calendar", "_Unsigned", "grid_mapping", "bounds", "_Encoding", _REST),
}


@contextmanager
def open_netcdf(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[ArraySource]:
    """Yield a variable of a netCDF file; ``group/name`` is one of a group.

    Raises
    ------
    FormatError
        The file is damaged.
    UnsupportedError
        The items are text of variable length, or Python objects.
    """
    group, _, name = inner.rpartition("/")
    with _dataset(source, group) as dataset:
        with errors_of(_WHAT, source.name):
            names = dataset.variables if name else dataset.data_vars
            name = chosen(name, map(str, names), _WHAT, source.name)
        yield _variable(dataset, name, source.name)


@contextmanager
def open_several(source: ByteSource, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield all variables of the root group that are not coordinates."""
    with _dataset(source, "") as dataset:
        with errors_of(_WHAT, source.name):
            names = tuple(map(str, dataset.data_vars))
            attrs = attrs_with(None, None, (), {}, dataset.attrs.items(), source.name)

        def read(name: str) -> AbstractContextManager[ArraySource]:
            return nullcontext(_variable(dataset, name, source.name))

        yield SeveralArrays(names, read, attrs)


@contextmanager
def _dataset(source: ByteSource, group: str) -> Iterator[Any]:
    is_hdf5 = kind_of(source.read_at(0, 8)) is HDF5
    # scipy maps a file to memory, and reads any other stream whole.
    place = source.place() if not is_hdf5 and isinstance(source.place(), str) else None
    with errors_of(_WHAT, source.name):
        dataset = xr.open_dataset(
            place or io.BufferedReader(SourceStream(source)),
            engine="h5netcdf" if is_hdf5 else "scipy",
            group=group or None,
            cache=False,
            decode_timedelta=False,  # numbers whose unit is "days" stay numbers
        )
    with closing(dataset):
        yield dataset


def _variable(dataset: Any, name: str, where: str | None) -> ArraySource:
    with errors_of(_WHAT, where):
        variable, array = dataset.variables[name], dataset[name]
        if not isinstance(variable.dtype, np.dtype) or variable.dtype.kind in "OT":
            raise UnsupportedError(f"{_WHAT}: items of {variable.dtype}").at(path=where)
        attrs = dict(array.attrs)
        rest: Any = {}
        with suppress(TypeError, ValueError):
            rest = json.loads(attrs.pop(_REST, "{}"))
        coords = {
            str(key): (coord.dims, _text(coord.values), coord.attrs)
            for key, coord in array.coords.items()
        }
        dims = [str(each) for each in variable.dims]
        found = attrs_with(name, dims, variable.shape, coords, attrs.items(), where)
        chunks = variable.encoding.get("chunksizes")

    def read(part: tuple[slice, ...]) -> Any:
        with errors_of(f"{_WHAT}: variable {name!r:.80}", where):
            return np.asarray(variable[part].values, variable.dtype)

    return ArraySource(
        Rows(variable.shape, variable.dtype, read),
        chunks=tuple(chunks) if chunks and variable.size else None,
        attrs=found | rest if isinstance(rest, dict) else found,
    )


def copy_to_netcdf(source: ArraySource, job: CopyJob) -> Conversion:
    """Copy an array to a variable of a new netCDF file of version 4."""
    return copy_array(
        "netcdf", source.native(), job, _write, open_netcdf, options=("chunks",), names=True
    )


def _text(values: Any) -> Any:
    return values.astype("U") if values.dtype.kind in "OT" else values


def _write(path: str, source: ArraySource, job: CopyJob, add: Add) -> None:
    rows = source.rows
    dtype = np.dtype("i1") if rows.dtype.kind == "b" else rows.dtype
    if dtype.kind not in "iuf" or dtype.itemsize > 8 or dtype == np.float16:
        raise UnsupportedError(f"{_WHAT} cannot hold items of {rows.dtype}").at(path=job.name)
    labels = Labels.unpack(source.attrs, rows.shape)
    name = job.inner or labels.name
    coords = {
        key: xr.Variable(coord.dims, coord.values, coord.attrs)
        for key, coord in labels.coords.items()
    }
    chunks = chunks_for(source, job)
    with errors_of(f"{_WHAT} cannot hold the array", job.name, UnsupportedError):
        group = name.rpartition("/")[0]
        xr.Dataset(coords=coords).to_netcdf(path, engine="h5netcdf", group=group or None)
        with h5netcdf.File(path, "a") as file:
            node = file[group] if group else file
            for each, length in zip(labels.dims, rows.shape, strict=True):
                if each not in node.dimensions:
                    node.dimensions[each] = length
            variable = node.create_variable(
                name.rpartition("/")[2],
                labels.dims,
                dtype,
                chunks=chunks,
                **(_FILTERS if chunks else {}),
            )
            rest = dict(labels.attrs)
            for key in [key for key, value in rest.items() if _is_plain(key, value)]:
                variable.attrs[key] = rest.pop(key)
            if rest:
                variable.attrs[_REST] = json.dumps(rest)
            if dtype != rows.dtype:
                variable.attrs["dtype"] = "bool"  # as xarray has it
            for place in source._replace(chunks=chunks).parts():
                part = rows.read(place)
                variable[place] = part.astype(dtype, copy=False)
                add(part.nbytes)


def _is_plain(key: str, value: Any) -> bool:
    """Return whether xarray gives the same value back, and decodes nothing by it."""
    if not key.isidentifier() or (key in _DECODING and key != "units"):
        return False
    if isinstance(value, str):
        is_time = key == "units" and " since " in value
        return bool(value) and value.isprintable() and not is_time
    return type(value) in (int, float) and key != "units" and abs(value) < 1 << 31
