"""numpy.save and numpy.load: not compressed, mapped into memory for a part."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from peers.contender import Append, DataExtent
from peers.data import Spec


class Npy:
    """A .npy file."""

    name = "numpy.save"
    note = "not compressed, no checksums; parts are read through mmap_mode"
    can_append = False
    can_grow = False
    is_parallel = False
    is_variant = False

    def version(self) -> str:
        """Return name and version."""
        return f"numpy {np.__version__}"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Save."""
        with path.open("wb") as stream:  # np.save would add a suffix to a path
            np.save(stream, array)

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Load."""
        return np.load(path)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        """Map the file."""
        yield _Mapped(np.load(path, mmap_mode="r"))

    def appender(self, path: Path) -> AbstractContextManager[Append]:
        """Refuse."""
        raise NotImplementedError("a .npy file does not grow")

    def writer(self, path: Path, row: np.ndarray, spec: Spec) -> AbstractContextManager[Append]:
        """Refuse."""
        raise NotImplementedError("a .npy file needs its length at the start")

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return what follows the header."""
        array = np.load(path, mmap_mode="r")
        size = path.stat().st_size
        return [DataExtent(path, size - array.nbytes, size)]


class _Mapped:
    """A memory map whose parts are read when it is indexed, as the others do."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.array(self._array[index])

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(np.array, self._array)
