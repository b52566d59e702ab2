"""Our files, zarr with an object for each chunk or for many, and h5py on a file of fsspec."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from peers.data import Spec
from peers.formats import HDF5_LIBRARIES, Hdf5, Zarr
from peers.formats import Ours as OurFile

import bloscpack as bp
from remote.contenders import CLIP, OPEN, Contender

_NSHARDED = 32  # chunks of a shard


class Ours(Contender):
    """`bloscpack.open` of a URL."""

    note = (
        "a file of `bloscpack.save`, opened by `bloscpack.open` with its defaults: the checksum of "
        "each chunk is compared, and the version of the object with every answer"
    )

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "array.blp"
        OurFile().write(path, array, spec)
        return path

    def open(self, url: str, options: dict[str, Any]) -> AbstractContextManager[Any]:
        return bp.open(url, storage_options=options)

    def iterate(self, array: Any, nrows: int) -> Iterator[np.ndarray]:
        return islice(array, nrows)


class OurStore(Ours):
    """`bloscpack.frames.open` of a URL."""

    note = (
        "the same frames as clips in a file of `bloscpack.frames.create`, with its defaults, which "
        "compress more and check each frame"
    )
    works = (OPEN, CLIP)

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "clips.blp"
        with bp.frames.create(path) as store:
            for start in range(0, len(array), nclip):
                store.append(str(start), array[start : start + nclip])
        return path

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        with bp.frames.open(url, storage_options=options) as store:
            yield _Clips(store)


class _Clips:
    """An array over a store of clips of one size, read clip by clip."""

    def __init__(self, store: Any) -> None:
        self._store = store
        first = store["0"]
        self.shape = (len(store) * len(first), *first.shape[1:])
        self.dtype = first.dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._store[str(rows.start)][:]


class Plain(Contender):
    """Format 3 with its defaults."""

    note = (
        "format 3, an object for each chunk, without checksums, the default; `FsspecStore`, opened "
        "as format 3, which saves asking for format 2; rows at random are asked for as they are "
        "stored, which is faster"
    )
    libraries = "zarr {zarr} with fsspec {fsspec}"
    modules = ("zarr", "zarr.storage")

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "array.zarr"
        Zarr().write(path, array, spec)
        return path

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        from_url = self.lib.storage.FsspecStore.from_url
        store = from_url(url, storage_options=options, read_only=True)
        yield self.lib.open_array(store, mode="r", zarr_format=3)

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        found: np.ndarray = array.oindex[sorted(rows)]
        return found[np.argsort(np.argsort(rows))]


class Sharded(Plain):
    """Format 3 with shards."""

    note = f"the same with {_NSHARDED} chunks in an object, a shard"

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "sharded.zarr"
        shards = (_NSHARDED * spec.chunk_rows, *array.shape[1:])
        Zarr().create(path, array, spec, shards=shards)[:] = array
        return path


class Hdf5File(Contender):
    """A file object with the defaults of its library."""

    note = (
        "the Blosc filter of hdf5plugin, without checksums, the default; a file object of s3fs or "
        "of fsspec's HTTP, which by default reads ahead, 50 MiB and 5 MiB; rows at random are read "
        "one by one as they are stored, in a tenth of the time that a list of them takes"
    )
    libraries = HDF5_LIBRARIES
    modules = ("h5py", "hdf5plugin")

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "array.h5"
        Hdf5().write(path, array, spec)
        return path

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        filesystem, path = fsspec.core.url_to_fs(url, **options)
        with filesystem.open(path, "rb") as stream, self.lib.File(stream, "r") as file:
            yield file["array"]

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        found = np.empty((len(rows), *array.shape[1:]), array.dtype)
        for place in np.argsort(rows).tolist():
            found[place] = array[rows[place]]
        return found
