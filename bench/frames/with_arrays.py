"""Chunked arrays and mapped files, a chunk for each frame."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
from peers.formats import HDF5_LIBRARIES

from frames.contenders import (
    BATCH,
    CLIP,
    LOADING,
    SINGLE,
    ClipFiles,
    Contender,
    Frames,
    ReadBatch,
    ReadClip,
)


class MemoryMap(ClipFiles):
    works = (CLIP, SINGLE, BATCH, LOADING)
    note = "a .npy file for each clip, mapped and copied to one array; one thread, no checksums"
    suffix = ".npy"

    def write_clip(self, path: Path, coded: np.ndarray) -> None:
        np.save(path, coded)

    def open_clip(self, path: Path) -> np.ndarray:
        return np.load(path, mmap_mode="r")

    def read_clip(self, clip: np.ndarray, selection: slice) -> np.ndarray:
        return np.array(clip[selection])

    @contextmanager
    def open_batch(self, path: Path) -> Iterator[ReadBatch]:
        clips = self.open_clips(path)

        def read(requests: list[tuple[str, slice]]) -> np.ndarray:
            parts = [clips[key][which] for key, which in requests]
            batch = np.empty((len(parts), *parts[0].shape), parts[0].dtype)
            for place, part in zip(batch, parts, strict=True):
                place[...] = part
            return batch

        yield read


class Hdf5(Contender):
    works = (CLIP, SINGLE)
    note = (
        "a dataset for each clip, chunk = frame, level 5, byte shuffle; one array, frame by frame, "
        "because a slice with a step takes it some 80 times as long; one thread"
    )
    libraries = HDF5_LIBRARIES
    modules = ("h5py", "hdf5plugin")
    codec = ("lz4", 5)

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        cname, clevel = self.codec
        blosc = import_module("hdf5plugin").Blosc(cname=cname, clevel=clevel, shuffle=1)
        with self.lib.File(path, "w") as file:
            for key in ids:
                file.create_dataset(key, data=frames, chunks=(1, *frames.shape[1:]), **blosc)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with self.lib.File(path, "r") as file:
            datasets = {key: file[key] for key in file}

            def read(key: str, selection: slice) -> Frames:
                dataset = datasets[key]
                numbers = range(*selection.indices(len(dataset)))
                frames = np.empty((len(numbers), *dataset.shape[1:]), dataset.dtype)
                for place, number in enumerate(numbers):
                    dataset.read_direct(frames, number, place)
                return frames

            yield read
