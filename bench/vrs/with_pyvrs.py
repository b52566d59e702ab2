"""The vrs wheel: pyvrs over the C++ reference."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyvrs

from vrs.contender import READING, WHEEL, WHEEL_ARRAYS
from vrs.ported import Ported, PortedArrays


class Wheel:
    """Records one by one; there is no other way."""

    name = WHEEL
    note = "pyvrs.SyncVRSReader of the wheel, which reads our files; it writes no layouts of users"
    files = "vrs"
    works = READING
    opened = Ported

    def version(self) -> str:
        """Return name and version."""
        return f"vrs {version('vrs')}"

    @contextmanager
    def open(self, path: Path) -> Iterator[Ported]:
        """Open for reading."""
        yield self.opened(pyvrs.SyncVRSReader(str(path)))

    def motion_writer(self, rows: np.ndarray, preset: str) -> Callable[[Path], object]:
        """Return what writes records of the motion sensor."""
        raise NotImplementedError(self.note)

    def frames_writer(self, frames: np.ndarray, preset: str) -> Callable[[Path], object]:
        """Return what writes frames."""
        raise NotImplementedError(self.note)


class WheelArrays(Wheel):
    """Frames made arrays."""

    name = WHEEL_ARRAYS
    note = "the same, its frames put together by np.stack"
    works = ("frames",)
    opened = PortedArrays
