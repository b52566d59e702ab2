"""Our files, netCDF and Zarr, by xarray and by the interfaces of their libraries."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import xarray as xr

import bloscpack as bp
from datasets.contenders import APPEND, READ, SCAN, Contender
from datasets.data import VARIABLE

_UNITS = "hours since 2020-01-01"


class Ours(Contender):
    """`bloscpack.append`, and the engine of xarray."""

    note = "a file of `bloscpack.save`, or of `bloscpack.convert` from netCDF with `stats=True`"
    works = (APPEND, READ)
    suffix = ".blp"

    def create(self, path: Path, dataset: xr.Dataset) -> None:
        bp.save(path, dataset)

    def append(self, path: Path, part: xr.Dataset) -> None:
        bp.append(path, part, dim="time")

    def copy(self, source: Path, path: Path, chunk: tuple[int, ...]) -> None:
        bp.convert(source, path, stats=True)

    @contextmanager
    def open(self, place: str, options: dict[str, Any]) -> Iterator[Any]:
        given = {"storage_options": options} if options else {}
        with xr.open_dataset(place, engine="bloscpack", **given) as dataset:
            yield dataset[VARIABLE]


class OurArray(Ours):
    """`bloscpack.open`, and the statistics of chunks."""

    note = "the same file by `bloscpack.open`; it scans by `chunks_where`"
    works = (READ, SCAN)

    @contextmanager
    def open(self, place: str, options: dict[str, Any]) -> Iterator[Any]:
        with bp.open(place, storage_options=options or None) as opened:
            yield opened[VARIABLE]

    def scan(self, array: Any, limit: float, step: int) -> int:
        regions = array.chunks_where(max=(">", limit)).values()
        return sum(int((array[region] > limit).sum()) for region in regions)


class Netcdf(Contender):
    """`h5netcdf.File`, as xarray cannot append to netCDF files; xarray reads."""

    note = "appends by `h5netcdf.File` in chunks of a part, flushes and syncs; xarray reads"
    libraries = "h5netcdf {h5netcdf} with h5py {h5py}"
    modules: tuple[str, ...] = ("h5netcdf",)
    works = (APPEND, READ)
    suffix = ".nc"
    filters: ClassVar[dict[str, Any]] = {"zlib": True, "complevel": 4, "shuffle": True}

    def create(self, path: Path, dataset: xr.Dataset) -> None:
        encoding = {
            name: {**self.filters, "chunksizes": each.shape}
            for name, each in dataset.data_vars.items()
        }
        encoding["time"] = {"units": _UNITS, "dtype": "i8", "chunksizes": (1024,)}
        dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding, unlimited_dims=["time"])

    def append(self, path: Path, part: xr.Dataset) -> None:
        with self.lib.File(path, "a") as file:
            start = file.dimensions["time"].size
            stop = start + part.sizes["time"]
            file.resize_dimension("time", stop)
            times = xr.conventions.encode_cf_variable(
                xr.Variable("time", part["time"].values, {}, {"units": _UNITS, "dtype": "i8"})
            )
            file.variables["time"][start:stop] = times.values
            for name, each in part.data_vars.items():
                file.variables[name][start:stop] = each.values
            file.flush()
            _sync(path)

    def copy(self, source: Path, path: Path, chunk: tuple[int, ...]) -> None:
        path.write_bytes(source.read_bytes())

    @contextmanager
    def open(self, place: str, options: dict[str, Any]) -> Iterator[Any]:
        with (
            _stream(place, options) as file,
            xr.open_dataset(file, engine="h5netcdf") as dataset,
        ):
            yield dataset[VARIABLE]


class Hdf5(Netcdf):
    """`h5py.File`."""

    note = "the same file by `h5py.File`; behind S3 a file of fsspec with its defaults"
    libraries = "HDF5 {HDF5}"
    modules = ("h5py",)
    works = (READ, SCAN)

    @contextmanager
    def open(self, place: str, options: dict[str, Any]) -> Iterator[Any]:
        with _stream(place, options) as file, self.lib.File(file, "r") as opened:
            yield opened[VARIABLE]


class Zarr(Contender):
    """`Dataset.to_zarr`, and the engine of xarray."""

    note = "format 3 with its defaults; appends by `to_zarr`, and syncs each file that it writes"
    libraries = "zarr {zarr}, xarray {xarray}"
    modules: tuple[str, ...] = ("zarr", "zarr.storage")
    works: tuple[str, ...] = (APPEND, READ)
    suffix = ".zarr"

    def create(self, path: Path, dataset: xr.Dataset) -> None:
        encoding: dict[str, Any] = {
            name: {"chunks": each.shape} for name, each in dataset.data_vars.items()
        }
        encoding["time"] = {"units": _UNITS, "dtype": "i8", "chunks": (1024,)}
        dataset.to_zarr(path, encoding=encoding, consolidated=False, zarr_format=3)

    def append(self, path: Path, part: xr.Dataset) -> None:
        part.to_zarr(_durable(path), append_dim="time", consolidated=False, zarr_format=3)

    def copy(self, source: Path, path: Path, chunk: tuple[int, ...]) -> None:
        with xr.open_dataset(source, engine="h5netcdf") as dataset:
            for each in dataset.variables.values():
                each.encoding.clear()
            encoding: dict[Any, Any] = {name: {"chunks": chunk} for name in dataset.data_vars}
            dataset.to_zarr(path, encoding=encoding, consolidated=False, zarr_format=3)

    @contextmanager
    def open(self, place: str, options: dict[str, Any]) -> Iterator[Any]:
        given: dict[str, Any] = {"storage_options": options} if options else {}
        given |= {"zarr_format": 3, "consolidated": False}
        with xr.open_dataset(place, engine="zarr", **given) as dataset:
            yield dataset[VARIABLE]


class ZarrArray(Zarr):
    """`zarr.open_array`."""

    note = "the same folder by `zarr.open_array`"
    works = (READ, SCAN)

    @contextmanager
    def open(self, place: str, options: dict[str, Any]) -> Iterator[Any]:
        path, store = f"{place}/{VARIABLE}", None
        if options:
            from_url = self.lib.storage.FsspecStore.from_url
            store = from_url(path, storage_options=options, read_only=True)
        yield self.lib.open_array(store or path, mode="r", zarr_format=3)


def _stream(place: str, options: dict[str, Any]) -> AbstractContextManager[Any]:
    """Open a file, or the object at a URL as a file."""
    if not options:
        return open(place, "rb")
    file: AbstractContextManager[Any] = import_module("fsspec").open(place, "rb", **options)
    return file


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _durable(path: Path) -> Any:
    """Return a store that syncs each file that is written to it."""
    store = import_module("zarr.storage").LocalStore

    class Durable(store):  # type: ignore[misc, valid-type]
        async def set(self, key: str, value: Any) -> None:
            await super().set(key, value)
            await asyncio.to_thread(_sync, self.root / key)

    return Durable(path)
