"""The reader of frame stores in JavaScript finds what the conformance set specifies."""

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from tests.servers import FileServer, running

from .test_readers import FOLDER, TWINS, found_by, pytestmark, sha256

__all__ = ["pytestmark"]

read_stores = partial(found_by, "frames.mjs")
STORES = {name: twin for name, twin in TWINS.items() if name.startswith("frames_")}
SEGMENT = ("offset", "end", "previous", "first_clip", "nclips", "nchunks")


def errors_of(value: Any) -> Any:
    """Drop the texts of errors: only their kinds are specified."""
    if isinstance(value, dict):
        return {key: errors_of(each) for key, each in value.items() if key != "text"}
    return [errors_of(each) for each in value] if isinstance(value, list) else value


def test_the_reader_finds_what_the_conformance_set_describes() -> None:
    assert len(STORES) > 25
    found = read_stores([{"path": str(FOLDER / f"{name}.blp")} for name in STORES])
    for (name, twin), each in zip(STORES.items(), found, strict=True):
        if twin["kind"] == "damaged":
            assert each.get("error") == twin["error"], (name, each)
            continue
        assert "clips" in each, (name, each)
        damaged = "error" in twin["metadata"]
        assert each["metadata"] == (None if damaged else twin["metadata"]), name
        assert bool(each["notices"]) == damaged, name
        assert each["segments"] == [[each[key] for key in SEGMENT] for each in twin["segments"]]
        for mine, clip in zip(each["clips"], twin["clips"], strict=True):
            if clip["codec"] == "video":  # listed, and not decoded
                clip["frames"] = [{"error": "unsupported"}] * len(clip["frames"])
            assert errors_of(mine) == clip, (name, clip["id"])


@pytest.mark.parametrize("codec", ["lossless", "jpeg"])
def test_a_url_is_opened_by_two_requests_and_read_by_one(tmp_path: Path, codec: Any) -> None:
    noise = np.random.default_rng(3).integers(0, 255, (40, 90, 120, 3)).astype("u1")
    path = tmp_path / "s.blp"
    with bp.frames.create(path, codec=codec) as store:
        for number in range(3):
            store.append(f"clip {number}", noise + np.uint8(number))
    assert path.stat().st_size > 500_000
    with running(FileServer()) as server, bp.frames.open(path) as store:
        server.files["/s.blp"] = path.read_bytes()
        # The second clip is in neither end of the file.
        task = {"url": server.url("s.blp"), "read": ["clip 1", 3, 30, 4]}
        (found,) = read_stores([task])
        assert (found["opened"], found["nrequests"]) == (2, 3), found
        assert [each.status for each in server.log] == [206, 206, 206]
        if codec == "lossless":
            assert found["frames"] == [sha256(each) for each in store["clip 1"][3:30:4]]
            assert found["type"] == "Uint8Array"
        else:
            assert found["type"] == "image/jpeg"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", ["u1", ">i2", "<u8", ">f8"])
@pytest.mark.parametrize("preset", ["fast", "small", "raw"])
def test_frames_keep_the_bytes_of_their_dtype(tmp_path: Path, dtype: str, preset: Any) -> None:
    ramp = np.cumsum(np.random.default_rng(5).integers(0, 9, (20, 17, 19, 4)), axis=2)
    path, frames = tmp_path / "s.blp", ramp.astype(dtype)
    with bp.frames.create(path, preset=preset) as store:
        store.append("a", frames)
    (found,) = read_stores([{"path": str(path), "read": ["a", 1, 19, 3]}])
    assert found["frames"] == [sha256(each) for each in frames[1:19:3]], found


def test_damage_gives_an_error_or_the_right_frames(tmp_path: Path) -> None:
    tasks, sound, rng = [], [], Random(11)
    for name in (
        "frames_preset_small",
        "frames_array_chunks",
        "frames_merged_index",
        "frames_preset_raw",
    ):
        data = (FOLDER / f"{name}.blp").read_bytes()
        hashes = {clip["id"]: clip["frames"] for clip in STORES[name]["clips"]}
        for number in range(40):
            damaged = bytearray(data)
            at = rng.randrange(len(data)) if number % 2 else len(data) - 1 - rng.randrange(500)
            damaged[at] ^= 1 << rng.randrange(8)
            path = tmp_path / f"{name}{number}.blp"
            path.write_bytes(damaged[: rng.randrange(len(data))] if number % 8 == 0 else damaged)
            tasks.append({"path": str(path)})
            sound.append(hashes)
    nerrors = 0
    for task, hashes, each in zip(tasks, sound, read_stores(tasks), strict=True):
        assert "bug" not in each, (task, each)
        nerrors += "error" in each
        for clip in each.get("clips", []):
            for frame, right in zip(clip["frames"], hashes[clip["id"]], strict=True):
                assert frame == right or "error" in frame, (task, clip["id"])
                nerrors += frame != right
    assert nerrors > 40


def test_an_intact_segment_with_an_invalid_format_is_an_error(tmp_path: Path) -> None:
    # Every digest is valid, so neither an older segment nor an empty store may replace it.
    data = bytearray((FOLDER / "frames_filter_planes.blp").read_bytes())
    start, end, nclips = (
        STORES["frames_filter_planes"]["segments"][-1][key] for key in ("offset", "end", "nclips")
    )
    tail = end - 152
    nbytes = int.from_bytes(data[tail + 64 : tail + 72], "little")
    data[start + 36 * nclips + 2] = 1  # ndim of the first format
    data[tail + 80 : tail + 88] = xxh3_64_digest(bytes(data[start : start + nbytes]))
    data[end - 8 : end] = xxh3_64_digest(bytes(data[tail : tail + 144]))
    path = tmp_path / "s.blp"
    path.write_bytes(data)
    (found,) = read_stores([{"path": str(path)}])
    assert (found.get("error"), found.get("text")) == ("format", "shape of frames"), found
