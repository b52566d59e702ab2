"""Files of bloscpack and of other formats, with default options and with better ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from peers.with_bloscpack import chunk_places
from race.timing import Loop, loop_of

import bloscpack as bp
from arrays.contenders import CUBE, Contender
from arrays.data import Sample


class Ours(Contender):
    note = "`bp.save` with its defaults, byte shuffle and zstd-3; `bp.load`, opening included"
    works = (CUBE,)
    codec = "zstd"

    def suited(self, sample: Sample) -> np.ndarray:
        return sample.array

    def write(
        self, path: Path, array: np.ndarray, chunks: Any = None, nthreads: int | None = 1
    ) -> None:
        # Chunks of several images are those of series.
        access = "series" if isinstance(chunks, tuple) and chunks[0] > 1 else None
        bp.save(path, array, chunks=chunks, access=access, codec=self.codec, nthreads=nthreads)

    def open(self, path: Path) -> Any:
        return bp.open(path)

    def cbytes(self, path: Path) -> int:
        return sum(size for _, size in chunk_places(path))

    def reading(self, path: Path, like: np.ndarray) -> Loop:
        return loop_of(lambda: bp.load(path, nthreads=1), clock=process_time)


class Blosc2(Contender):
    note = "`blosc2.asarray` with its defaults, byte shuffle and zstd-5"
    libraries = "blosc2 {blosc2}"
    modules = ("blosc2",)

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        cparams = self.lib.CParams(nthreads=1, **self.options())
        self.lib.asarray(array, chunks=chunks, urlpath=str(path), mode="w", cparams=cparams)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield self.lib.open(str(path), mode="r", dparams=self.lib.DParams(nthreads=1))

    def cbytes(self, path: Path) -> int:
        return int(self.lib.open(str(path), mode="r").schunk.cbytes)


class ByteDelta(Blosc2):
    note = "the filters byte shuffle and bytedelta, zstd-9"

    def options(self) -> dict[str, Any]:
        filters = [self.lib.Filter.SHUFFLE, self.lib.Filter.BYTEDELTA]
        return {"clevel": 9, "filters": filters, "filters_meta": [0, 0]}


class Zarr(Contender):
    note = "format 3 with its defaults: Zstandard at level 0, no shuffle, chunks of its choice"
    libraries = "zarr {zarr}"
    modules = ("zarr",)

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        options = {"chunks": chunks or "auto", **self.options()}
        self.lib.create_array(str(path), data=array, **options)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield self.lib.open_array(str(path), mode="r", zarr_format=3)

    def cbytes(self, path: Path) -> int:
        return sum(entry.stat().st_size for entry in path.glob("c/**/*") if entry.is_file())


class ZarrBlosc(Zarr):
    note = "its Blosc codec with byte shuffle and zstd-5"
    works = (CUBE,)

    def options(self) -> dict[str, Any]:
        blosc = self.lib.codecs.BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")
        return {"compressors": [blosc]}


class Hdf5(Contender):
    note = "byte shuffle and gzip-4, which every HDF5 has; chunks of its choice"
    libraries = "h5py {h5py}, hdf5plugin {hdf5plugin}"
    modules = ("h5py", "hdf5plugin")

    def options(self) -> Any:
        return {"compression": "gzip", "shuffle": True}

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        with self.lib.File(path, "w") as file:
            file.create_dataset("array", data=array, chunks=chunks, **self.options())

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        with self.lib.File(path, "r") as file:
            yield file["array"]

    def cbytes(self, path: Path) -> int:
        with self.open(path) as dataset:
            return int(dataset.id.get_storage_size())


class Hdf5Blosc(Hdf5):
    note = "the Blosc filter of hdf5plugin with byte shuffle and zstd-5; chunks of its choice"
    works = (CUBE,)

    def options(self) -> Any:
        return import_module("hdf5plugin").Blosc(cname="zstd", clevel=5, shuffle=1)


class Vortex(Contender):
    note = "a file of one column, with its compact encodings, pcodec and Zstandard"
    libraries = "vortex-data {vortex-data}"
    modules = ("vortex", "pyarrow")

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        column = self.lib.array(import_module("pyarrow").array(array.reshape(-1)))
        self.lib.io.VortexWriteOptions.compact().write(column, str(path))

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield self.lib.open(str(path))

    def read(self, handle: Any, like: np.ndarray) -> np.ndarray:
        column = handle.scan().read_all()
        return column.to_numpy(zero_copy_only=False).reshape(like.shape)
