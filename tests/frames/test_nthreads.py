"""Number of threads that decode a clip, by what its frames cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.frames.store import clipverifier
from bloscpack.parallel import threads
from bloscpack.storage import batch

SHAPE = (240, 320, 3)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of threads of each read, on a machine of 8 processors."""
    found: list[int] = []

    def record(task: Any, indices: Any, nthreads: int) -> None:
        found.append(nthreads)

    monkeypatch.delenv("BLOSCPACK_NTHREADS", raising=False)
    monkeypatch.setattr(threads, "available_cpus", lambda: 8)
    monkeypatch.setattr(threads, "in_worker", lambda: False)
    monkeypatch.setattr(batch, "run_indexed", record)
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a smooth moving scene with a little noise, by each encoding."""
    path = tmp_path_factory.mktemp("threads") / "a.blp"
    y, x = np.mgrid[:240, :320]
    noise = np.random.default_rng(0).integers(0, 4, SHAPE)
    frames = [
        (np.stack([y // 2, x // 3, (x + y) // 4], 2) + noise + k).astype("u1") for k in range(4)
    ]
    with bp.frames.create(path) as store:
        for preset in ("fast", "small", "raw"):
            store.append(preset, np.stack(frames), preset=preset)
        store.append("jpeg", np.stack(frames), codec="jpeg")
        store.append("floats", np.round(np.stack(frames)[..., 0] / 7, 1), preset="small")
    return path


def test_costs(path: Path) -> None:
    with bp.frames.open(path) as store:
        costs = {id_: clip.decode_cost for id_, clip in store.items()}
    assert costs == {"fast": 1.0, "small": 3.0, "raw": 0.2, "jpeg": 8.0, "floats": 1.0}


@pytest.mark.parametrize(
    ("id_", "wanted"),
    [
        # For 1, 8, 32, 128 and 512 frames of 225 KiB.
        ("fast", [1, 1, 1, 3, 8]),
        ("small", [1, 1, 2, 8, 8]),
        ("jpeg", [1, 1, 7, 8, 8]),
        ("raw", [1, 1, 1, 1, 2]),
    ],
)
def test_the_default_is_by_cost(path: Path, used: list[int], id_: str, wanted: list[int]) -> None:
    with bp.frames.open(path, verify=False) as store:
        for count in (1, 8, 32, 128, 512):
            store.read([(id_, [k % 4 for k in range(count)])])
    assert used == wanted


def test_clips_of_a_batch_are_added_up(path: Path, used: list[int]) -> None:
    with bp.frames.open(path) as store:
        store.read([("fast", [0] * 32), ("small", [1] * 32)])
    assert used == [3]


def test_a_number_asked_for_is_obeyed(
    path: Path, used: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before, one MiB per thread is enough then."""
    with bp.frames.open(path) as store:
        store.read([("fast", [0, 1, 2] * 8)], nthreads=3)
        store.read([("fast", [0, 1, 2])], nthreads=3)
        monkeypatch.setenv("BLOSCPACK_NTHREADS", "2")
        store.read([("fast", [0, 1, 2] * 8)])
    with bp.frames.open(path, nthreads=4) as store:
        store["fast"].read([0, 1, 2] * 8)
    assert used == [3, 1, 2, 4]


@pytest.mark.parametrize("nthreads", [0, -1])
def test_a_number_below_one_is_refused(nthreads: int, path: Path) -> None:
    """Zero is not the same as no number, which means that of the store."""
    many = bp.frames.open([path])
    for source in (bp.frames.open(path, nthreads=2), many):
        with source, pytest.raises(ValueError, match="nthreads must be at least 1"):
            source.read([("fast", [0])], nthreads=nthreads)


def test_verify_uses_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int | None] = []
    read = clipverifier.read_batch

    def record(requests: Any, *, out: Any, nthreads: int | None) -> Any:
        found.append(nthreads)
        return read(requests, out=out, nthreads=nthreads)

    monkeypatch.delenv("BLOSCPACK_NTHREADS", raising=False)
    monkeypatch.setattr(threads, "available_cpus", lambda: 8)
    monkeypatch.setattr(threads, "in_worker", lambda: False)
    monkeypatch.setattr(clipverifier, "read_batch", record)
    assert bp.verify(path).ok
    assert set(found) == {8}
