"""h5py with the Blosc filter of hdf5plugin."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np

from peers.contenders import Append, Contender, DataExtent
from peers.data import Spec

LIBRARIES = (
    f"h5py {h5py.__version__} (HDF5 {h5py.version.hdf5_version}, hdf5plugin {hdf5plugin.version})"
)


class Hdf5(Contender):
    """A chunked dataset without checksums, the default."""

    name = "h5py"
    note = "Blosc filter of hdf5plugin; no checksums of data, the default"
    libraries = LIBRARIES
    is_parallel = False

    def write(self, path: Path, array: np.ndarray, spec: Spec, *, is_fixed: bool = False) -> None:
        """Create a dataset that can grow, or one of fixed size."""
        blosc = hdf5plugin.Blosc(
            cname=spec.codec, clevel=spec.clevel, shuffle=hdf5plugin.Blosc.SHUFFLE
        )
        with h5py.File(path, "w") as file:
            file.create_dataset(
                "array",
                data=array,
                chunks=(spec.chunk_rows, *array.shape[1:]),
                maxshape=None if is_fixed else (None, *array.shape[1:]),
                fletcher32=self.is_variant,
                **blosc,
            )

    def write_fixed(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        self.write(path, array, spec, is_fixed=True)

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        with h5py.File(path, "r") as file:
            return file["array"][:]

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        with h5py.File(path, "r") as file:
            yield file["array"]

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        with h5py.File(path, "r+") as file:
            dataset = file["array"]

            def append(rows: np.ndarray) -> None:
                length = len(dataset)
                dataset.resize(length + len(rows), axis=0)
                dataset[length:] = rows

            yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
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
