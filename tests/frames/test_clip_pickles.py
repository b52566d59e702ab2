"""Clips of every source pickle, in the same way as their sources."""

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FileChangedError

FRAMES = np.arange(2 * 16 * 16 * 3, dtype="u1").reshape(2, 16, 16, 3)


def frames_of(clip: Any) -> Any:
    """Return the frames that another process reads."""
    return clip.id, clip[:]


def made(folder: Path) -> Path:
    with bp.frames.create(folder / "clips.blp") as store:
        store.append("walk", FRAMES)
        store.append("run", FRAMES[::-1])
    return folder / "clips.blp"


def sources(folder: Path) -> dict[str, Any]:
    """Return a source of each kind, all with the content of one store."""
    path = made(folder)
    with bp.frames.create(folder / "more.blp") as store:
        store.append("rest", FRAMES)
    return {
        "store": bp.frames.open(path),
        "many": bp.frames.open([path, folder / "more.blp"]),
        "bytes": bp.frames.open(path.read_bytes()),
    }


def test_clips_pickle(tmp_path: Path) -> None:
    for name, source in sources(tmp_path).items():
        with source:
            clip = source["walk"]
            data = pickle.dumps(clip)
            copy = pickle.loads(data)
            assert (name, copy.id, copy.meta) == (name, "walk", clip.meta)
            assert np.array_equal(copy[:], clip[:])


@pytest.mark.slow
def test_clips_travel_to_a_process_that_is_spawned(tmp_path: Path) -> None:
    opened = sources(tmp_path)
    clips = [source["run"] for source in opened.values()]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for clip, (id_, frames) in zip(clips, pool.map(frames_of, clips), strict=True):
            assert id_ == "run"
            assert np.array_equal(frames, clip[:])
    for source in opened.values():
        source.close()


def test_a_clip_of_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path)
    with bp.frames.open(path) as store:
        data = pickle.dumps(store["walk"])
    with bp.frames.create(path, overwrite=True) as store:
        store.append("walk", FRAMES + 1)
    with pytest.raises(FileChangedError):
        pickle.loads(data)


def test_a_clip_of_a_store_being_written_is_refused(tmp_path: Path) -> None:
    with (
        bp.frames.open(made(tmp_path), "a") as store,
        pytest.raises(TypeError, match="open for appending cannot be pickled"),
    ):
        pickle.dumps(store["walk"])
