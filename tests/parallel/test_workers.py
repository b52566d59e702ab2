"""Workers: parts in the order of the tasks, bounded memory, all processes ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bloscpack.exceptions import WorkerError
from bloscpack.parallel.processes import Workers, map_in_processes, resolve_nworkers

from .. import tasks
from ..conftest import REPOSITORY

METHODS = ["spawn", "fork", "forkserver"]


def results(workers: Workers[Any, Any], given: Any) -> list[list[Any]]:
    return [list(job.parts()) for job in workers.run(given)]


@pytest.fixture
def ends() -> Iterator[list[int]]:
    """Processes that must have exited when the test ends."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_come_in_order(count: int) -> None:
    with Workers(tasks.repeat, count) as workers:
        given = [(number, number % 4) for number in range(40)]
        assert results(workers, given) == [[(n, part) for part in range(m)] for n, m in given]
        assert results(workers, []) == []
        assert results(workers, [(7, 1)]) == [[(7, 0)]]


@pytest.mark.parametrize("method", METHODS)
def test_start_methods(method: str) -> None:
    with Workers(tasks.square, 2, method=method) as workers:
        assert results(workers, range(20)) == [[n * n] for n in range(20)]


def test_tasks_are_taken_as_they_are_needed() -> None:
    taken = 0

    def given() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    with Workers(tasks.square, 2) as workers:
        for done, job in enumerate(workers.run(given())):
            assert list(job.parts()) == [done * done]
            assert taken - done <= 8 * 2 + 1
            if done == 50:
                break


def test_large_tasks_pass() -> None:
    with Workers(tasks.square, 2) as workers:
        number = 1 << 8_000_000
        assert results(workers, [number, 3, number])[1] == [9]


def test_parts_that_are_not_taken_are_bounded(tmp_path: Path) -> None:
    with Workers(tasks.large, 2, max_waiting_nbytes=4 << 20) as workers:
        given = [(str(tmp_path), number, 20) for number in range(4)]
        jobs = workers.run(given)
        parts = next(jobs).parts()
        for _ in range(19):
            assert len(next(parts)) == 1 << 20
        # Some parts of the second task have been read, and most of them wait in its pipe.
        assert len(list(tmp_path.glob("1-*"))) < 10
        assert len(list(parts)) == 1
        assert [len(list(job.parts())) for job in jobs] == [20, 20, 20]
        assert workers._waiting_nbytes == 0


def test_parts_that_are_not_taken_are_dropped(tmp_path: Path) -> None:
    with Workers(tasks.large, 2, max_waiting_nbytes=2 << 20) as workers:
        for job in workers.run((str(tmp_path), number, 5) for number in range(6)):
            next(job.parts())
        assert workers._waiting_nbytes == 0


def test_failures_belong_to_their_task() -> None:
    with Workers(tasks.fail, 2) as workers:
        jobs = workers.run(["fine", "value", "strange", "fine"])
        assert list(next(jobs).parts()) == [1]
        parts = next(jobs).parts()
        assert next(parts) == 1
        with pytest.raises(ValueError, match="no such value") as caught:
            next(parts)
        assert str(caught.value) == "no such value"
        assert "tasks.py" in str(caught.value.__cause__)
        with pytest.raises(RuntimeError, match="StrangeError: 1 and 2"):
            list(next(jobs).parts())
        assert list(next(jobs).parts()) == [1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [1, 3])
def test_task_of_a_killed_worker_can_be_repeated(tmp_path: Path, count: int) -> None:
    with Workers(tasks.die_once, count) as workers:
        paths = [str(tmp_path / f"{n}") if n % 3 == 1 else "" for n in range(9)]
        for number, job in enumerate(workers.run(paths)):
            if number % 3 == 1:
                with pytest.raises(WorkerError, match="killed by SIGKILL"):
                    list(job.parts())
            assert list(job.parts()) == ["begun", "ended"]


@pytest.mark.slow
def test_worker_that_always_dies() -> None:
    with Workers(tasks.die, 2) as workers:
        for job in workers.run(["SIGSEGV", "SIGKILL", "SIGTERM"]):
            for _ in range(3):
                with pytest.raises(WorkerError, match=f"killed by {job.task}"):
                    list(job.parts())


def test_worker_that_leaves() -> None:
    with Workers(tasks.leave, 1) as workers:
        (job,) = workers.run([3])
        with pytest.raises(WorkerError, match="exit code 3"):
            list(job.parts())


@pytest.mark.parametrize("method", METHODS)
def test_close_ends_what_runs(ends: list[int], method: str) -> None:
    workers = Workers(tasks.tell_pid_and_wait, 2, method=method)
    ends += [next(job.parts()) for job in workers.run(range(2))]
    workers.close()
    workers.close()


def test_map_finishes_what_was_begun(tmp_path: Path) -> None:
    results = map_in_processes(tasks.take_long, str(tmp_path), range(50), 2)
    assert next(results) == 0
    while not (tmp_path / "begun-1").exists():
        pass
    results.close()  # type: ignore[attr-defined]
    begun = {path.name.removeprefix("begun-") for path in tmp_path.glob("begun-*")}
    assert begun == {path.name.removeprefix("ended-") for path in tmp_path.glob("ended-*")}
    assert len(begun) < 6


SCRIPT = """
import os, sys
from bloscpack.parallel.processes import Workers
from tests.tasks import {function}

{guard}
    with Workers({function}, 2, method="{method}") as workers:
        for job in workers.run(range(2)):
            print(next(job.parts()), flush=True)
        {then}
"""


def start(tmp_path: Path, **fields: str) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(**fields))
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_program_without_a_guard_gets_an_error(tmp_path: Path) -> None:
    process = start(tmp_path, function="square", guard="if True:", method="spawn", then="pass")
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (1, "")
    assert "WorkerError: a worker process ended before it took any work (exit code 1)" in err
    assert '`if __name__ == "__main__":`' in err


@pytest.mark.sampled(5)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_workers_end_with_the_program(tmp_path: Path, method: str, name: str) -> None:
    process = start(
        tmp_path,
        function="tell_pid_and_wait",
        guard='if __name__ == "__main__":',
        method=method,
        then="list(job.parts())",
    )
    with process:
        assert process.stdout
        assert all(process.stdout.readline() for _ in range(2))
        if name == "SIGINT":  # Ctrl-C signals the whole group
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(getattr(signal, name))
        try:
            assert process.wait(240) != 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert process.stderr
        err = process.stderr.read()  # ends when the last worker exits
        assert err.count("Traceback") == (name == "SIGINT")


def test_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_nworkers(3) == 3
    assert 1 <= resolve_nworkers(None) <= 8
    monkeypatch.setattr("bloscpack.parallel.processes.in_worker", lambda: True)
    assert resolve_nworkers(None) == 1
    with pytest.raises(ValueError, match="at least 1, not 0"):
        resolve_nworkers(0)
