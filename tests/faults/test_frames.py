"""A frame store stopped at every step of writing: clips that existed before still exist."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError
from bloscpack.frames.store import index, writer
from bloscpack.storage.update import UpdateFile

from ..frames.stores import changed, check, clip, fill, made, name, tails
from .disk import REAL, Crash, StoppingDisk, installed, without_syncs
from .operations import contents_of
from .power import Recorder, after_cut, all_cuts, write_all

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _soon_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make writers write few chunks at a time, and merge the index often."""
    monkeypatch.setattr(writer, "_WRITE_NBYTES", 1000)
    monkeypatch.setattr(writer, "_MAX_SINGLE", 3)


@dataclass(frozen=True)
class Operation:
    """Operation of a writer on ``a.blp``.

    Attributes
    ----------
    before, flushed, after : int or None
        Number of clips before, after the last flush (durable if the power fails), and at the end;
        None without a file.
    """

    name: str
    prepare: Callable[[Path], object]
    run: Callable[[Path], object]
    before: int | None
    after: int
    # Whether replacing the file removes the old clips at once.
    replaces: bool = False

    def __str__(self) -> str:
        return self.name


def appends(*stops: int) -> Callable[[Path], None]:
    """Append up to each of `stops`, with a flush after each."""

    def run(path: Path) -> None:
        with bp.frames.open(path, "a", nthreads=1) as store:
            for number, stop in enumerate(stops):
                if number:
                    store.flush()
                fill(store, *range(len(store), stop))

    return run


def appends_raw(path: Path) -> None:
    """Append two clips of raw frames."""
    with bp.frames.open(path, "a", nthreads=1) as store:
        for number in (3, 4):
            meta = {"number": number}
            store.append(name(number), clip(number), meta, preset="raw")


def creates(overwrite: bool) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with bp.frames.create(path, nthreads=1, overwrite=overwrite) as store:
            fill(store, 0, 1)

    return run


def stores(*groups: int) -> Callable[[Path], object]:
    return lambda path: made(path, *groups)


def torn(path: Path) -> None:
    """Leave a store of a writer that died while it wrote the segment of a clip."""
    made(path, 3)
    data = path.read_bytes()
    with bp.frames.open(path, "a", nthreads=1) as store:
        fill(store, 3)
        path.write_bytes(data + path.read_bytes()[len(data) : -1])


def damaged(path: Path) -> None:
    """Leave a store whose index has lost its last merged segment."""
    data = made(path, 3, 3)
    path.write_bytes(changed(data, tails(data)[-1].offset))


OPERATIONS = [
    Operation("create", lambda path: None, creates(False), None, 2),
    Operation("create over", stores(3), creates(True), 3, 2, replaces=True),
    Operation("append one", stores(3), appends(4), 3, 4),
    Operation("append many", stores(3), appends(11), 3, 11),
    Operation("append raw", stores(3), appends_raw, 3, 5),
    Operation("append and flush", stores(2), appends(3, 4, 7, 8), 2, 8),
    Operation("append to none", stores(), appends(1), 0, 1),
    Operation("append to a torn one", torn, appends(5), 3, 5),
    Operation("append to a damaged one", damaged, appends(8), 6, 8),
]
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)


def count_of(path: Path, *, whole: int) -> int | None:
    """Return the number of clips, all in order; the first `whole` of them must be sound."""
    if not path.exists():
        return None
    with bp.frames.open(path) as store:
        assert list(store) == [name(number) for number in range(len(store))]
        for number in range(len(store)):
            try:
                assert np.array_equal(store[name(number)].read(), clip(number))
            except BloscpackError:
                # Written after the last flush, and lost in the power cut.
                assert number >= whole
        return len(store)


def check_after(path: Path, operation: Operation, *, whole: int | None = None) -> int | None:
    """Check that a file is in one of the states, and that clips can be appended to it."""
    with without_syncs():
        found = count_of(path, whole=100 if whole is None else whole)
        if found is None:
            assert operation.before is None
            return None
        low = 0 if operation.replaces or operation.before is None else operation.before
        high = max(operation.after, operation.before or 0)
        assert low <= found <= high
        with bp.frames.open(path, "a", nthreads=1) as store:
            fill(store, found, found + 1)
        assert count_of(path, whole=found if whole is None else whole) == found + 2
        with bp.frames.open(path) as store:
            assert np.array_equal(store[name(found + 1)].read(), clip(found + 1))
    return found


