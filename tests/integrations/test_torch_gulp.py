"""A `FrameDataset` of the clips of a Gulp directory."""

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("simplejpeg", reason="a Gulp directory holds JPEG")

import bloscpack as bp
from bloscpack.gulp import GulpChunk
from bloscpack.integrations.torch import FrameDataset

from .test_torch import clips


def test_paths_are_opened_where_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "clips"
    path.mkdir()
    chunk = GulpChunk(path / "data_0.gulp", path / "meta_0.gmeta")
    with chunk.open("wb"):
        for id_, frames in clips().items():
            chunk.append(id_, {"label": len(frames)}, list(frames))
    dataset = FrameDataset(path, length=2, start="first", label="label")
    sent = pickle.dumps(dataset)
    assert len(sent) < 2000
    copy = pickle.loads(sent)
    assert [copy[k]["label"] for k in range(3)] == [10, 3, 7]
    with bp.frames.open(path) as source:
        assert np.array_equal(copy[2]["frames"], source["c"][:2])
    with pytest.raises(FileNotFoundError):
        FrameDataset(tmp_path / "nothing")
