"""A `FrameDataset` of the clips of a Gulp directory."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("simplejpeg", reason="a Gulp directory holds JPEG")

from bloscpack.gulp import GulpChunk

from .test_torch import check_opened_where_read, clips


def test_paths_are_opened_where_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "clips"
    path.mkdir()
    chunk = GulpChunk(path / "data_0.gulp", path / "meta_0.gmeta")
    with chunk.open("wb"):
        for id_, frames in clips().items():
            chunk.append(id_, {"label": len(frames)}, list(frames))
    check_opened_where_read(path)
