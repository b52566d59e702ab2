"""Commits of a file that changes: those acknowledged are there, even if the rest is lost.

Several commits are made, which use the space of earlier ones again. After a power cut, the file is
in the state of the last commit that returned, or of the one that was being made.
"""

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container import logwriter
from bloscpack.format import log as layout
from tests.conftest import Some

from .disk import Crash, installed, without_syncs
from .power import Recorder, after_cut, write_all

pytestmark = [
    pytest.mark.usefixtures("soon_on_disk"),
    pytest.mark.filterwarnings("ignore:.*(was not completed|a commit is damaged)"),
]

# Those of the slots and of their copies.
SECTORS = layout.SLOTS[0], layout.COPIES[0]
COMMITS = 7
ROWS, CHUNK = 24, 4


def values(seed: int, rows: int = ROWS) -> Any:
    return np.random.default_rng(seed).integers(0, 1 << 40, (rows, 20))


def check_statistics(array: Any) -> None:
    """Check that the statistics of chunks are of the same commit as the items."""
    items = array[...]
    starts = range(0, len(items), CHUNK)
    assert array.stats["max"].ravel().tolist() == [items[at : at + CHUNK].max() for at in starts]
    assert array.stats["sum"].sum() == items.sum()


class Kind:
    """Kind of file: how it is made and changed."""

    def __init__(self, *, is_archive: bool, keep: int = 0, listed: int | None = None) -> None:
        self.is_archive = is_archive
        self.keep = keep
        self.listed = listed  # in place of the size from which on a commit is synced twice

    def prepare(self, path: Path) -> None:
        if self.is_archive:
            arrays = {"t": values(1), "u": values(2, 5)}
            bp.savez(path, arrays, chunks=CHUNK, codec="lz4", changeable=True, stats=True)
        else:
            bp.save(path, values(1), chunks=CHUNK, codec="lz4", changeable=True, stats=True)

    def change(self, file: Any, number: int) -> None:
        """Make change `number`, in memory."""
        array = file["t"] if self.is_archive else file
        if number % 3 == 2:
            array.resize(ROWS + number % 5, 20)
        # Chunks of the commit before the last one leave the space that these need.
        first = number * 5 % (ROWS - 6)
        array[first : first + 6] = values(100 + number, 6)
        if self.is_archive and number % 2:
            file["u"] = values(200 + number, 5)
            file.attrs["n"] = number

    def state_of(self, path: Path) -> bytes:
        if not self.is_archive:
            with bp.open(path) as a:
                check_statistics(a)
                return bytes(a[...].tobytes())
        with bp.open(path) as z:
            check_statistics(z["t"])
            content = b"".join(name.encode() + np.asarray(z[name]).tobytes() for name in z)
            return content + repr(dict(z.attrs)).encode()

    def commits(self, path: Path, first: int, count: int) -> Iterator[int]:
        """Make commits from number `first` on; yield the last one that is durable."""
        with bp.open(path, "r+", nthreads=1, keep=self.keep) as file:
            yield first - 1
            for number in range(first, first + count):
                self.change(file, number)
                file.flush()
                yield number
        yield first + count - 1


