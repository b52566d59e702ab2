"""Our own: recordings, and the reader for those who come from pyvrs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack import vrs
from vrs.contender import OURS, OURS_ARRAYS, OURS_PORTED, PER_ARRAY, READING, WRITING, rows_of
from vrs.data import timestamps

__all__ = ["Ours", "OursArrays", "OursPorted"]

_RATE, _FRAME_RATE = 1_000, 30


class Motion(vrs.Layout):
    """The metadata of a record of the motion sensor: `data.MOTION`."""

    captured = vrs.Value("int64_t")
    temperature = vrs.Value("float")
    accelerometer = vrs.Array("float", 3)
    gyroscope = vrs.Array("float", 3)


class Configuration(vrs.Layout):
    """What the wheel asks of every stream: without such a record it complains at each reading."""

    rate = vrs.Value("double")


class Opened:
    """A recording of one stream, whose first record is its configuration."""

    def __init__(self, recording: vrs.Recording) -> None:
        self._recording = recording
        (self._stream,) = recording.streams.values()

    def __len__(self) -> int:
        return len(self._recording) - 1

    def records(self) -> Iterator[dict[str, Any]]:
        """Read the metadata of every record."""
        for record in islice(self._recording, 1, None):
            yield record.metadata_blocks[0]

    def record(self, index: int) -> dict[str, Any]:
        """Read the metadata of one."""
        return self._recording[1 + index].metadata_blocks[0]

    def field(self, name: str) -> np.ndarray:
        """Return one field of all records."""
        column = self._stream.field(name)
        assert isinstance(column, np.ndarray)
        return column

    def frames(self) -> Iterator[np.ndarray]:
        """Read all frames."""
        for record in islice(self._recording, 1, None):
            yield record.image_blocks[0]

    def frame(self, index: int) -> np.ndarray:
        """Read one."""
        return self._recording[1 + index].image_blocks[0]


class OpenedArrays(Opened):
    """The same, whose frames are read as arrays of several."""

    def frames(self) -> Iterator[np.ndarray]:
        """Read all frames."""
        clip = self._stream.frames
        for start in range(0, len(clip), PER_ARRAY):
            yield clip[start : start + PER_ARRAY]


class Ours:
    """`bloscpack.vrs`: records one by one, columns."""

    name = OURS
    note = (
        "bloscpack.vrs: `for record in recording`, `recording[i]` and `stream.field(name)`; files "
        "by `vrs.create` with a Layout class, from dicts and arrays"
    )
    files = "vrs"
    works = (*READING, *WRITING)

    def version(self) -> str:
        """Return name and version."""
        return f"bloscpack {bp.__version__}"

    @contextmanager
    def open(self, path: Path) -> Iterator[Opened]:
        """Open for reading."""
        with vrs.open(path) as recording:
            yield Opened(recording)

    def motion_writer(self, rows: np.ndarray, preset: str) -> Callable[[Path], object]:
        """Return what writes records of the motion sensor."""
        values, times = rows_of(rows), timestamps(len(rows), _RATE)

        def write(path: Path) -> None:
            with vrs.create(path, compression=preset) as writer:
                stream = writer.stream("imu")
                stream.define("data", Motion)
                configure(stream, _RATE)
                for time, value in zip(times, values, strict=True):
                    stream.write("data", time, value)

        return write

    def frames_writer(self, frames: np.ndarray, preset: str) -> Callable[[Path], object]:
        """Return what writes frames."""
        times = timestamps(len(frames), _FRAME_RATE)
        height, width = frames[0].shape

        def write(path: Path) -> None:
            with vrs.create(path, compression=preset) as writer:
                stream = writer.stream("rgb camera")
                stream.define("data", vrs.Image("raw", width, height, "grey8"))
                configure(stream, _FRAME_RATE)
                for time, frame in zip(times, frames, strict=True):
                    stream.write("data", time, frame)

        return write


def configure(stream: vrs.StreamWriter, rate: float) -> None:
    """Write the configuration record of a stream, before all others."""
    stream.define("configuration", Configuration)
    stream.write("configuration", -1.0, {"rate": rate})


class OursArrays(Ours):
    """Frames through `stream.frames`."""

    name = OURS_ARRAYS
    note = "`stream.frames[a:b]`, decoded on all threads"
    works = ("frames",)

    @contextmanager
    def open(self, path: Path) -> Iterator[Opened]:
        """Open for reading."""
        with vrs.open(path) as recording:
            yield OpenedArrays(recording)


class OursPorted(Ours):
    """The reader of pyvrs's name."""

    name = OURS_PORTED
    note = "bloscpack.vrs.SyncVRSReader, whose records and blocks are those of pyvrs"
    works = ("open", "records", "record", "field", "frames", "frame")

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        """Open for reading."""
        from vrs.ported import Ported

        yield Ported(vrs.SyncVRSReader(path))
