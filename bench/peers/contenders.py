"""Contenders that keep arrays in files; all of them work in one process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from race import races

from peers.data import Spec

Append = Callable[[np.ndarray], object]

TABLE = {
    "bloscpack": "peers.with_bloscpack:Ours",
    "blosc2": "peers.with_blosc2:Blosc2",
    "zarr": "peers.with_zarr:Zarr",
    "zarr, crc32c": "peers.with_zarr:ZarrCrc32c",
    "zarrs": "peers.with_zarr:Zarrs",
    "zarrs, crc32c": "peers.with_zarr:ZarrsCrc32c",
    "tensorstore": "peers.with_tensorstore:Tensorstore",
    "h5py": "peers.with_h5py:Hdf5",
    "h5py, fletcher32": "peers.with_h5py:Hdf5Fletcher32",
    "numpy.save": "peers.with_numpy:Npy",
}


class DataExtent(NamedTuple):
    """Bytes of a file that hold stored array data; all others are its headers."""

    path: Path
    start: int
    stop: int


class Contender(races.Contender):
    """A format and the library that reads and writes it.

    Attributes
    ----------
    can_grow : bool
        Whether `appender` and `writer` work.
    is_parallel : bool
        Whether `read` heeds its number of threads.
    is_variant : bool
        Whether it is another contender with a checksum.
    """

    can_grow = True
    is_parallel = True
    is_variant = False

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Write a whole array to a new path."""
        raise NotImplementedError

    def write_fixed(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Write an array that need not grow."""
        self.write(path, array, spec)

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Open, read everything into a new array, close."""
        raise NotImplementedError

    def open(self, path: Path) -> AbstractContextManager[Any]:
        """Open for reading: the handle has a shape, is indexed and iterated, and returns arrays."""
        raise NotImplementedError

    def appender(self, path: Path) -> AbstractContextManager[Append]:
        """Open to append; the value is the function that appends rows."""
        raise NotImplementedError

    @contextmanager
    def writer(self, path: Path, row: np.ndarray, spec: Spec) -> Iterator[Append]:
        """Create a file of unknown length for rows like `row`; by default an empty array grows."""
        self.write(path, np.empty((0, *row.shape), row.dtype), spec)
        with self.appender(path) as append:
            yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the places of the stored chunks."""
        raise NotImplementedError


def chunk_files(path: Path) -> list[DataExtent]:
    """Return the files of the chunks of a Zarr array, in order."""
    found = sorted((path / "c").glob("*/*"), key=lambda file: int(file.parent.name))
    return [DataExtent(file, 0, file.stat().st_size) for file in found]
