"""MCAP by its Python library: messages with a time, in compressed chunks with an index."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from mcap.reader import McapReader, make_reader
from mcap.writer import CompressionType, Writer

from vrs.contenders import READING, WRITING, Contender, Write, rows_of
from vrs.data import MOTION

_MOTION = struct.Struct("<qf3f3f")
_STEP = 1_000_000  # nanoseconds between records
_COMPRESSION = {"none": CompressionType.NONE, "fast": CompressionType.LZ4}


class Opened:
    """A file of one channel; its metadata hold the shape of frames."""

    def __init__(self, stream: BinaryIO) -> None:
        self._reader: McapReader = make_reader(stream)
        summary = self._reader.get_summary()
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
    files = "mcap"
    works = (*READING, *WRITING)

    @contextmanager
    def open(self, path: Path) -> Iterator[Opened]:
        with path.open("rb") as stream:
            yield Opened(stream)

    def motion_writer(self, rows: np.ndarray, preset: str) -> Write:
        values = rows_of(rows)

        def payloads() -> Iterator[bytes]:
            for row in values:
                captured, temperature, *vectors = row.values()
                yield _MOTION.pack(captured, temperature, *vectors[0], *vectors[1])

        return lambda path: _write(path, payloads(), {}, preset)

    def frames_writer(self, frames: np.ndarray, preset: str) -> Write:
        shape = " ".join(map(str, frames[0].shape))

        def payloads() -> Iterator[bytes]:
            for frame in frames:
                yield frame.tobytes()

        return lambda path: _write(path, payloads(), {"shape": shape}, preset)


def _write(path: Path, payloads: Iterator[bytes], about: dict[str, str], preset: str) -> None:
    compression = _COMPRESSION.get(preset, CompressionType.ZSTD)
    with path.open("wb") as stream:
        writer = Writer(stream, compression=compression)
        writer.start()
        channel = writer.register_channel("sensor", "", 0, about)
        for number, payload in enumerate(payloads):
            time = number * _STEP
            writer.add_message(channel, time, payload, time, number)
        writer.finish()
