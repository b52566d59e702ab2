"""Storage that fails while a VRS recording is read: the caller gets the error, and nothing else.

Writers that are stopped at every step are tested in tests/vrs/test_writer_crash.py.
"""

import errno
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs

from ..vrs.memorysource import layout
from ..vrs.recordingfiles import Rec, build

META = layout(number="DataPieceValue<uint32_t>", text="DataPieceString")
COUNT = 30


class FailingFile(io.BytesIO):
    """File whose read number `fail_at` fails, or returns too few bytes."""

    def __init__(self, data: bytes, fail_at: int = -1, *, is_short: bool = False) -> None:
        super().__init__(data)
        self.count = 0
        self._fail_at = fail_at
        self._is_short = is_short

    def read(self, size: int | None = -1) -> bytes:
        step, self.count = self.count, self.count + 1
        if step == self._fail_at and not self._is_short:
            raise OSError(errno.EIO, "the disk has failed")
        if step == self._fail_at and size is not None and size > 1:
            size //= 2
        return super().read(size)

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


def recording(index: str) -> bytes:
    tags = {"RF:Data:1": "data_layout+image/raw/40x30/pixel=grey8", "DL:Data:1:0": META}
    definition = vrs.DataLayout.from_json(META)
    records = [
        Rec(
            float(k),
            definition.encode({"number": k, "text": "x" * k}) + bytes([k + 1]) * 1200,
            zstd=k % 3 == 1,
        )
        for k in range(COUNT)
    ]
    streams = {(241, 1): {"user": {"a": "b"}, "vrs": tags}}
    return bytes(build(records, index, streams=streams).data)


def in_a_row(found: Any) -> Any:
    return [bytes(record.payload[-1200:]) for record in found]


def one_by_one(found: Any) -> Any:
    return [found[k].metadata_blocks[0]["number"] for k in range(COUNT)]


def column(found: Any) -> Any:
    return found.streams["241-1"].field("number").tolist()


def frames(found: Any) -> Any:
    return found.streams["241-1"].frames[:].tobytes()


EXPECTED: dict[Callable[[Any], Any], Any] = {
    in_a_row: [bytes([k + 1]) * 1200 for k in range(COUNT)],
    one_by_one: list(range(COUNT)),
    column: list(range(COUNT)),
    frames: np.repeat(np.arange(1, COUNT + 1, dtype="u1"), 1200).tobytes(),
}


@pytest.mark.parametrize("read", EXPECTED)
@pytest.mark.parametrize("index", ["end", "none"])
def test_a_disk_that_fails_at_every_read(read: Callable[[Any], Any], index: str) -> None:
    data = recording(index)
    for step in range(1000):
        file = FailingFile(data, step)
        found = None
        try:
            found = vrs.open(file, nthreads=1)
            assert read(found) == EXPECTED[read]
        except OSError as err:
            caught = err
        else:
            break
        assert caught.errno == errno.EIO
        # The read may be retried.
        found = vrs.open(file, nthreads=1) if found is None else found
        assert read(found) == EXPECTED[read]
    assert file.count <= step
    assert step > 2


@pytest.mark.parametrize("read", EXPECTED)
def test_reads_that_are_short_are_continued(read: Callable[[Any], Any]) -> None:
    data = recording("end")
    for step in range(1000):
        file = FailingFile(data, step, is_short=True)
        with vrs.open(file, nthreads=1) as found:
            assert read(found) == EXPECTED[read]
        if file.count <= step:
            break
    assert step > 2
