"""Our recordings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bloscpack import vrs
from vrs.contenders import PER_ARRAY, READING, WRITING, Contender, Write, rows_of
from vrs.with_pyvrs import Ported


class Motion(vrs.Layout):
    """The metadata of a record of the motion sensor: `data.MOTION`."""

    captured = vrs.Value("int64_t")
    temperature = vrs.Value("float")
    accelerometer = vrs.Array("float", 3)
    gyroscope = vrs.Array("float", 3)


class Configuration(vrs.Layout):
    """Configuration record of a stream, without which the wheel warns at each read."""

    rate = vrs.Value("double")


class Opened(Ported):
    """A recording of one stream, read by the same script as pyvrs, with fields as columns."""

    def __init__(self, recording: vrs.Recording) -> None:
        super().__init__(recording)
        (self._stream,) = recording.streams.values()

    def field(self, name: str) -> np.ndarray:
        column = self._stream.field(name)
        assert isinstance(column, np.ndarray)
        return column


class OpenedArrays(Opened):
    """Frames read as arrays of several."""

    def frames(self) -> Iterator[np.ndarray]:
        clip = self._stream.frames
        for start in range(0, len(clip), PER_ARRAY):
            yield clip[start : start + PER_ARRAY]


class Ours(Contender):
    note = (
        "bloscpack.vrs: `for record in recording`, `recording[i]` and `stream.field(name)`; files "
        "by `vrs.create` with a Layout class, from dicts and arrays"
    )
    works = (*READING, *WRITING)
    opened = Opened

    @contextmanager
    def open(self, path: Path) -> Iterator[Opened]:
        with vrs.open(path) as recording:
            yield self.opened(recording)

    def motion_writer(self, rows: np.ndarray, preset: str) -> Write:
        return _writer("imu", Motion, rows_of(rows), 1_000, preset)

    def frames_writer(self, frames: np.ndarray, preset: str) -> Write:
        height, width = frames[0].shape
        image = vrs.Image("raw", width, height, "grey8")
        return _writer("rgb camera", image, frames, 30, preset)


def _writer(stream_name: str, layout: Any, values: Any, rate: float, preset: str) -> Write:
    times = [number / rate for number in range(len(values))]

    def write(path: Path) -> None:
        with vrs.create(path, compression=preset) as writer:
            stream = writer.stream(stream_name)
            stream.define("data", layout)
            stream.define("configuration", Configuration)
            stream.write("configuration", -1.0, {"rate": rate})
            for time, value in zip(times, values, strict=True):
                stream.write("data", time, value)

    return write


class OursArrays(Ours):
    note = "`stream.frames[a:b]`, decoded on all threads"
    works = ("frames",)
    opened = OpenedArrays
