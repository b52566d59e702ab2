"""The reference reader of frame stores, applied to stores that we write."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bloscpack as bp

from ..reference.frame_reader import Store, describe
from ..reference.refused import RefusedError
from .stores import Array, changed, decimals, made
from .test_page import CLIPS, moving

MORE: dict[str, Array] = {
    "bfloat16": moving(10, (30, 40, 1), "u1").astype("f4").astype(ml_dtypes.bfloat16),
    "tiny pixels": np.arange(360, dtype="<u2").reshape(60, 2, 3),
    "array": decimals(2),
    "wide": (np.arange(9 * 40 * 30) // 9).astype("<u8").reshape(9, 40, 30),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("preset", ["fast", "small", "raw"])
def test_it_reads_every_kind_of_clip(tmp_path: Path, preset: str) -> None:
    path, clips, seen = tmp_path / "a.blp", CLIPS | MORE, 0
    with bp.frames.create(path, preset=preset) as writer:
        for number, (name, frames) in enumerate(clips.items()):
            writer.append(name, frames, {"number": number})
            if number % 3 == 0:
                writer.flush()
    store = Store(path.read_bytes())
    assert [clip.id for clip in store.clips] == list(clips)
    for name, frames in clips.items():
        clip = store.clip(name)
        assert clip is not None
        assert (clip.id, clip.form.dtype, clip.nframes) == (name, frames.dtype, len(frames))
        for k, frame in enumerate(frames):
            assert store.frame(clip, k) == np.ascontiguousarray(frame).tobytes(), (name, k)
        for _, _, filters in clip.chunks:
            seen |= filters
    assert store.clip("nothing") is None
    wanted = {"fast": 0xFF, "small": 0x1B, "raw": 0}[preset]
    assert seen & wanted == wanted


def test_it_finds_merged_torn_and_damaged_indexes(tmp_path: Path) -> None:
    data = made(tmp_path / "a.blp", 40, 9, 1)
    assert any(any(each["compressed"]) for each in describe(data)["segments"])
    assert len(Store(data).clips) == 50
    assert len(Store(data + b"BLPKFRMS" * 40).clips) == 50
    last = Store(data).chain[-1]
    assert len(Store(changed(data, last.start)).clips) >= 49
    with pytest.raises(RefusedError):
        Store(data[:100])


def test_damage_concerns_one_frame(tmp_path: Path) -> None:
    data = made(tmp_path / "a.blp", 3)
    clip = Store(data).clips[1]
    place = clip.chunks[2][0] + 20
    found: list[dict[str, Any]] = describe(changed(data, place))["clips"]
    assert found[1]["frames"][2] == {"error": "checksum"}
    whole = describe(data)["clips"]
    assert found[1]["frames"][:2] == whole[1]["frames"][:2]
    assert (found[0], found[2]) == (whole[0], whole[2])
