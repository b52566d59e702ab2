"""Many rows that are appended are compressed at a lower level, if that is about as small."""

from dataclasses import replace

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container.appender import params_of
from bloscpack.format.codec import encode

NROWS = 1 << 18  # float32: a chunk of 1 MiB


def noise(nrows):
    return (280 + 0.3 * np.random.default_rng(1).normal(size=nrows)).astype("f4")


def waves(nrows):
    """Return rows in which Zstandard finds more at its default level."""
    at = np.arange(nrows)
    return (10 * np.sin(at / 2000) + 8 * np.cos(at / 60) + 280).astype("f4")


@pytest.mark.parametrize("mode", ["a", "r+"])
@pytest.mark.parametrize(
    ("make", "nchunks", "clevel"), [(noise, 4, 2), (noise, 3, 3), (waves, 4, 3)]
)
def test_the_level_of_appended_chunks(tmp_path, mode, make, nchunks, clevel):
    path, rows = tmp_path / "grown.blp", make(nchunks * NROWS)
    bp.save(path, rows[:NROWS], chunks=NROWS, stats=True)
    with bp.open(path) as array:
        params = replace(params_of(array.container), clevel=clevel)
    with bp.open(path, mode) as array:
        array.append(rows)
    with bp.open(path) as array:
        assert np.array_equal(array[NROWS:].view("u4"), rows.view("u4"))
        for index in range(1, 1 + nchunks):
            content = array.container.read_chunk(index)
            assert array.container.fetch(index).data == encode(content, params)
            other = encode(content, replace(params, clevel=5 - clevel))
            assert array.container.fetch(index).data != other
