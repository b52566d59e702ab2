"""A recording in a storage that only the tests know."""

import pickle
from collections.abc import Callable

import pytest

from bloscpack import vrs
from bloscpack.storage.protocol import ByteSource

from ..conftest import SMALL_FORMATS
from ..storage.newsource import DistantSource, PlainSource

kinds = pytest.mark.parametrize("kind", [PlainSource, DistantSource])
DATA = (SMALL_FORMATS / "recording.vrs").read_bytes()


@kinds
def test_recording_is_read(kind: Callable[[bytes], ByteSource]) -> None:
    with vrs.open(DATA) as expected, vrs.open(kind(DATA)) as recording:
        assert len(recording) == len(expected)
        assert recording.checksum() == expected.checksum()


def test_recording_in_a_storage_with_a_place_can_be_pickled() -> None:
    with vrs.open(DistantSource(DATA)) as recording:
        handle = pickle.dumps(recording)
    with pickle.loads(handle) as other:
        assert len(other) == len(recording)
