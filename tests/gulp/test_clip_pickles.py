"""Clips of a Gulp directory pickle, in the same way as the directory."""

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("simplejpeg", reason="frames are JPEGs")

import bloscpack as bp

from ..frames.test_clip_pickles import made


def test_clips_pickle(tmp_path: Path) -> None:
    bp.convert(made(tmp_path), tmp_path / "gulped", quality=90)
    with bp.frames.open(tmp_path / "gulped") as source:
        clip = source["walk"]
        copy = pickle.loads(pickle.dumps(clip))
        assert (copy.id, copy.meta) == ("walk", clip.meta)
        assert np.array_equal(copy[:], clip[:])


def test_a_clip_is_found_by_its_id(tmp_path: Path) -> None:
    """Ordinals change when a directory gets another chunk in front."""
    path = made(tmp_path)
    bp.convert(path, tmp_path / "gulped", quality=90, videos_per_chunk=1)
    with bp.frames.open(tmp_path / "gulped") as source:
        data, expected = pickle.dumps(source["run"]), source["run"][:]
    for suffix in ("gulp", "gmeta"):
        name = "data" if suffix == "gulp" else "meta"
        (tmp_path / "gulped" / f"{name}_0.{suffix}").unlink()
    assert np.array_equal(pickle.loads(data)[:], expected)