@each_operation
def test_it_works(operation: Operation, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    operation.prepare(path)
    operation.run(path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.blp"]
    assert check_after(path, operation) == operation.after


# A store of a program that crashed is not closed.
@pytest.mark.filterwarnings("ignore:.*was never closed:ResourceWarning")
@pytest.mark.sampled(7)
@each_operation
@pytest.mark.parametrize("kind", ["error", "crash", pytest.param("torn", marks=pytest.mark.slow)])
def test_stopped_at_every_step(operation: Operation, kind: str, tmp_path: Path) -> None:
    seen, checked = set(), set()
    for step in range(1000):
        path = tmp_path / str(step) / "a.blp"
        path.parent.mkdir()
        with without_syncs():
            operation.prepare(path)
        stopping = StoppingDisk(step, kind)
        with installed(stopping):
            try:
                operation.run(path)
            except (OSError, Crash):
                pass
            else:
                if step >= stopping.count:
                    break
        if kind == "error":
            assert [each.name for each in path.parent.iterdir()] in (["a.blp"], [])
        content = contents_of(path.parent)
        if content not in checked:
            checked.add(content)
            seen.add(check_after(path, operation))
    assert operation.before in seen
    assert operation.after in seen
    assert step > 2


def test_an_error_changes_nothing_and_may_be_retried(tmp_path: Path) -> None:
    for step in range(100):
        path = tmp_path / str(step)
        with without_syncs():
            made(path, 2)
        before = path.read_bytes()
        with bp.frames.open(path, "a", nthreads=1) as store:
            stopping = StoppingDisk(step)
            with installed(stopping):
                try:
                    fill(store, 2)
                except OSError:
                    assert path.read_bytes() == before
                    check(store, 0, 1)
                else:
                    break
            with without_syncs():
                fill(store, 2)
                store.flush()
        with bp.frames.open(path) as store:
            check(store, 0, 1, 2)
    assert step == 2


def test_a_merge_that_fails_costs_nothing(tmp_path: Path) -> None:
    """The clip is stored; only the index stays unmerged until the next flush."""
    path = tmp_path / "a.blp"
    with bp.frames.create(path, nthreads=1) as store:
        fill(store, 0, 1)
        with installed(StoppingDisk(2)):
            fill(store, 2)  # two writes of the clip, and one of the merged segment
        check(store, 0, 1, 2)
        assert len(store._index.segments) == 3
        fill(store, 3)
        check(store, 0, 1, 2, 3)
    with bp.frames.open(path) as store:
        check(store, 0, 1, 2, 3)
        assert len(store._index.segments) == 1


def test_a_failed_truncation_stops_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"

    class Broken:
        """Disk that writes and then raises, and raises again at the next call."""

        is_broken = False

        def call(self, what: str, *args: object) -> object:
            if self.is_broken:
                raise OSError("broken")
            if what == "write_at":
                REAL[what](*args)
                self.is_broken = True
                raise OSError("late")
            return REAL[what](*args)

    store = bp.frames.create(path, nthreads=1)
    fill(store, 0)
    with installed(Broken()), pytest.raises(OSError, match="late"):
        fill(store, 1)
    with pytest.raises(OSError, match="could not be cut off"):
        fill(store, 1)
    check(store, 0)
    store.close()
    with bp.frames.open(path, "a") as again:
        fill(again, len(again))
    assert count_of(path, whole=100) == 2


@pytest.mark.sampled(5)
@each_operation
def test_power_loss_at_every_step(operation: Operation, tmp_path: Path) -> None:
    """Clips of the last flush are sound, with any subset of the later writes."""
    work = tmp_path / "work"
    work.mkdir()
    with without_syncs():
        operation.prepare(work / "a.blp")
    recorder = Recorder(work)
    # Number of durable clips after a number of calls.
    durable = [(0, operation.before)]
    flush = bp.frames.FrameStore.flush

    def noted(store: bp.frames.FrameStore) -> None:
        flush(store)
        durable.append((len(recorder.events), len(store)))

    with installed(recorder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(bp.frames.FrameStore, "flush", noted)
        operation.run(work / "a.blp")
    for count, seed, files in all_cuts(recorder, range(12)):
        path = write_all(files, tmp_path / f"{count}-{seed}") / "a.blp"
        whole = max(number or 0 for at, number in durable if at <= count)
        found = check_after(path, operation, whole=0 if operation.replaces else whole)
        if not operation.replaces and operation.before is not None:
            assert found is not None
            assert found >= whole
    files = after_cut(recorder, len(recorder.events), 0)
    closed = tmp_path / "closed" / "a.blp"
    closed.parent.mkdir()
    for each, file in files.items():
        (closed.parent / each).write_bytes(file.durable)
    with bp.frames.open(closed) as store:
        nsegments = len(store._index.segments)
    with bp.frames.open(work / "a.blp") as store:
        assert nsegments == len(store._index.segments)
    assert check_after(closed, operation) == operation.after


def test_readers_at_every_step(tmp_path: Path) -> None:
    """A reader that opens or refreshes a growing store finds whole clips, and never fewer."""
    path = tmp_path / "a.blp"
    made(path, 2)
    follower = bp.frames.open(path)
    first = bp.frames.open(path)
    seen = []

    def look() -> None:
        found = count_of(path, whole=100)
        assert found is not None
        seen.append(found)
        follower.refresh()
        check(follower, *range(found))
        check(first, 0, 1)

    with installed(StoppingDisk(before=look)):
        appends(3, 5, 9)(path)
    look()
    assert seen == sorted(seen)
    assert set(seen) == set(range(2, 10))
    follower.close()
    first.close()


KILLED = """
import os, signal, sys
from pathlib import Path
import bloscpack as bp
from tests.faults.disk import StoppingDisk, installed
from tests.frames.stores import fill

class Killing(StoppingDisk):
    def call(self, name, *args):
        if self.count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().call(name, *args)

path, step = Path(sys.argv[1]), int(sys.argv[2])
with installed(Killing()) as killing:
    store = bp.frames.open(path, "a")
    for number in range(3, 30):
        fill(store, number)
        print(number, flush=True)
        if number % 7 == 0:
            store.flush()
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", [0, 9, 23])
def test_kill_9(step: int, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    made(path, 3)
    command = [sys.executable, "-c", KILLED, str(path), str(step)]
    process = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    appended = [int(line) for line in process.stdout.split()]
    # Clips outlive the process once `append` has returned.
    assert count_of(path, whole=100) == max(appended, default=2) + 1
    with bp.frames.open(path, "a") as store, suppress(ValueError):
        fill(store, len(store))


@dataclass
class Interrupts:
    """Raises KeyboardInterrupt at one of the calls that Python makes in the writer of a store."""

    at: int
    ncalls: int = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        modules = (writer.__file__, index.__file__)
        if frame.f_code.co_filename in modules and event in ("call", "return", "c_return"):
            self.ncalls += 1
            if self.ncalls == self.at:
                raise KeyboardInterrupt

    def run(self, work: Callable[[], object]) -> None:
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cutting_too", [False, True])
def test_interrupt_at_any_call_of_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cutting_too: bool
) -> None:
    def truncate(file: UpdateFile, nbytes: int) -> None:
        raise KeyboardInterrupt

    # More bytes than all that is written after the interrupt.
    large = np.random.default_rng(1).integers(0, 256, (3, 60, 80, 3), "u1")
    counted = Interrupts(0)
    at = 0
    while at <= counted.ncalls:
        path = tmp_path / f"{at}.blp"
        interrupts = Interrupts(at) if at else counted
        with bp.frames.create(path, nthreads=1) as store:
            fill(store, 0, 1)
            with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
                if cutting_too:
                    patched.setattr(UpdateFile, "truncate", truncate)
                interrupts.run(lambda store=store: store.append("large", large))
            fill(store, 2)
        assert bp.verify(path).damage == [], at
        with bp.frames.open(path) as store:
            if "large" in store:
                assert np.array_equal(store["large"][:], large)
            for number in range(3):
                assert np.array_equal(store[name(number)][:], clip(number))
        at += 1
    assert counted.ncalls > 40
