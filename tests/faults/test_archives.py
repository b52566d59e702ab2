"""Archives that are changed, stopped at every step: all arrays are in the old state or the new."""

import gc
import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

from .disk import Crash, StoppingDisk, installed, without_syncs
from .power import Recorder, all_cuts

State = dict[str, Any]

pytestmark = pytest.mark.usefixtures("soon_on_disk")


def values(seed: int, rows: int = 40) -> Any:
    return np.random.default_rng(seed).integers(0, 99, (rows, 5))


def prepare(path: Path) -> None:
    """Write an archive that was never changed."""
    bp.savez(path, {f"{n}": values(n) for n in range(4)}, chunks=16, attrs={"n": 1})


def prepare_log(path: Path) -> None:
    """Write an archive that was changed, with space that is not in use."""
    prepare(path)
    for seed in range(3):
        with bp.open(path, "r+", nthreads=1) as z:
            z["2"][...] = values(90 + seed)
            z[f"gone {seed}"] = values(7, 400)
            z.flush()
            del z[f"gone {seed}"]


def does_all(path: Path) -> None:
    with bp.open(path, "r+", nthreads=1) as z:
        z["0"][3:5] = 7
        z["1"].append(values(8, 20))
        z["1"].attrs["unit"] = "K"
        del z["2"]
        z["new"] = values(9)
        z["3"] = values(10, 3)
        z.rename("0", "first")
        z.attrs["n"] = 2


def removes(path: Path) -> None:
    with bp.open(path, "r+", nthreads=1) as z:
        del z["1"], z["2"]


def relabels(path: Path) -> None:
    with bp.open(path, "r+", nthreads=1) as z:
        z.attrs["n"] = 3


def compacts(path: Path) -> None:
    bp.compact(path)


OPERATIONS: list[Callable[[Path], None]] = [does_all, removes, relabels, compacts]
each_case = pytest.mark.parametrize(
    ("begin", "run"),
    [(prepare, does_all), *((prepare_log, run) for run in OPERATIONS)],
    ids=lambda each: each.__name__,
)


def state_of(path: Path) -> State:
    with bp.open(path) as z:
        found = {
            name: (hashlib.sha256(np.asarray(array).tobytes()).hexdigest(), dict(array.attrs))
            for name, array in z.items()
        }
        return {"order": list(z), "attrs": dict(z.attrs), "arrays": found}


def check(path: Path, allowed: list[State]) -> int:
    """Check that an archive is in one of the states and can be changed; return which."""
    with without_syncs():
        found = state_of(path)
        assert found in allowed
        report = bp.verify(path, nthreads=1)
        assert report.ok, report
        with bp.open(path, "r+", nthreads=1) as z:
            z["more"] = values(5)
            z["3"][0] = 1
        assert state_of(path)["order"] == [*found["order"], "more"]
        assert bp.verify(path, nthreads=1).ok
        return allowed.index(found)


# An archive of a program that crashed is not closed.
@pytest.mark.filterwarnings("ignore:.*was never closed:ResourceWarning")
@pytest.mark.sampled(7)
@each_case
@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
def test_stopped_at_every_step(begin: Any, run: Any, kind: str, tmp_path: Path) -> None:
    states: list[State] = []
    gc.freeze()  # so that a collection looks at the objects of this test alone
    for step in range(1000):
        path = tmp_path / str(step) / "a.blp"
        path.parent.mkdir()
        with without_syncs():
            begin(path)
            if not states:
                states.append(state_of(path))
                model = tmp_path / "model.blp"
                model.write_bytes(path.read_bytes())
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


@pytest.mark.sampled(3)
@each_case
def test_power_loss_at_every_step(begin: Any, run: Any, tmp_path: Path) -> None:
    """Any subset of the writes since the last sync may be lost."""
    work = tmp_path / "work"
    work.mkdir()
    with without_syncs():
        begin(work / "a.blp")
    states = [state_of(work / "a.blp")]
    recorder = Recorder(work)
    with installed(recorder):
        run(work / "a.blp")
    states.append(state_of(work / "a.blp"))
    for count, seed, files in all_cuts(recorder, range(4)):
        path = tmp_path / f"{count}-{seed}" / "a.blp"
        path.parent.mkdir()
        for each, file in files.items():
            (path.parent / each).write_bytes(file.durable)
        check(path, states)


def test_readers_at_every_step(tmp_path: Path) -> None:
    """Readers see all arrays of the state that they opened, beside a writer that frees space."""
    path = tmp_path / "a.blp"
    with without_syncs():
        prepare_log(path)
    before = state_of(path)
    first, follower = bp.open(path, verify=False), bp.open(path)
    array = bp.open(f"{path}::/3")
    seen: list[State] = []

    def handle_state(z: Any) -> State:
        found = {
            name: (hashlib.sha256(np.asarray(each).tobytes()).hexdigest(), dict(each.attrs))
            for name, each in z.items()
        }
        return {"order": list(z), "attrs": dict(z.attrs), "arrays": found}

    def look() -> None:
        found = state_of(path)
        follower.refresh()
        array.refresh()
        assert handle_state(follower) == found
        assert handle_state(first) == before
        assert hashlib.sha256(array[...].tobytes()).hexdigest() == found["arrays"]["3"][0]
        if found not in seen:
            seen.append(found)

    with installed(StoppingDisk(before=look)):
        for number in range(4):
            with bp.open(path, "r+", nthreads=1) as z:
                z["3"][...] = values(20 + number)
                z["1"] = values(30 + number, 300 + number)
                z["2"].append(values(40 + number))
                z.attrs["n"] = number
    look()
    assert len(seen) == 5
    for each in (first, follower, array):
        each.close()
