"""The memory of a loader's batches is reused."""

import pytest

from bloscpack import benzina

from ..parallel.test_arraypool import place_of
from . import vectors


def test_a_loader_reuses_the_memory_of_batches() -> None:
    pytest.importorskip("av", reason="pictures are decoded by PyAV")
    vectors.manifest()
    with benzina.open(vectors.FOLDER / "mini12.bzna") as dataset:
        places = [place_of(images) for images, _ in benzina.Loader(dataset, 8, 1, threads=1)]
        assert len(places) == 12
        # Two ahead, the caller's current batch and its previous one.
        assert len(set(places)) <= 5
        kept = [images for images, _ in benzina.Loader(dataset, 8, 1, threads=1)]
        assert len({place_of(images) for images in kept}) == 12
