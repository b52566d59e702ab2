"""h5py with the Blosc filter of hdf5plugin."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np

from peers.contender import Append, DataExtent, GrowingFile
from peers.data import Spec


class Hdf5(GrowingFile):
    """A chunked dataset without checksums, the default."""

    name = "h5py"
    note = "Blosc filter of hdf5plugin; no checksums of data, the default"
    can_append = True
    can_grow = True
    is_parallel = False
    is_variant = False

    def version(self) -> str:
        """Return names and versions."""
        return (
            f"h5py {h5py.__version__} (HDF5 {h5py.version.hdf5_version}, "
            f"hdf5plugin {hdf5plugin.version})"
        )

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Create a dataset that can grow."""
        blosc = hdf5plugin.Blosc(
            cname=spec.codec, clevel=spec.clevel, shuffle=hdf5plugin.Blosc.SHUFFLE
        )
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "array",
                data=array,
                chunks=(spec.chunk_rows, *array.shape[1:]),
                maxshape=(None, *array.shape[1:]),
                fletcher32=self.is_variant,
                **blosc,
            )

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Read; HDF5 has one thread."""
        with h5py.File(path, "r") as file:
            return file["array"][:]

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        """Open file and dataset."""
        with h5py.File(path, "r") as file:
            yield file["array"]

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        """Open in mode "r+"; resize and assign."""
        with h5py.File(path, "r+") as file:
            dataset = file["array"]

            def append(rows: np.ndarray) -> None:
                length = len(dataset)
                dataset.resize(length + len(rows), axis=0)
                dataset[length:] = rows

            yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the chunks, as HDF5 tells them."""
        with h5py.File(path, "r") as file:
            low = file["array"].id
            chunks = [low.get_chunk_info(index) for index in range(low.get_num_chunks())]
        return [
            DataExtent(path, chunk.byte_offset, chunk.byte_offset + chunk.size) for chunk in chunks
        ]


class Hdf5Fletcher32(Hdf5):
    """A chunked dataset with HDF5's own checksum filter."""

    name = "h5py, fletcher32"
    note = "as h5py, with its fletcher32 filter"
    is_variant = True
