"""Archives that are changed, stopped at every step: all arrays are in the old state or the new."""

import gc
import hashlib
import itertools
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container import logwriter

from .disk import Crash, StoppingDisk, installed, without_syncs
from .power import Recorder, all_cuts, write_all

State = dict[str, Any]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files of this size use space again."""
    monkeypatch.setattr(logwriter, "_LEAST_FREE_NBYTES", 0)


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


def dataset(start: int, stop: int) -> Any:
    """Return a part of a dataset, whose time is even up to 500, and whose height is long."""
    xr = pytest.importorskip("xarray", reason="xarray is not installed")
    time = np.arange(start, stop) + 100 * (np.arange(start, stop) >= 500)
    height = np.random.default_rng(0).random(1000)[start:stop]
    variables = {str(n): (("time", "x"), values(n, 1000)[start:stop]) for n in range(4)}
    return xr.Dataset(variables, {"time": time, "height": ("time", height)}, {"n": 1})


def prepare_dataset(path: Path) -> None:
    """Write a dataset that was never changed."""
    bp.save(path, dataset(0, 470), chunks=64)


def prepare_grown(path: Path) -> None:
    """Write a dataset that was appended to."""
    bp.save(path, dataset(0, 440), chunks=64)
    bp.append(path, dataset(440, 470))


def grows(path: Path) -> None:
    """Append to all variables and coordinates, of which one becomes an array."""
    bp.append(path, dataset(470, 560))


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
    [
        *((prepare, does_all), (prepare_dataset, grows), (prepare_grown, grows)),
        *((prepare_log, run) for run in OPERATIONS),
    ],
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
        path = write_all(files, tmp_path / f"{count}-{seed}") / "a.blp"
        check(path, states)


def remove(z: Any) -> None:
    del z["1"]


def resize(z: Any) -> None:
    z["3"].resize(7, 5)


# One commit each, in one session.
CHANGES: list[Callable[[Any], object]] = [
    lambda z: z["0"].__setitem__(slice(3, 30), 7),
    lambda z: z.__setitem__("new", values(9)),
    lambda z: z.__setitem__("3", values(10, 300)),
    remove,
    lambda z: z.rename("0", "first"),
    lambda z: z["2"].append(values(8, 20)),
    resize,
    lambda z: z.attrs.update(n=2),
    lambda z: z["2"].attrs.update(unit="K"),
]


def prepare_changeable(path: Path) -> None:
    bp.savez(
        path, {f"{n}": values(n) for n in range(4)}, chunks=16, attrs={"n": 1}, changeable=True
    )


def changes_one_by_one(path: Path, count: int, shift: int) -> None:
    """Make `count` commits, the first of them change number `shift`."""
    with bp.open(path, "r+", nthreads=1) as z:
        for change in [*CHANGES[shift:], *CHANGES[:shift]][:count]:
            change(z)
            z.flush()


def killed(path: Path, run: Callable[[Path], object], at: int) -> bool:
    """Run in a forked process that is killed at, or in the middle of, a write; false if it ends."""
    pid = os.fork()
    if not pid:
        steps = itertools.count()

        def look() -> None:
            if next(steps) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with installed(StoppingDisk(before=look)):
                run(path)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.slow
@pytest.mark.parametrize("shift", range(len(CHANGES)))
@pytest.mark.parametrize("begin", [prepare, prepare_log, prepare_changeable])
def test_kill_9_at_every_step(begin: Any, shift: int, tmp_path: Path) -> None:
    """All arrays are in the state of one commit; with all shifts, each change is the first."""
    count = 2
    states = []
    for number in range(count + 1):
        model = tmp_path / f"model {number}.blp"
        with without_syncs():
            begin(model)
            changes_one_by_one(model, number, shift)
        states.append(state_of(model))
    before = tmp_path / "before.blp"
    begin(before)
    seen = []
    for step in itertools.count():
        path = tmp_path / str(step) / "a.blp"
        path.parent.mkdir()
        path.write_bytes(before.read_bytes())
        if not killed(path, lambda path: changes_one_by_one(path, count, shift), step):
            break
        seen.append(check(path, states))
    assert seen == sorted(seen)
    assert set(seen) == set(range(count + 1))


@pytest.mark.slow
def test_kill_9_while_compacting(tmp_path: Path) -> None:
    before = tmp_path / "before.blp"
    prepare_log(before)
    for step in itertools.count():
        path = tmp_path / str(step) / "a.blp"
        path.parent.mkdir()
        path.write_bytes(before.read_bytes())
        if not killed(path, compacts, step):
            break
        check(path, [state_of(before)])
    assert step > 5


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
