"""The vrs wheel: pyvrs over the C++ reference, and a script for its reader and ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from vrs.contenders import READING, Contender


class Ported:
    """A reader as in pyvrs, the wheel's or ours, so that both are timed by the same script.

    It reads a file of one stream, whose first record is its configuration.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __len__(self) -> int:
        return len(self._reader) - 1

    def _data(self) -> Iterator[Any]:
        return islice(self._reader, 1, None)

    def records(self) -> Iterator[dict[str, Any]]:
        for record in self._data():
            yield record.metadata_blocks[0]

    def record(self, index: int) -> dict[str, Any]:
        return self._reader[1 + index].metadata_blocks[0]

    def field(self, name: str) -> np.ndarray:
        values = [record.metadata_blocks[0][name] for record in self._data()]
        return np.array(values, np.float32)

    def frames(self) -> Iterator[np.ndarray]:
        for record in self._data():
            yield record.image_blocks[0]

    def frame(self, index: int) -> np.ndarray:
        return self._reader[1 + index].image_blocks[0]


class Wheel(Contender):
    note = "pyvrs.SyncVRSReader of the wheel, which reads our files; it writes no layouts of users"
    libraries = "vrs {vrs}"
    works = READING
    modules = ("pyvrs",)

    @contextmanager
    def open(self, path: Path) -> Iterator[Ported]:
        yield Ported(self.lib.SyncVRSReader(str(path)))
