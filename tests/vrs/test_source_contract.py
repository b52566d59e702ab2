"""Contract tests of several files as one source."""

import pickle
from pathlib import Path

import pytest

from bloscpack.storage.file import FileSource
from bloscpack.vrs.read.filesource import ChunkedSource, open_recording_source
from tests.storage import test_source
from tests.storage.test_source import DATA, Make


@pytest.fixture
def kind() -> str:
    return "parts"


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(data: bytes) -> ChunkedSource:
        paths = [tmp_path / name for name in ("data.bin", "middle.bin", "end.bin")]
        for path, part in zip(paths, (data[:3000], b"", data[3000:]), strict=True):
            path.write_bytes(part)
        return ChunkedSource(map(FileSource, paths))

    return build


class TestChunkedSource(test_source.TestSource):
    def test_place_reopens_the_same_bytes(self, make: Make, kind: str) -> None:
        """The place is a list, which a recording is opened from."""
        source = make(DATA)
        place = pickle.loads(pickle.dumps(source.place()))
        with open_recording_source(place) as again:
            assert bytes(again.read_at(0, len(DATA) + 1)) == DATA
            assert again.identity() == source.identity()
        source.close()
