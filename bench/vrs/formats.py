"""Recordings by the vrs wheel (pyvrs over the C++ reference) and by us, and MCAP by its library."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bloscpack import vrs
from vrs.contenders import PER_ARRAY, READING, WRITING, Contender, Write, rows_of
from vrs.data import MOTION

_MOTION = struct.Struct("<qf3f3f")
_STEP = 1_000_000  # nanoseconds between messages of MCAP
_COMPRESSION = {"none": "NONE", "fast": "LZ4"}  # of MCAP by the preset of VRS, else ZSTD


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
        """Read every record of the motion sensor, in order."""
        for record in self._data():
            yield record.metadata_blocks[0]

    def record(self, index: int) -> dict[str, Any]:
        return self._reader[1 + index].metadata_blocks[0]

    def field(self, name: str) -> np.ndarray:
        """Return one field of all records."""
        values = [record.metadata_blocks[0][name] for record in self._data()]
        return np.array(values, np.float32)

    def frames(self) -> Iterator[np.ndarray]:
        """Read all frames in order, single ones or arrays of `PER_ARRAY`."""
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


class Messages:
    """A file of one channel; its metadata hold the shape of frames."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        summary = reader.get_summary()
        self._count = summary.statistics.message_count
        (channel,) = summary.channels.values()
        self._shape = tuple(map(int, channel.metadata.get("shape", "0").split()))

    def __len__(self) -> int:
        return self._count

    def records(self) -> Iterator[dict[str, Any]]:
        for _, _, message in self._reader.iter_messages():
            yield _values(message.data)

    def record(self, index: int) -> dict[str, Any]:
        return _values(self._message(index))

    def field(self, name: str) -> np.ndarray:
        messages = self._reader.iter_messages()
        data = b"".join([message.data for _, _, message in messages])
        return np.ascontiguousarray(np.frombuffer(data, MOTION)[name])

    def frames(self) -> Iterator[np.ndarray]:
        for _, _, message in self._reader.iter_messages():
            yield np.frombuffer(message.data, np.uint8).reshape(self._shape)

    def frame(self, index: int) -> np.ndarray:
        return np.frombuffer(self._message(index), np.uint8).reshape(self._shape)

    def _message(self, index: int) -> bytes:
        start = index * _STEP
        messages = self._reader.iter_messages(starting_at=start, ending_at=start)
        _, _, message = next(messages)
        return message.data


def _values(data: bytes) -> dict[str, Any]:
    captured, temperature, *others = _MOTION.unpack(data)
    return {
        "captured": captured,
        "temperature": temperature,
        "accelerometer": others[:3],
        "gyroscope": others[3:],
    }


class Mcap(Contender):
    """A file of one channel, chunks of the default size."""

    note = (
        "messages of the same bytes without a schema, packed and unpacked by `struct`; one at "
        "random is found by its time; in place of a preset of Zstandard its own level, in chunks "
        "of 1 MiB"
    )
    libraries = "mcap {mcap}"
    modules = ("mcap.reader", "mcap.writer")
    files = "mcap"
    works = (*READING, *WRITING)

    @contextmanager
    def open(self, path: Path) -> Iterator[Messages]:
        with path.open("rb") as stream:
            yield Messages(self.lib.make_reader(stream))

    def motion_writer(self, rows: np.ndarray, preset: str) -> Write:
        values = rows_of(rows)

        def payloads() -> Iterator[bytes]:
            for row in values:
                captured, temperature, *vectors = row.values()
                yield _MOTION.pack(captured, temperature, *vectors[0], *vectors[1])

        return lambda path: _write(path, payloads(), {}, preset)

    def frames_writer(self, frames: np.ndarray, preset: str) -> Write:
        shape = " ".join(map(str, frames[0].shape))

        return lambda path: _write(
            path, (frame.tobytes() for frame in frames), {"shape": shape}, preset
        )


def _write(path: Path, payloads: Iterator[bytes], about: dict[str, str], preset: str) -> None:
    mcap = import_module("mcap.writer")
    compression = mcap.CompressionType[_COMPRESSION.get(preset, "ZSTD")]
    with path.open("wb") as stream:
        writer = mcap.Writer(stream, compression=compression)
        writer.start()
        channel = writer.register_channel("sensor", "", 0, about)
        for number, payload in enumerate(payloads):
            time = number * _STEP
            writer.add_message(channel, time, payload, time, number)
        writer.finish()
