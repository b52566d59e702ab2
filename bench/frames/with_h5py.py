"""HDF5 with the Blosc filter of hdf5plugin, a chunk for each frame."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
from peers.with_h5py import LIBRARIES

from frames.contenders import HDF5_LZ4, HDF5_ZSTD, Contender, Frames, ReadClip


class Hdf5Lz4(Contender):
    """A dataset for each clip, LZ4."""

    name = files = HDF5_LZ4
    note = (
        "a dataset for each clip, chunk = frame, level 5, byte shuffle; one array, frame by frame, "
        "because a slice with a step takes it some 80 times as long; one thread"
    )
    libraries = LIBRARIES
    codec, clevel = "lz4", 5

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        shuffle = hdf5plugin.Blosc.SHUFFLE
        blosc = hdf5plugin.Blosc(cname=self.codec, clevel=self.clevel, shuffle=shuffle)
        with h5py.File(path, "w") as file:
            for key in ids:
                file.create_dataset(key, data=frames, chunks=(1, *frames.shape[1:]), **blosc)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with h5py.File(path, "r") as file:
            datasets = {key: file[key] for key in file}

            def read(key: str, selection: slice) -> Frames:
                dataset = datasets[key]
                numbers = range(*selection.indices(len(dataset)))
                frames = np.empty((len(numbers), *dataset.shape[1:]), dataset.dtype)
                for place, number in enumerate(numbers):
                    dataset.read_direct(frames, number, place)
                return frames

            yield read


class Hdf5Zstd(Hdf5Lz4):
    """Zstandard."""

    name = files = HDF5_ZSTD
    note = "the same with level 1 of Zstandard"
    codec, clevel = "zstd", 1
