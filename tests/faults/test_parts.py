"""Parts and their commit stopped at every step: the old file, the new one or none; no litter."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.parts import PartsJob
from bloscpack.container.chunkparts import PartRecord
from bloscpack.storage.newfile import NewFile

from .disk import Crash, StoppingDisk, installed, without_syncs
from .operations import ramp
from .power import Recorder, after_cut

NROWS, OLD = 730, 250
OPTIONS: dict[str, Any] = {}


def job_for(path: Path) -> PartsJob:
    return PartsJob(path, shape=(NROWS,), dtype="i4", chunks=100, id="job", **OPTIONS)


def write_all(path: Path) -> None:
    with job_for(path).begin() as job:
        job.commit([job.write(a, ramp(a, b), nthreads=1) for a, b in job.split(800)], nthreads=1)


def nothing(path: Path) -> None:
    assert not path.exists()


def saved(path: Path) -> None:
    bp.save(path, ramp(0, OLD), chunks=100)


def litter(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name != "a.blp"]


def check(path: Path, old: int | None) -> int | None:
    """Check that the file is the old or the new one; return its number of rows."""
    with without_syncs():
        if not path.exists():
            assert old is None
            return None
        assert bp.verify(path).ok
        found = bp.load(path)
        assert len(found) in (old, NROWS)
        assert np.array_equal(found, ramp(0, len(found)))
        return len(found)


both = pytest.mark.parametrize(("prepare", "old"), [(nothing, None), (saved, OLD)])


@pytest.fixture(autouse=True, params=["zstd", "auto"])
def _soon_on_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewFile, "_SMALL_NBYTES", 300)
    monkeypatch.setitem(OPTIONS, "codec", request.param)


@pytest.mark.sampled(5)
@both
@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
def test_stopped_at_every_step(
    prepare: Callable[[Path], None], old: int | None, kind: str, tmp_path: Path
) -> None:
    seen = set()
    for step in range(1000):
        path = tmp_path / str(step) / "a.blp"
        path.parent.mkdir()
        with without_syncs():
            prepare(path)
        stopping = StoppingDisk(step, kind)
        with installed(stopping):
            try:
                write_all(path)
            except (OSError, Crash):
                pass
            else:
                assert step >= stopping.count
                assert litter(path.parent) == []
                break
        found = check(path, old)
        if kind == "error" and found != NROWS:
            # The job was aborted. If the file existed before, its parts may stay.
            assert litter(path.parent) == []
        seen.add(found)
        with without_syncs():
            job_for(path).abort()
            assert litter(path.parent) == []
            check(path, old)
            write_all(path)
        assert check(path, old) == NROWS
        assert litter(path.parent) == []
    assert seen == {old, NROWS}
    assert step > 30


@both
def test_power_loss_at_every_step(
    prepare: Callable[[Path], None], old: int | None, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with without_syncs():
        prepare(work / "a.blp")
    recorder = Recorder(work)
    with installed(recorder):
        write_all(work / "a.blp")
    seen = set()
    for count in range(len(recorder.events) + 1):
        for seed in range(6):
            path = tmp_path / f"{count}-{seed}" / "a.blp"
            path.parent.mkdir()
            for name, file in after_cut(recorder, count, seed).items():
                (path.parent / name).write_bytes(file.durable)
            seen.add(check(path, old))
    assert seen == {old, NROWS}
    assert check(path, old) == NROWS


def test_a_reader_sees_the_old_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    saved(path)
    seen = []

    def look() -> None:
        seen.append(check(path, OLD))

    with installed(StoppingDisk(before=look)):
        write_all(path)
    look()
    assert seen == sorted(seen)
    assert set(seen) == {OLD, NROWS}


def test_tasks_that_come_late(tmp_path: Path) -> None:
    """A part that is written while parts are removed raises an error, or is removed too."""
    path = tmp_path / "a.blp"
    job = job_for(path).begin()
    for _ in range(3):
        job.write(0, ramp(0, 300))
    results = []

    def late() -> None:
        try:
            results.append(job.write(0, ramp(0, 300)))
        except FileNotFoundError as err:
            results.append(err)

    with installed(StoppingDisk(before=late)):
        job.abort()
    assert litter(tmp_path) == []
    assert [isinstance(each, PartRecord) for each in results] == [True] + [False] * 5


class KillingDisk(StoppingDisk):
    """Kills the process at a call."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step

    def call(self, name: str, *args: Any) -> Any:
        if self.count == self._step:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().call(name, *args)


def killed_at(step: int, task: Callable[[], object]) -> None:
    """Run a task in a process that is killed at one of its calls of the disk."""
    child = os.fork()
    if not child:
        try:
            with installed(KillingDisk(step)):
                task()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_kill_9_of_a_worker(tmp_path: Path) -> None:
    """Another worker redoes the work; the file is whole, without data of the dead worker."""
    path = tmp_path / "a.blp"
    job = job_for(path).begin()
    records = [job.write(0, ramp(0, 300))]
    killed_at(2, lambda: job.write(300, ramp(300, NROWS)))
    assert len(list(next(tmp_path.glob(".bloscpack-*")).iterdir())) == 2
    with pytest.raises(ValueError, match="no part has rows 300 to 730"):
        job.commit(records)
    records.append(job.write(300, ramp(300, NROWS)))
    job.commit(records)
    assert litter(tmp_path) == []
    assert check(path, None) == NROWS


def begun(path: Path) -> tuple[PartsJob, list[PartRecord]]:
    path.unlink(missing_ok=True)
    job = job_for(path).begin()
    return job, [job.write(a, ramp(a, b)) for a, b in job.split(800)]


@pytest.mark.slow
def test_kill_9_of_the_coordinator(tmp_path: Path) -> None:
    """Another coordinator commits the same records, or aborts; neither leaves files."""
    path = tmp_path / "a.blp"
    whole = StoppingDisk()
    job, records = begun(path)
    with installed(whole):
        job.commit(records)
    renamed = whole.names.index("replace")
    assert renamed + 4 < whole.count
    for step in range(whole.count):
        for takes_over in (False, True):
            job, records = begun(path)
            killed_at(step, lambda job=job, records=records: job.commit(records))
            assert litter(tmp_path) != []
            found = NROWS if step > renamed else None
            assert check(path, None) == found
            if takes_over:
                job_for(path).commit(records)
                found = NROWS
            else:
                job_for(path).abort()
            assert check(path, None) == found
            assert litter(tmp_path) == []
