"""Arrays in Zarr stores of format 2 and 3: folders, ZIP files, and folders behind URLs.

An array with coordinates is a member of a group, beside them, as xarray has it; xarray then reads
and writes the coordinates. Any other array is the root of its store.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...exceptions import UnsupportedError
from ...filetypes.arraysource import ArraySource, Rows
from ...filetypes.copyjob import Conversion, CopyJob
from ...notice import notice
from ...storage.folder.filelist import ListedFolder
from ...storage.protocol import ByteSource
from .arrayfile import Add, chunks_for, copy_array
from .arraylabels import attrs_with, labels_of
from .library import SourceStream, chosen, errors_of

try:
    import zarr
    from zarr.storage import FsspecStore, LocalStore, ZipStore
except ImportError as err:
    raise ImportError(
        f"{err}: pip install 'zarr>=3.1.4' (or 'bloscpack[zarr]')", name=err.name
    ) from err

_WHAT = "a Zarr store"
# Attribute with the names of axes in format 2, by convention of xarray.
_DIMS = "_ARRAY_DIMENSIONS"
# A chunk is decoded in memory, however small it is stored.
_MAX_CHUNK_NBYTES = 1 << 30


@contextmanager
def open_zarr(
    source: ByteSource | ListedFolder, inner: str, *, nthreads: int | None
) -> Iterator[ArraySource]:
    """Yield an array of a Zarr store.

    Raises
    ------
    FormatError
        The store is damaged.
    UnsupportedError
        The items are Python objects or text of variable length, or a chunk is larger than 1 GiB.
    """
    with _store(source) as store:
        with errors_of(_WHAT, source.name), _quiet():
            root = zarr.open(store=store, mode="r")
            array, name = root, ""
            if isinstance(root, zarr.Group):
                arrays = {
                    path: node
                    for path, node in root.members(max_depth=None)
                    if isinstance(node, zarr.Array)
                }
                labels = {path for path in arrays if _is_coord(path, arrays)}
                name = chosen(
                    inner,
                    [path for path in arrays if inner or path not in labels],
                    _WHAT,
                    source.name,
                )
                array = arrays[name]
            elif inner:
                chosen(inner, (), _WHAT, source.name)
            if not isinstance(array.dtype, np.dtype) or array.dtype.kind in "OT":
                raise UnsupportedError(f"{_WHAT}: items of {array.dtype}").at(path=source.name)
            if prod(array.chunks) * array.dtype.itemsize > _MAX_CHUNK_NBYTES:
                raise UnsupportedError(f"{_WHAT}: a chunk of more than 1 GiB").at(path=source.name)
            attrs = _attrs(store, name, array, source.name)

        def read(place: tuple[slice, ...]) -> Any:
            with errors_of(f"{_WHAT}: array {name!r:.80}", source.name), _quiet():
                return np.asarray(array[place], array.dtype)

        chunks = array.chunks if array.size and array.shape else None
        yield ArraySource(Rows(array.shape, array.dtype, read), chunks=chunks, attrs=attrs)


def copy_to_zarr(source: ArraySource, job: CopyJob, *, zarr_format: int = 3) -> Conversion:
    """Copy an array to a new store: a ZIP file if its name ends in ".zip", else a folder."""
    if zarr_format == 3:  # its types have no byte order
        source = source.native()
    return copy_array(
        "zarr" if zarr_format == 3 else "zarr2",
        source,
        job,
        partial(_write, zarr_format),
        open_zarr,
        options=("chunks",),
        names=True,
        is_folder=not job.target.endswith(".zip"),
    )


def copy_to_zarr2(source: ArraySource, job: CopyJob) -> Conversion:
    """Copy an array to a new store of format 2."""
    return copy_to_zarr(source, job, zarr_format=2)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings about parts of format 3 that are not standardised yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _store(source: ByteSource | ListedFolder) -> Iterator[Any]:
    store: Any
    if not isinstance(source, ListedFolder):
        store = ZipStore(Path("archive.zip"), mode="r")
        store.path = io.BufferedReader(SourceStream(source))  # opened by zipfile
    elif source.has_latency:
        store = FsspecStore.from_url(source.where, storage_options=source.options, read_only=True)
    else:
        store = LocalStore(source.where, read_only=True)
    try:
        yield store
    finally:
        with suppress(AttributeError):  # a ZIP file that was not opened
            store.close()


def _dims(array: Any) -> list[str] | None:
    dims = getattr(array.metadata, "dimension_names", None) or array.attrs.get(_DIMS)
    is_named = isinstance(dims, list | tuple) and all(isinstance(each, str) for each in dims)
    return list(dims) if is_named and len(dims) == array.ndim else None


def _is_coord(path: str, arrays: dict[str, Any]) -> bool:
    """Return whether an array has the coordinates of another one in its group."""
    group, _, name = path.rpartition("/")
    for other, array in arrays.items():
        if other != path and other.rpartition("/")[0] == group:
            listed = str(array.attrs.get("coordinates", "")).split()
            if name in (_dims(array) or []) or name in listed:
                return _dims(arrays[path]) == [name] or name in listed
    return False


def _attrs(store: Any, path: str, array: Any, where: str | None) -> dict[str, Any]:
    group, _, name = path.rpartition("/")
    coords: dict[str, Any] = {}
    hidden = {_DIMS, "_FillValue"}
    if path and _dims(array) is not None:
        try:
            import xarray as xr  # on use: only labels need it

            with xr.open_zarr(store, group=group or None, consolidated=False, chunks=None) as found:
                for key, coord in found[name].coords.items():
                    values = coord.values
                    values = values.astype("U") if values.dtype.kind in "OT" else values
                    coords[key] = (coord.dims, values, coord.attrs)
            hidden.add("coordinates")
        except ImportError:
            notice("%s: coordinates need xarray, and were left out", where or _WHAT)
        except Exception as err:
            notice("%s: coordinates that xarray cannot read: %s", where or _WHAT, err)
    attrs = [(key, value) for key, value in dict(array.attrs).items() if key not in hidden]
    return attrs_with(name or None, _dims(array), array.shape, coords, attrs, where)


def _write(zarr_format: int, path: str, source: ArraySource, job: CopyJob, add: Add) -> None:
    rows = source.rows
    labels = labels_of(source.attrs, rows.shape)
    coords = labels.coords if labels else {}
    name = job.inner or (labels.name if labels and coords else "")
    attrs = dict(source.attrs if labels is None else labels.attrs)
    options: dict[str, Any] = {"zarr_format": zarr_format}
    if zarr_format == 2:
        options["fill_value"] = None  # xarray takes any other value for missing data
        if labels is not None:
            attrs[_DIMS] = list(labels.dims)
    elif labels is not None:
        options["dimension_names"] = labels.dims
    is_zip = job.target.endswith(".zip")
    store = ZipStore(path, mode="x") if is_zip else LocalStore(path)
    with closing(store), _quiet():
        with errors_of(f"{_WHAT} cannot hold the array", job.name, UnsupportedError):
            if rows.dtype.kind in "mM" and np.datetime_data(rows.dtype)[0] == "generic":
                raise ValueError(f"{rows.dtype} has no unit")
            if coords:
                others = [key for key, coord in coords.items() if coord.dims != (key,)]
                if others:
                    attrs["coordinates"] = " ".join(others)
                _write_coords(store, coords, name.rpartition("/")[0], zarr_format)
            chunks = chunks_for(source, job)
            array = zarr.create_array(
                store,
                name=name or None,
                shape=rows.shape,
                dtype=rows.dtype,
                chunks=chunks or tuple(max(1, length) for length in rows.shape),
                attributes=attrs,
                **options,
            )
        if array.dtype != rows.dtype:
            raise UnsupportedError(f"{_WHAT} cannot hold items of {rows.dtype}").at(path=job.name)
        # Each chunk is written once: a ZIP file keeps every version.
        for place in source._replace(chunks=chunks).parts():
            part = rows.read(place)
            array[place] = part
            add(part.nbytes)


def _write_coords(store: Any, coords: Any, group: str, zarr_format: int) -> None:
    try:
        import xarray as xr  # on use: only labels need it
    except ImportError as err:
        raise ImportError(
            f"{err}: coordinates need xarray: pip install xarray (or 'bloscpack[xarray]')",
            name=err.name,
        ) from err
    variables = {
        key: xr.Variable(coord.dims, coord.values, coord.attrs) for key, coord in coords.items()
    }
    xr.Dataset(coords=variables).to_zarr(
        store, group=group or None, zarr_format=zarr_format, consolidated=False, mode="a"
    )
