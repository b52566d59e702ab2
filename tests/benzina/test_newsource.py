"""A dataset in a storage that only the tests know."""

import pickle
from collections.abc import Callable

import pytest

from bloscpack import benzina
from bloscpack.storage.protocol import ByteSource

from ..conftest import SMALL_FORMATS
from ..storage.newsource import DistantSource, PlainSource

kinds = pytest.mark.parametrize("kind", [PlainSource, DistantSource])
DATA = (SMALL_FORMATS / "hevc.bzna").read_bytes()


@kinds
def test_dataset_is_read(kind: Callable[[bytes], ByteSource]) -> None:
    with benzina.open(DATA) as expected, benzina.open(kind(DATA)) as dataset:
        for k in range(len(expected)):
            assert dataset[k].data == expected[k].data
        assert dataset.targets.tolist() == expected.targets.tolist()


def test_dataset_in_a_storage_with_a_place_can_be_pickled() -> None:
    with benzina.open(DistantSource(DATA)) as dataset:
        handle = pickle.dumps(dataset)
    with pickle.loads(handle) as other:
        assert len(other) == len(dataset)
