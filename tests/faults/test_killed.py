"""A process that is killed or out of space: the file is as of a flush, and no longer locked."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bloscpack as bp

from .operations import appends, check, saved, saved_grid, state

# Counts its steps, and kills itself (or meets the limit of a file's size) at one of them.
SCRIPT = """
import os, resource, signal, sys
from pathlib import Path
from tests.faults.disk import StoppingDisk, installed
from tests.faults.operations import appends, writes
what, path, step, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

class Killing(StoppingDisk):
    def call(self, name, *args):
        if self.count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().call(name, *args)

if limit:
    sys.dont_write_bytecode = True  # importlib does not notice that the limit cuts a file off
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
run = appends(260, 620, 700) if what.startswith("append") else writes(40, 250, 330)
killing = Killing()
try:
    with installed(killing):
        run(path)
except OSError as err:
    print(err.errno)
    sys.exit(3)
print(killing.count)
"""
HOLDER = """
import sys, bloscpack as bp
a = bp.open(sys.argv[1], "a")
print("open", flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).resolve().parents[2]


def run(what: str, path: Path, step: int = -1, limit: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, what, str(path), str(step), str(limit)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "allowed"),
    [
        ("append", [state(250), state(260), state(620), state(700)]),
        ("append to a grid", [state(250), state(260), state(620), state(700)]),
        ("write", [None, state(40), state(250), state(330)]),
    ],
)
def test_kill_9(what: str, allowed: list[object], tmp_path: Path) -> None:
    def prepare(name: str) -> Path:
        path = tmp_path / name / "a.blp"
        path.parent.mkdir()
        if what == "append":
            saved(250)(path)
        elif what == "append to a grid":
            saved_grid(250, chunks=(20, 5), codec="auto")(path)
        return path

    whole = run(what, prepare("whole"))
    assert whole.returncode == 0, whole.stderr
    count = int(whole.stdout)
    seen = []
    for step in sorted({*range(0, count, max(count // 6, 1)), count - 2}):
        path = prepare(str(step))
        killed = run(what, path, step)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        seen.append(check(path, allowed))  # type: ignore[arg-type]
    assert seen[0] == allowed[0]
    assert len(set(seen)) > 2


@pytest.mark.slow
def test_a_file_that_must_not_grow(tmp_path: Path) -> None:
    for number, limit in enumerate((1500, 2600, 3000)):
        path = tmp_path / str(number) / "a.blp"
        path.parent.mkdir()
        saved(250)(path)
        assert path.stat().st_size < 3000
        full = run("append", path, limit=limit)
        assert full.returncode == 3, full.stderr
        check(path, [state(250), state(260), state(620)])


def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    saved(250)(path)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HOLDER,
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    with pytest.raises(bp.exceptions.LockedError, match=r"a\.blp: another writer"):
        bp.open(path, "a")
    with pytest.raises(bp.exceptions.LockedError):
        saved(3)(path)
    holder.kill()
    holder.communicate()
    appends(300)(path)
    assert len(bp.open(path)) == 300
