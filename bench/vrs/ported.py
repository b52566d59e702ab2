"""A reader of pyvrs, the wheel's or ours: the script that is timed is the same."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from vrs.contender import PER_ARRAY


class Ported:
    """A reader of a file of one stream, whose first record is its configuration.

    Parameters
    ----------
    reader : SyncVRSReader
        Of the wheel, or ours.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __len__(self) -> int:
        return len(self._reader) - 1

    def _data(self) -> Iterator[Any]:
        return islice(self._reader, 1, None)

    def records(self) -> Iterator[dict[str, Any]]:
        """Read the metadata of every record."""
        for record in self._data():
            yield record.metadata_blocks[0]

    def record(self, index: int) -> dict[str, Any]:
        """Read the metadata of one."""
        values: dict[str, Any] = self._reader[1 + index].metadata_blocks[0]
        return values

    def field(self, name: str) -> np.ndarray:
        """Return one field of all records."""
        values = [record.metadata_blocks[0][name] for record in self._data()]
        return np.array(values, np.float32)

    def frames(self) -> Iterator[np.ndarray]:
        """Read all frames."""
        for record in self._data():
            yield record.image_blocks[0]

    def frame(self, index: int) -> np.ndarray:
        """Read one."""
        image: np.ndarray = self._reader[1 + index].image_blocks[0]
        return image


class PortedArrays(Ported):
    """The same, whose frames are made arrays of several."""

    def frames(self) -> Iterator[np.ndarray]:
        """Read all frames."""
        frames = []
        for record in self._data():
            frames.append(record.image_blocks[0])
            if len(frames) == PER_ARRAY:
                yield np.stack(frames)
                frames.clear()
        if frames:
            yield np.stack(frames)
