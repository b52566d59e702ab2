"""Who takes part: one interface for every format, a module for each library.

A contender that is not installed is not an error: `assemble` says why it is missing, and the
tables repeat it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from peers.data import Spec

Append = Callable[[np.ndarray], object]

# Module and class of each, in the order of the tables.
TABLE = {
    "bloscpack": ("peers.with_bloscpack", "Ours"),
    "blosc2": ("peers.with_blosc2", "Blosc2"),
    "zarr": ("peers.with_zarr", "Zarr"),
    "zarr, crc32c": ("peers.with_zarr", "ZarrCrc32c"),
    "zarrs": ("peers.with_zarr", "Zarrs"),
    "zarrs, crc32c": ("peers.with_zarr", "ZarrsCrc32c"),
    "tensorstore": ("peers.with_tensorstore", "Tensorstore"),
    "h5py": ("peers.with_h5py", "Hdf5"),
    "h5py, fletcher32": ("peers.with_h5py", "Hdf5Fletcher32"),
    "numpy.save": ("peers.with_numpy", "Npy"),
}


class DataExtent(NamedTuple):
    """Bytes of a file that hold stored array data; all others are its headers."""

    path: Path
    start: int
    stop: int


class Contender(Protocol):
    """A format and the library that reads and writes it.

    Attributes
    ----------
    name : str
        As in the tables.
    note : str
        What it checks and how it was set, for the page.
    can_append : bool
        Whether `appender` works.
    can_grow : bool
        Whether `writer` works.
    is_parallel : bool
        Whether `read` heeds its number of threads.
    is_variant : bool
        Whether it is another contender with a checksum.
    """

    name: str
    note: str
    can_append: bool
    can_grow: bool
    is_parallel: bool
    is_variant: bool

    def version(self) -> str:
        """Return name and version of the library."""
        ...

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Write a whole array; nothing is at `path`."""
        ...

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Open, read everything into a new array, close."""
        ...

    def open(self, path: Path) -> AbstractContextManager[Any]:
        """Open for reading; what is given is indexed and iterated, and gives ndarrays."""
        ...

    def appender(self, path: Path) -> AbstractContextManager[Append]:
        """Open to append; gives the function that appends rows."""
        ...

    def writer(self, path: Path, row: np.ndarray, spec: Spec) -> AbstractContextManager[Append]:
        """Create a file of unknown length for rows like `row`; gives what appends rows."""
        ...

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return where the stored chunks lie."""
        ...


class GrowingFile:
    """Writing over time for formats whose empty array grows."""

    @contextmanager
    def writer(self: Any, path: Path, row: np.ndarray, spec: Spec) -> Iterator[Append]:
        """Create an empty array and append to it."""
        self.write(path, np.empty((0, *row.shape), row.dtype), spec)
        with self.appender(path) as append:
            yield append
