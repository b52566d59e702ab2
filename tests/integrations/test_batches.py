"""Batches of NumPy arrays, on threads: their content, their memory, and how they are resumed."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, NotFoundError
from bloscpack.integrations.batches import FrameBatches

from ..frames.memory_source import MemorySourceOfClips

NCLIPS, NFRAMES = 11, 9


def source() -> MemorySourceOfClips:
    clips = {
        f"clip {number}": np.full((NFRAMES, 4, 5), number, "u2")
        + np.arange(NFRAMES, dtype="u2")[:, None, None] * 100
        for number in range(NCLIPS)
    }
    return MemorySourceOfClips(clips, {id_: {"label": n} for n, id_ in enumerate(clips)})


def batches(batch_size: int = 3, **options: Any) -> FrameBatches:
    chosen = {"length": 2, "stride": 3, "seed": 4, "label": "label", **options}
    return FrameBatches(source(), batch_size, **chosen)


def plain(batch: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in batch.items()
    }


def test_a_batch() -> None:
    first = next(iter(batches(threads=2)))
    assert first["frames"].shape == (3, 2, 4, 5)
    assert first["frames"].dtype == np.uint16
    for name in ("index", "start", "seed", "label"):
        assert first[name].dtype == np.int64
    assert first["id"] == [f"clip {number}" for number in first["index"]]
    expected = first["label"][:, None] + (first["start"][:, None] + np.array([0, 3])) * 100
    assert np.array_equal(first["frames"][..., 0, 0], expected)
    assert len(batches()) == 4
    assert len(batches(drop_last=True)) == 3


def test_any_number_of_threads_gives_the_same_batches() -> None:
    expected = None
    for threads in (1, 2, 5):
        loader = batches(threads=threads)
        passes = [[plain(batch) for batch in loader] for _ in range(2)]
        assert passes[0] != passes[1]
        assert expected in (None, passes)
        expected = passes
    ranks = [batches(rank=rank, world_size=2) for rank in range(2)]
    seen = [number for loader in ranks for batch in loader for number in batch["index"]]
    assert set(seen) == set(range(NCLIPS))
    assert len(seen) == NCLIPS + 1


def test_it_resumes_after_any_batch() -> None:
    passes = [plain(batch) for loader in [batches()] for _ in range(2) for batch in loader]
    for stop in range(5):
        loader = batches(threads=3)
        running = iter(loader)
        taken = [plain(next(running)) for _ in range(min(stop, 4))]
        if stop == 4:
            assert next(running, None) is None
            assert loader.epoch == 1
        state = json.loads(json.dumps(loader.state_dict()))
        other = batches(threads=1)
        other.load_state_dict(state)
        while len(taken) < 8:
            other.set_epoch(other.epoch)
            taken += [plain(batch) for batch in other]
        assert taken == passes
    with pytest.raises(ValueError, match="not a state"):
        loader.load_state_dict({})


@given(stop=st.integers(0, 4), seed=st.integers(0, 3), epoch=st.integers(0, 2))
@settings(max_examples=12, deadline=None)
def test_another_seed_resumes_with_that_of_the_state(stop: int, seed: int, epoch: int) -> None:
    whole = batches()
    whole.set_epoch(epoch)
    expected = [plain(batch) for _ in range(2) for batch in whole]
    cut = batches()
    cut.set_epoch(epoch)
    taken = [plain(batch) for batch in islice(cut, stop)]
    other = batches(seed=seed)
    other.load_state_dict(json.loads(json.dumps(cut.state_dict())))
    taken += [plain(batch) for batch in other]
    while len(taken) < len(expected):
        taken += [plain(batch) for batch in other]
    assert taken == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 4}, "length=2 of its items, but here it is 4"),
        ({"stride": 1}, "stride=3 of its items, but here it is 1"),
        ({"start": "center"}, "start='random' of its items, but here it is 'center'"),
        ({"short": "wrap"}, "short='repeat_last' of its items"),
        ({"clips": [f"clip {number}" for number in reversed(range(NCLIPS))]}, "digest of the ids"),
        ({"label": dict.copy}, "label='label' of its items, but here it is 'function dict.copy'"),
        ({"with_meta": True}, "with_meta=False"),
        ({"shuffle": False}, "shuffle=True, but here it is False"),
        ({"drop_last": True}, "drop_last=False"),
        ({"batch_size": 4}, "batch_size=3, but here it is 4"),
    ],
)
def test_a_state_of_other_settings_is_refused(options: dict[str, Any], message: str) -> None:
    loader = batches()
    next(iter(loader))
    state = loader.state_dict()
    other = batches(**options)
    expected = [plain(batch) for batch in other]
    other = batches(**options)
    with pytest.raises(ValueError, match=message):
        other.load_state_dict(state)
    assert [plain(batch) for batch in other] == expected


def test_memory_is_used_again_but_not_while_it_is_held() -> None:
    loader = batches(threads=2, ahead=2)
    held = next(iter(loader))["frames"]
    part, copy = held[1, 1:], held[1, 1:].copy()
    del held
    places = set()
    for _ in range(4):
        for batch in loader:
            batch["frames"][...] = 0
            places.add(batch["frames"].__array_interface__["data"][0])
    assert np.array_equal(part, copy)
    kept = list(loader)
    assert len({batch["frames"].__array_interface__["data"][0] for batch in kept}) == len(kept)


def test_frames_of_several_shapes_and_labels_of_any_type() -> None:
    other = MemorySourceOfClips(
        {"a": np.zeros((3, 2, 2), "u1"), "b": np.ones((5, 2, 2), "u1")},
        {"a": {"label": 0.5, "who": [1]}, "b": {"label": 2.0}},
    )
    loader = FrameBatches(other, 2, shuffle=False, label="label", with_meta=True)
    (batch,) = loader
    assert [len(frames) for frames in batch["frames"]] == [3, 5]
    assert batch["label"].dtype == np.float64
    assert batch["meta"] == [{"label": 0.5, "who": [1]}, {"label": 2.0}]
    for make, dtype in ((str, None), (lambda _: 1 << 70, None), (lambda _: True, "?")):
        (batch,) = FrameBatches(other, 2, label=make)
        assert getattr(batch["label"], "dtype", None) == dtype
    for kind in (np.float32, np.int16, np.bool_):
        (batch,) = FrameBatches(other, 2, label=lambda meta, kind=kind: kind(meta["label"]))
        assert batch["label"].dtype == kind


def test_a_transform_runs_on_batches() -> None:
    assert [*batches(transform=lambda batch: len(batch["id"]))] == [3, 3, 3, 2]


def test_errors_are_raised_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "clips"
    with bp.frames.create(path) as store:
        for number in range(6):
            store.append(f"{number}", np.random.default_rng(1).integers(0, 9, (4, 9, 9), "u1"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(BloscpackError, match="frame") as raised:
        list(FrameBatches(path, 2, threads=2))
    assert "clip" in str(raised.value)
    with pytest.raises(NotFoundError, match="zebra"):
        FrameBatches(path, 2, clips=["zebra"])
    with pytest.raises(ValueError, match="threads must be at least 1"):
        FrameBatches(path, 2, threads=0)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        FrameBatches(path, 0)


def test_it_imports_no_framework() -> None:
    code = (
        "import sys, bloscpack.integrations.batches as b\n"
        "assert not {'torch', 'jax', 'multiprocessing'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