KINDS = {
    "array": Kind(is_archive=False),
    "archive": Kind(is_archive=True),
    "versions": Kind(is_archive=False, keep=2),
    "two syncs": Kind(is_archive=False, listed=0),
    "some two syncs": Kind(is_archive=True, listed=1500),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.fixture(autouse=True)
def _small(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files use space again, and give it back."""
    gc.freeze()  # so that a collection looks at the objects of the test alone
    monkeypatch.setattr(logwriter, "_LEAST_FREE_NBYTES", 0)
    monkeypatch.setattr(logwriter, "_LARGE_NBYTES", -(1 << 30))
    if kind.listed is not None:
        monkeypatch.setattr(logwriter, "MAX_LISTED_NBYTES", kind.listed)


class Disk(Recorder):
    """Disk of processes that die, and of a power cut after that."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.durable = [(0, 0)]  # after this number of events, this commit was durable
        self.dies_at = -1

    def call(self, name: str, *args: Any) -> Any:
        if len(self.events) == self.dies_at:
            raise Crash
        return super().call(name, *args)

    def run(self, kind: Kind, path: Path, first: int, count: int, dies_at: int = -1) -> None:
        """Make commits in a process that dies after a number of events."""
        self.dies_at = dies_at
        with installed(self), suppress(Crash):
            for number in kind.commits(path, first, count):
                self.durable.append((len(self.events), number))
        gc.collect()  # the lock of a dead process is gone

    def allowed(self, count: int) -> range:
        """Return the commits that a file may be at if the power fails after a number of events."""
        last = max(number for at, number in self.durable if at <= count)
        return range(last, last + 2)


@contextmanager
def prepared(kind: Kind, folder: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """Yield a file, and its states after each commit."""
    work, model = folder / "work" / "a.blp", folder / "model.blp"
    work.parent.mkdir()
    with without_syncs():
        kind.prepare(work)
        model.write_bytes(work.read_bytes())
        states = [kind.state_of(model)]
        for number in range(1, COMMITS + 6):
            assert [*kind.commits(model, number, 1)][-1] == number
            states.append(kind.state_of(model))
    assert len(set(states)) == len(states)
    yield work, states


def check(kind: Kind, path: Path, states: list[bytes], allowed: range, *, again: bool) -> int:
    """Check that a file is at one of some commits, and that it can be changed; return which."""
    number = states.index(kind.state_of(path))
    assert number in allowed
    if again:
        report = bp.verify(path, nthreads=1)
        assert report.ok, report
        with without_syncs():
            for _ in kind.commits(path, number + 1, 2):
                pass
        assert kind.state_of(path) == states[number + 2]
        assert bp.verify(path, nthreads=1).ok
    return number


@each_kind
def test_power_loss(kind: Kind, tmp_path: Path, some: Some) -> None:
    """The power fails after each call of a session of commits."""
    with prepared(kind, tmp_path) as (path, states):
        disk = Disk(path.parent)
        disk.run(kind, path, 1, COMMITS)
        syncs = [event[0] for event in disk.events].count("sync")
        assert syncs == COMMITS * (2 if kind.listed == 0 else 1) or kind.listed == 1500
        seen = set()
        for count in range(len(disk.events) + 1):
            for seed in some(range(10), 9):
                files = after_cut(disk, count, seed, SECTORS)
                cut = write_all(files, tmp_path / f"{count}-{seed}") / "a.blp"
                seen.add(check(kind, cut, states, disk.allowed(count), again=seed % 6 == 0))
        assert seen == set(range(COMMITS + 1))


@each_kind
def test_killed_and_power_loss(kind: Kind, tmp_path: Path, some: Some) -> None:
    """A process is killed, the next one commits, and then the power fails."""
    with prepared(kind, tmp_path) as (path, states):
        before, choose = path.read_bytes(), random.Random(1)
        for step in some(range(1000), 7):
            folder = tmp_path / f"killed {step}"
            folder.mkdir()
            work = folder / "a.blp"
            work.write_bytes(before)
            disk = Disk(folder)
            disk.run(kind, work, 1, 4, step)
            if len(disk.events) < step:
                break
            number = states.index(kind.state_of(work))
            assert number in disk.allowed(step)
            disk.run(kind, work, number + 1, 3)
            for seed in some(range(2, 7), 5):
                count = choose.randrange(step, len(disk.events) + 1)
                files = after_cut(disk, count, seed, SECTORS)
                cut = write_all(files, folder / f"{count}-{seed}") / "a.blp"
                check(kind, cut, states, disk.allowed(count), again=seed == 2)
    assert step > 30


@each_kind
def test_power_loss_after_power_loss(kind: Kind, tmp_path: Path, some: Some) -> None:
    """The power fails while a file is changed that a power cut has left."""
    choose = random.Random(2)
    with prepared(kind, tmp_path) as (path, states):
        disk = Disk(path.parent)
        disk.run(kind, path, 1, COMMITS)
        for number in some(range(60), 10):
            count = choose.randrange(len(disk.events) + 1)
            files = after_cut(disk, count, number + 2, SECTORS)
            cut = write_all(files, tmp_path / f"{number}") / "a.blp"
            at = check(kind, cut, states, disk.allowed(count), again=False)
            second = Disk(cut.parent)
            second.durable = [(0, at)]
            second.run(kind, cut, at + 1, 2)
            for seed in range(6):
                count = choose.randrange(len(second.events) + 1)
                files = after_cut(second, count, seed + 2, SECTORS)
                last = write_all(files, cut.parent / f"{seed}") / "a.blp"
                check(kind, last, states, second.allowed(count), again=seed == 0)
