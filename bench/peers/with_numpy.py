"""numpy.save and numpy.load: not compressed, mapped into memory for a part."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from peers.contenders import Contender, DataExtent
from peers.data import Spec


class Npy(Contender):
    """A .npy file, which needs its length at the start."""

    name = "numpy.save"
    note = "not compressed, no checksums; parts are read through mmap_mode"
    libraries = "numpy {numpy}"
    can_grow = False
    is_parallel = False

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        with path.open("wb") as stream:  # np.save would add a suffix to a path
            np.save(stream, array)

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        return np.load(path)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield _Mapped(np.load(path, mmap_mode="r"))

    def data_extents(self, path: Path) -> list[DataExtent]:
        array = np.load(path, mmap_mode="r")
        size = path.stat().st_size
        return [DataExtent(path, size - array.nbytes, size)]


class _Mapped:
    """A memory map whose parts are read when it is indexed, as the others do."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape = array.shape

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.array(self._array[index])

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(np.array, self._array)
