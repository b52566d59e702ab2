"""Clips of a store that are changed, stopped at every step: the state before or after, no other."""

import gc
import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.frames.store import writer
from bloscpack.frames.store.recoverstore import compact_store

from ..frames.stores import clip, fill, made, name
from .disk import Crash, StoppingDisk, installed, without_syncs
from .power import Recorder, after_cut, all_cuts, write_all

State = dict[str, tuple[str, str]]
SHAPE = (80, 90)


@pytest.fixture(autouse=True)
def _soon_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_WRITE_NBYTES", 1000)
    monkeypatch.setattr(writer, "_MAX_SINGLE", 3)


def removes(path: Path) -> None:
    with bp.frames.open(path, "a", nthreads=1) as store:
        del store[name(1)]


def replaces(path: Path) -> None:
    with bp.frames.open(path, "a", nthreads=1) as store:
        store.replace(name(1), clip(30, 2, SHAPE), preset="raw")


def relabels(path: Path) -> None:
    with bp.frames.open(path, "a", nthreads=1) as store:
        for number in range(5):
            store[name(number)].meta = {"label": -number}


def renames(path: Path) -> None:
    with bp.frames.open(path, "a", nthreads=1) as store:
        store.rename(name(0), "first")
        store.append("more", clip(9, 1, SHAPE))


def does_all(path: Path) -> None:
    with bp.frames.open(path, "a", nthreads=1) as store:
        del store[name(0)], store[name(2)]
        store.replace(name(1), clip(31, 2, SHAPE))
        store.append("more", clip(9, 1, SHAPE))
        del store["more"]
        store.append("more", clip(10, 1, SHAPE))
        store[name(3)].meta = {"label": 1}
        store.rename(name(4), "other")


OPERATIONS: list[Callable[[Path], None]] = [
    removes,
    replaces,
    relabels,
    renames,
    does_all,
    compact_store,
]
each_operation = pytest.mark.parametrize("run", OPERATIONS, ids=lambda each: each.__name__)


def prepare(path: Path) -> None:
    """Make a store in which clips were removed before, and nothing is merged."""
    with bp.frames.create(path, nthreads=1) as store:
        for number in range(6):
            preset = "raw" if number % 2 else "fast"
            store.append(name(number), clip(number, 2, SHAPE), {"n": number}, preset=preset)
    with bp.frames.open(path, "a", nthreads=1) as store:
        del store[name(5)]


def state_of(path: Path) -> State:
    with bp.frames.open(path) as store:
        return {
            each: (hashlib.sha256(store[each].read().tobytes()).hexdigest(), str(store[each].meta))
            for each in store
        }


def check(path: Path, allowed: list[State]) -> int:
    """Check that a store is in one of the states and can be changed; return which."""
    with without_syncs():
        found = state_of(path)
        assert found in allowed
        report = bp.verify(path, nthreads=1)
        assert report.ok, report
        with bp.frames.open(path, "a", nthreads=1) as store:
            first = next(iter(store))
            store.replace(first, clip(77))
            fill(store, 50)
        after = state_of(path)
        assert list(after) == [*found, name(50)]
        assert {k: v for k, v in after.items() if k not in (first, name(50))} == {
            k: v for k, v in found.items() if k != first
        }
        assert bp.verify(path, nthreads=1).ok
        return allowed.index(found)


# A store of a program that crashed is not closed.
@pytest.mark.filterwarnings("ignore:.*was never closed:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*are not a whole clip")
@pytest.mark.sampled(7)
@each_operation
@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
def test_stopped_at_every_step(run: Any, kind: str, tmp_path: Path) -> None:
    states = []
    gc.freeze()  # so that a collection looks at the objects of this test alone
    for step in range(1000):
        path = tmp_path / str(step) / "a.blp"
        path.parent.mkdir()
        with without_syncs():
            prepare(path)
        if not states:
            states.append(state_of(path))
            model = tmp_path / "model.blp"
            model.write_bytes(path.read_bytes())
            with without_syncs():
                run(model)
            states.append(state_of(model))
        stopping = StoppingDisk(step, kind)
        with installed(stopping):
            with suppress(OSError, Crash):
                run(path)
            if step >= stopping.count:
                break
        gc.collect()  # the lock of a dead process is gone
        check(path, states)
        if kind == "error":
            assert [each.name for each in path.parent.iterdir()] == ["a.blp"]
    assert check(path, states) == (1 if states[0] != states[1] else 0)
    assert step > 2


@pytest.mark.filterwarnings("ignore:.*are not a whole clip")
@pytest.mark.sampled(3)
@each_operation
def test_power_loss_at_every_step(run: Any, tmp_path: Path) -> None:
    """Any subset of the writes since the last sync may be lost."""
    work = tmp_path / "work"
    work.mkdir()
    with without_syncs():
        prepare(work / "a.blp")
    states = [state_of(work / "a.blp")]
    recorder = Recorder(work)
    with installed(recorder):
        run(work / "a.blp")
    states.append(state_of(work / "a.blp"))
    for count, seed, files in all_cuts(recorder, range(8)):
        path = write_all(files, tmp_path / f"{count}-{seed}") / "a.blp"
        check(path, states)
    closed = after_cut(recorder, len(recorder.events), 0)["a.blp"]
    path = tmp_path / "closed.blp"
    path.write_bytes(closed.durable)
    check(path, states[1:])


@pytest.mark.filterwarnings("ignore:.*are not a whole clip")
def test_readers_at_every_step(tmp_path: Path) -> None:
    """Readers see the state that they opened, beside a writer that removes clips."""
    path = tmp_path / "a.blp"
    made(path, 3)
    before = state_of(path)
    follower, first = bp.frames.open(path, verify=False), bp.frames.open(path)
    mapped = follower[name(0)]
    seen: list[State] = []

    def handle_state(store: Any) -> State:
        return {
            each: (hashlib.sha256(store[each].read().tobytes()).hexdigest(), str(store[each].meta))
            for each in store
        }

    def look() -> None:
        found = state_of(path)
        follower.refresh()
        assert handle_state(follower) == found
        assert handle_state(first) == before
        assert np.array_equal(mapped.read(), clip(0))
        if found not in seen:
            seen.append(found)

    with installed(StoppingDisk(before=look)):
        for number in range(3):
            with bp.frames.open(path, "a", nthreads=1) as store:
                store.replace(name(number), clip(40 + number), preset="raw")
                store.append(name(10 + number), clip(10 + number))
            with bp.frames.open(path, "a", nthreads=1) as store:
                del store[name(10 + number)]
    look()
    assert len(seen) == 7
    follower.close()
    first.close()
