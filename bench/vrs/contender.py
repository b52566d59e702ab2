"""Who takes part: one interface for every way to keep records, a module for each library.

A contender that is not installed is not an error: `assemble` says why it is missing, and the
tables repeat it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

OURS = "bloscpack"
OURS_ARRAYS = "bloscpack, arrays of 32 frames"
OURS_PORTED = "bloscpack, SyncVRSReader"
WHEEL = "vrs"
WHEEL_ARRAYS = "vrs, arrays of 32 frames"
MCAP = "mcap"

PER_ARRAY = 32

# Module and class of each, in the order of the tables.
TABLE = {
    WHEEL: ("vrs.with_pyvrs", "Wheel"),
    WHEEL_ARRAYS: ("vrs.with_pyvrs", "WheelArrays"),
    OURS: ("vrs.with_bloscpack", "Ours"),
    OURS_ARRAYS: ("vrs.with_bloscpack", "OursArrays"),
    OURS_PORTED: ("vrs.with_bloscpack", "OursPorted"),
    MCAP: ("vrs.with_mcap", "Mcap"),
}

READING = ("open", "records", "record", "field", "frames", "frame")
WRITING = ("write motion", "write frames")


class Handle(Protocol):
    """A file that is open for reading. A contender has those of these that it does."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    def records(self) -> Iterator[dict[str, Any]]:
        """Read every record of the motion sensor, in order."""
        ...

    def record(self, index: int) -> dict[str, Any]:
        """Read one."""
        ...

    def field(self, name: str) -> np.ndarray:
        """Return one field of all records."""
        ...

    def frames(self) -> Iterator[np.ndarray]:
        """Read all frames, each or so many in an array, in order."""
        ...

    def frame(self, index: int) -> np.ndarray:
        """Read one."""
        ...


class Contender(Protocol):
    """A way to keep records and the library that reads and writes it.

    Attributes
    ----------
    name : str
        As in the tables.
    note : str
        How it does the work, for the page.
    files : str
        Contenders of one such name read the same files.
    works : tuple of str
        Which of `READING` and `WRITING` it does.
    """

    name: str
    note: str
    files: str
    works: tuple[str, ...]

    def version(self) -> str:
        """Return names and versions of the libraries."""
        ...

    def open(self, path: Path) -> AbstractContextManager[Handle]:
        """Open for reading."""
        ...

    def motion_writer(self, rows: np.ndarray, preset: str) -> Callable[[Path], object]:
        """Return what writes a new file with a record for each row; of `MOTION`, (N,)."""
        ...

    def frames_writer(self, frames: np.ndarray, preset: str) -> Callable[[Path], object]:
        """Return what writes a new file with a record for each frame, compressed by `preset`."""
        ...


def rows_of(values: np.ndarray) -> list[dict[str, Any]]:
    """Return the records of a structured array as a program has them: numbers and lists."""
    names = values.dtype.names or ()
    columns = [values[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
