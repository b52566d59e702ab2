"""h5py on a file object of fsspec."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
from peers.data import Spec
from peers.with_h5py import LIBRARIES, Hdf5

from remote.contenders import HDF5, Contender


class Hdf5File(Contender):
    """A file object with the defaults of its library."""

    name = HDF5
    libraries = LIBRARIES
    note = (
        "the Blosc filter of hdf5plugin, without checksums, the default; a file object of s3fs or "
        "of fsspec's HTTP, which by default reads ahead, 50 MiB and 5 MiB; rows at random are read "
        "one by one as they are stored, in a tenth of the time that a list of them takes"
    )

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "array.h5"
        Hdf5().write(path, array, spec)
        return path

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        filesystem, path = fsspec.core.url_to_fs(url, **options)
        with filesystem.open(path, "rb") as stream, h5py.File(stream, "r") as file:
            yield file["array"]

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        found = np.empty((len(rows), *array.shape[1:]), array.dtype)
        for place in np.argsort(rows).tolist():
            found[place] = array[rows[place]]
        return found
