"""Contenders that keep arrays in files; all of them work in one process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from race import races
from race.timing import BARE

from peers.data import Spec

Append = Callable[[np.ndarray], object]
Changer = tuple[Callable[[], Any], Callable[[], object]]

BARE_OWN_BLOCKS = f"{BARE}, its own blocks"

TABLE = {
    "bloscpack": "peers.formats:Ours",
    "blosc2": "peers.formats:Blosc2",
    "zarr": "peers.formats:Zarr",
    "zarr, crc32c": (
        "peers.formats:Zarr",
        {"is_variant": True, "note": "as zarr, with its crc32c codec"},
    ),
    "zarrs": "peers.formats:Zarrs",
    "tensorstore": "peers.formats:Tensorstore",
    "h5py": "peers.formats:Hdf5",
    "h5py, fletcher32": (
        "peers.formats:Hdf5",
        {"is_variant": True, "note": "as h5py, with its fletcher32 filter"},
    ),
    "h5py, not compressed": (
        "peers.formats:PlainHdf5",
        {"works": ("commits", "change"), "note": "as h5py, without a filter"},
    ),
    "versioned-hdf5": "peers.formats:VersionedHdf5",
    "numpy.save": "peers.formats:Npy",
    BARE: "peers.bare:Bare",
    BARE_OWN_BLOCKS: (
        "peers.bare:Bare",
        {"has_our_blocks": False, "works": ("read", "write"), "note": "with blocks of its choice"},
    ),
}


class DataExtent(NamedTuple):
    """Bytes of a file that hold stored array data; all others are its headers."""

    path: Path
    start: int
    stop: int


class Contender(races.Contender):
    """A format and the library that reads and writes it; `works` is empty for all races.

    Attributes
    ----------
    can_grow : bool
        Whether `appender` and `writer` work.
    is_parallel : bool
        Whether `read` heeds its number of threads.
    is_variant : bool
        Whether it is another contender with a checksum.
    is_durable : bool
        Whether the changes of `changer` can be made durable.
    """

    can_grow = True
    is_parallel = True
    is_variant = False
    is_durable = False

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Write a whole array to a new path."""
        raise NotImplementedError

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Open, read everything into a new array, close."""
        raise NotImplementedError

    def open(self, path: Path) -> AbstractContextManager[Any]:
        """Open for reading: the handle has a shape, is indexed and iterated, and returns arrays."""
        raise NotImplementedError

    def appender(self, path: Path) -> AbstractContextManager[Append]:
        """Open to append; the value is the function that appends rows."""
        raise NotImplementedError

    def changer(self, path: Path) -> AbstractContextManager[Changer]:
        """Open to change items; the value returns what to assign to, and makes it durable."""
        raise NotImplementedError("not raced")

    @contextmanager
    def writer(self, path: Path, row: np.ndarray, spec: Spec) -> Iterator[Append]:
        """Create a file of unknown length for rows like `row`; by default an empty array grows."""
        self.write(path, np.empty((0, *row.shape), row.dtype), spec)
        with self.appender(path) as append:
            yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the places of the stored chunks."""
        raise NotImplementedError
