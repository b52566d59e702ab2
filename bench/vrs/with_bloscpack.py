"""Our recordings, and our reader for users of pyvrs."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bloscpack import vrs
from vrs.contenders import (
    OURS,
    OURS_ARRAYS,
    OURS_PORTED,
    PER_ARRAY,
    READING,
    WRITING,
    Contender,
    Write,
    rows_of,
)
from vrs.data import timestamps
from vrs.with_pyvrs import Ported

_RATE, _FRAME_RATE = 1_000, 30


class Motion(vrs.Layout):
    """The metadata of a record of the motion sensor: `data.MOTION`."""

    captured = vrs.Value("int64_t")
    temperature = vrs.Value("float")
    accelerometer = vrs.Array("float", 3)
    gyroscope = vrs.Array("float", 3)


class Configuration(vrs.Layout):
    """Configuration record of a stream, without which the wheel warns at each read."""

    rate = vrs.Value("double")


class Opened:
    """A recording of one stream, whose first record is its configuration."""

    def __init__(self, recording: vrs.Recording) -> None:
        self._recording = recording
        (self._stream,) = recording.streams.values()

    def __len__(self) -> int:
        return len(self._recording) - 1

    def records(self) -> Iterator[dict[str, Any]]:
        for record in islice(self._recording, 1, None):
            yield record.metadata_blocks[0]

    def record(self, index: int) -> dict[str, Any]:
        return self._recording[1 + index].metadata_blocks[0]

    def field(self, name: str) -> np.ndarray:
        column = self._stream.field(name)
        assert isinstance(column, np.ndarray)
        return column

    def frames(self) -> Iterator[np.ndarray]:
        for record in islice(self._recording, 1, None):
            yield record.image_blocks[0]

    def frame(self, index: int) -> np.ndarray:
        return self._recording[1 + index].image_blocks[0]


class OpenedArrays(Opened):
    """Frames read as arrays of several."""

    def frames(self) -> Iterator[np.ndarray]:
        clip = self._stream.frames
        for start in range(0, len(clip), PER_ARRAY):
            yield clip[start : start + PER_ARRAY]


class Ours(Contender):
    """`bloscpack.vrs`: records one by one, columns."""

    name = OURS
    note = (
        "bloscpack.vrs: `for record in recording`, `recording[i]` and `stream.field(name)`; files "
        "by `vrs.create` with a Layout class, from dicts and arrays"
    )
    works = (*READING, *WRITING)

    @contextmanager
    def open(self, path: Path) -> Iterator[Opened]:
        with vrs.open(path) as recording:
            yield Opened(recording)

    def motion_writer(self, rows: np.ndarray, preset: str) -> Write:
        values, times = rows_of(rows), timestamps(len(rows), _RATE)

        def write(path: Path) -> None:
            with vrs.create(path, compression=preset) as writer:
                stream = writer.stream("imu")
                stream.define("data", Motion)
                configure(stream, _RATE)
                for time, value in zip(times, values, strict=True):
                    stream.write("data", time, value)

        return write

    def frames_writer(self, frames: np.ndarray, preset: str) -> Write:
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
    stream.define("configuration", Configuration)
    stream.write("configuration", -1.0, {"rate": rate})


class OursArrays(Ours):
    """Frames through `stream.frames`."""

    name = OURS_ARRAYS
    note = "`stream.frames[a:b]`, decoded on all threads"
    works = ("frames",)

    @contextmanager
    def open(self, path: Path) -> Iterator[Opened]:
        with vrs.open(path) as recording:
            yield OpenedArrays(recording)


class OursPorted(Ours):
    """The reader named as that of pyvrs."""

    name = OURS_PORTED
    note = "bloscpack.vrs.SyncVRSReader, whose records and blocks are those of pyvrs"
    works = READING

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield Ported(vrs.SyncVRSReader(path))
