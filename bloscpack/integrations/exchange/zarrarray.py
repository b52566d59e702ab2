"""Arrays in Zarr stores of format 2 and 3: folders, ZIP files, and folders behind URLs.

An array with coordinates is a member of a group, beside them, as xarray has it; xarray then reads
and writes the coordinates. An array with a name is a member of a group, too. Any other array is the
root of its store.
"""

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...exceptions import UnsupportedError
from ...filetypes.arraysource import ArraySource, Rows, SeveralArrays
from ...filetypes.copyjob import Conversion, CopyJob
from ...notice import notice
from ...storage.folder.filelist import ListedFolder
from ...storage.protocol import ByteSource
from ..axislabels import DEFAULT_NAME
from .arrayfile import Add, chunks_for, copy_array, copy_several_arrays
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
# Names of metadata: an array of such a name would replace them.
_RESERVED = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
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
        root, arrays = _arrays(store, source.name)
        if inner or isinstance(root, zarr.Group):
            names = arrays if inner else _names(arrays)
            inner = chosen(inner, [name for name in names if name], _WHAT, source.name)
        yield _opened(store, inner, arrays[inner], source.name)


@contextmanager
def open_several(
    source: ByteSource | ListedFolder, *, nthreads: int | None
) -> Iterator[SeveralArrays]:
    """Yield all arrays of a Zarr store that are not coordinates of others."""
    with _store(source) as store:
        root, arrays = _arrays(store, source.name)
        attrs: dict[str, Any] = {}
        if isinstance(root, zarr.Group):
            attrs = attrs_with(None, None, (), {}, dict(root.attrs).items(), source.name)

        def read(name: str) -> AbstractContextManager[ArraySource]:
            return nullcontext(_opened(store, name, arrays[name], source.name))

        yield SeveralArrays(tuple(_names(arrays)), read, attrs)


def _arrays(store: Any, where: str | None) -> tuple[Any, dict[str, Any]]:
    """Return the root of a store, and all its arrays by their paths; "" if the root is one."""
    with errors_of(_WHAT, where), _quiet():
        root = zarr.open(store=store, mode="r")
        if not isinstance(root, zarr.Group):
            return root, {"": root}
        members = root.members(max_depth=None)
        return root, {path: node for path, node in members if isinstance(node, zarr.Array)}


def _names(arrays: dict[str, Any]) -> list[str]:
    """Return the paths of all arrays that are not coordinates of others."""
    return [path for path in arrays if not _is_coord(path, arrays)]


def _opened(store: Any, name: str, array: Any, where: str | None) -> ArraySource:
    with errors_of(_WHAT, where), _quiet():
        if not isinstance(array.dtype, np.dtype) or array.dtype.kind in "OT":
            raise UnsupportedError(f"{_WHAT}: items of {array.dtype}").at(path=where)
        if prod(array.chunks) * array.dtype.itemsize > _MAX_CHUNK_NBYTES:
            raise UnsupportedError(f"{_WHAT}: a chunk of more than 1 GiB").at(path=where)
        attrs = _attrs(store, name, array, where)

    def read(place: tuple[slice, ...]) -> Any:
        with errors_of(f"{_WHAT}: array {name!r:.80}", where), _quiet():
            return np.asarray(array[place], array.dtype)

    chunks = array.chunks if array.size and array.shape else None
    return ArraySource(Rows(array.shape, array.dtype, read), chunks=chunks, attrs=attrs)


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


def copy_several(
    arrays: SeveralArrays, job: CopyJob, *, kind: str = "zarr", zarr_format: int = 3
) -> Conversion:
    """Copy named arrays to a new group, in groups of their own where names have a "/"."""
    taken = [name for name in arrays.names if _RESERVED & set(name.split("/"))]
    if taken:
        raise UnsupportedError(f"{_WHAT} cannot hold an array of the name {taken[0]!r:.80}").at(
            path=job.name
        )
    if zarr_format == 3:
        stored = arrays.open

        @contextmanager
        def native(name: str) -> Iterator[ArraySource]:
            with stored(name) as source:
                yield source.native()

        arrays = arrays._replace(open=native)
    return copy_several_arrays(
        kind,
        arrays,
        job,
        partial(_write, zarr_format),
        partial(_write_root, zarr_format, is_zip=job.target.endswith(".zip")),
        open_several,
        options=("chunks",),
        is_folder=not job.target.endswith(".zip"),
    )


def copy_several_to_zarr2(arrays: SeveralArrays, job: CopyJob) -> Conversion:
    """Copy named arrays to a new group of format 2."""
    return copy_several(arrays, job, kind="zarr2", zarr_format=2)


def _write_root(zarr_format: int, path: str, attrs: Mapping[str, Any], *, is_zip: bool) -> None:
    with closing(_new_store(path, is_zip=is_zip)) as store, _quiet():
        zarr.create_group(store, zarr_format=zarr_format, attributes=dict(attrs))


def _new_store(path: str, *, is_zip: bool) -> Any:
    return ZipStore(path, mode="a") if is_zip else LocalStore(path)


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
        # ZipStore takes paths only, but hands its path to zipfile, which takes streams.
        store = ZipStore(Path("archive.zip"), mode="r")
        store.path = io.BufferedReader(SourceStream(source))
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
    has_name = labels is not None and (coords or labels.name != DEFAULT_NAME)
    name = job.inner or (labels.name if labels is not None and has_name else "")
    attrs = dict(source.attrs if labels is None else labels.attrs)
    options: dict[str, Any] = {"zarr_format": zarr_format}
    if zarr_format == 2:
        options["fill_value"] = None  # xarray takes any other value for missing data
        if labels is not None:
            attrs[_DIMS] = list(labels.dims)
    elif labels is not None:
        options["dimension_names"] = labels.dims
    store = _new_store(path, is_zip=job.target.endswith(".zip"))
    with closing(store), _quiet():
        with errors_of(f"{_WHAT} cannot hold the array", job.name, UnsupportedError):
            if rows.dtype.kind in "mM" and np.datetime_data(rows.dtype)[0] == "generic":
                raise ValueError(f"{rows.dtype} has no unit")
            if coords:
                others = [key for key, coord in coords.items() if coord.dims != (key,)]
                if others:
                    attrs["coordinates"] = " ".join(others)
                group = name.rpartition("/")[0]
                new = {key: coord for key, coord in coords.items() if not _has(store, group, key)}
                if new:
                    _write_coords(store, new, group, zarr_format)
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


def _has(store: Any, group: str, name: str) -> bool:
    """Return whether another array of a group has stored a coordinate already."""
    try:
        return name in zarr.open_group(store, path=group, mode="r+")
    except FileNotFoundError:
        return False


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
