"""A full disk: the error names the frame of a video that could not be written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.gulp import utils

from .fulldisk import FULL, full_disk


def test_frames_of_a_video_do_not_end_early_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing frames used to be a RuntimeWarning without a file name."""

    @contextmanager
    def read_video(path: Any, **_: Any) -> Iterator[Any]:
        yield iter([np.zeros((8, 8, 3), "u1")] * 2)

    monkeypatch.setattr(utils, "read_video", read_video)
    monkeypatch.setattr(utils, "check_ffmpeg_exists", lambda: True)
    monkeypatch.setattr(utils.image, "encode_jpeg", lambda *_, **__: bytes(1 << 20))
    if not os.path.exists(FULL):
        pytest.skip(f"needs {FULL}")
    (tmp_path / "0000000002.jpg").symlink_to(FULL)
    with full_disk(tmp_path / "0000000002.jpg"):
        utils.burst_frames_to_shm("film.mp4", tmp_path)
