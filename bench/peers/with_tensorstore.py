"""tensorstore: the zarr3 driver on files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from peers.contenders import Append, Contender, DataExtent, chunk_files
from peers.data import Spec


class Tensorstore(Contender):
    """Zarr format 3 by tensorstore."""

    name = "tensorstore"
    note = "driver zarr3, a file for each chunk, each synced, the default; no checksums"
    libraries = "tensorstore {tensorstore}"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        blosc = {
            "cname": spec.codec,
            "clevel": spec.clevel,
            "shuffle": "shuffle",
            "typesize": array.dtype.itemsize,
        }
        shape = [spec.chunk_rows, *array.shape[1:]]
        metadata = {
            "shape": list(array.shape),
            "data_type": array.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "blosc", "configuration": blosc},
            ],
        }
        store = ts.open({**_spec(path), "metadata": metadata}, create=True).result()
        if len(array):
            store.write(array).result()

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        context = None
        if nthreads is not None:
            context = ts.Context({"data_copy_concurrency": {"limit": nthreads}})
        return ts.open(_spec(path), context=context, read=True).result().read().result()

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield _Handle(ts.open(_spec(path), read=True).result())

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        store = ts.open(_spec(path), read=True, write=True).result()

        def append(rows: np.ndarray) -> None:
            nonlocal store
            length = store.shape[0]
            store = store.resize(exclusive_max=[length + len(rows), *store.shape[1:]]).result()
            store[length:].write(rows).result()

        yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
        return chunk_files(path)


class _Handle:
    """A TensorStore that reads when it is indexed, as arrays do."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.shape = store.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return self._store[index].read().result()

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(self._store.shape[0]))


def _spec(path: Path) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
