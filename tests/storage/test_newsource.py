"""A storage that only these tests know is opened, read, pickled and verified like any other."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import frames
from bloscpack.exceptions import FileChangedError
from bloscpack.storage.protocol import ByteSource

from ..arrayfiles import saved
from ..conftest import SMALL_FORMATS, SMALL_VECTORS, small_vectors
from .newsource import DistantSource, PlainSource

STORE = SMALL_VECTORS.parent / "conformance" / "frames_jpeg.blp"
CLIPS = [STORE, *(SMALL_FORMATS / name for name in small_vectors("recording.vrs", "hevc.bzna"))]
ROWS = np.random.default_rng(0).integers(0, 256, (256, 4096), "u1")
kinds = pytest.mark.parametrize("kind", [PlainSource, DistantSource])
each_source = pytest.mark.parametrize("path", CLIPS, ids=lambda path: path.name)
Kind = Callable[[bytes], ByteSource]


def array_file(rows: Any = ROWS, **options: Any) -> bytes:
    return saved(rows, chunks=16, **options)


@kinds
@pytest.mark.parametrize("options", [{}, {"checksum": "None"}])
def test_array(kind: Kind, options: Any) -> None:
    data = array_file(**options)
    with bp.open(kind(data)) as array:
        assert np.array_equal(array[3], ROWS[3])
        assert np.array_equal(array[5:200:7], ROWS[5:200:7])
        assert np.array_equal(array.read_whole(), ROWS)
        array.refresh()
    assert np.array_equal(bp.load(kind(data)), ROWS)
    assert bp.verify(kind(data)).ok
    assert not bp.verify(kind(data[:-100_000])).ok


@kinds
@each_source
def test_source_of_clips(kind: Kind, path: Path) -> None:
    data = path.read_bytes()
    with frames.open(data) as expected, frames.open(kind(data)) as source:
        assert list(source.keys()) == list(expected.keys())
        for key in source:
            assert np.array_equal(source[key].read(), expected[key].read())
            assert np.array_equal(source[key][0], expected[key][0])
        if path == STORE:
            source.refresh()  # type: ignore[attr-defined]
    assert bp.verify(kind(data)).ok


def test_a_storage_without_a_place_cannot_be_pickled() -> None:
    with bp.open(PlainSource(array_file())) as array, pytest.raises(TypeError, match="pickled"):
        pickle.dumps(array)


def test_a_storage_with_a_place_can_be_pickled() -> None:
    with bp.open(DistantSource(array_file())) as array:
        again = pickle.loads(pickle.dumps(array))
    assert np.array_equal(again[7], ROWS[7])
    again.close()


@each_source
def test_sources_of_clips_are_pickled_with_their_storage(path: Path) -> None:
    with frames.open(DistantSource(path.read_bytes())) as source:
        handle = pickle.dumps(source)
    with pickle.loads(handle) as other:
        assert len(other) == len(source)


def test_another_version_is_refused() -> None:
    class Replaced(DistantSource):
        def place(self, head_nbytes: int = 0) -> DistantSource:
            return DistantSource(self._data, "two")

    with bp.open(Replaced(array_file())) as array, pytest.raises(FileChangedError):
        pickle.loads(pickle.dumps(array))


def test_reads_of_a_distant_storage_are_prefetched() -> None:
    source = DistantSource(array_file())
    with bp.open(source) as array:
        _ = array[::64]
    assert len(source.prefetched) == 4
