"""Contenders in processes of their own, where they work and are timed.

A process keeps traces of its work, such as freed memory that the system need not provide
again, or idle threads. They make the next contender faster or slower: GulpIO2 is a quarter faster
in a process that has freed a large array.

`Worker` is the side of the race. The other side runs ``python -m race.worker CASES NAME``. Each
line on its standard input is a JSON object, answered by one line of JSON on standard output: a
task, answered with null once it is prepared and its result was checked; or a ``count``, answered
with the seconds that the last task took `count` times and the processor time of that, with helper
processes; or ``"memory": true``, answered with the resident bytes of the process and each helper;
or a ``report``, answered with what this function returns.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from multiprocessing import active_children
from pathlib import Path
from signal import SIGKILL
from threading import Timer
from typing import Any

from race.resident import processor_seconds, proportional
from race.timing import Loop

BENCH = Path(__file__).resolve().parents[1]
_NLINES = 30  # last lines of a failed process to quote


class WorkerError(Exception):
    """The process cannot be started or has ended; the message says why."""


class HangError(WorkerError):
    """The process took too long for an answer and was killed."""


class Process:
    """A running process that answers a line of JSON with a line of JSON.

    One that takes longer than `timeout` seconds for an answer is killed.
    """

    def __init__(self, name: str, *command: object, timeout: float | None = None) -> None:
        self._name, self._timeout = name, timeout
        # Libraries may be verbose: their output is kept for the case that they fail.
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        self._process = subprocess.Popen(
            [*map(str, command)],
            cwd=BENCH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request; paths are sent as text.

        Raises
        ------
        WorkerError
            The process failed.
        HangError
            It took longer than the timeout.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        timer = None if self._timeout is None else Timer(self._timeout, self._process.kill)
        if timer is not None:
            timer.start()
        try:
            stdin.write(json.dumps(request, default=str) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            if timer is not None:
                timer.cancel()
        if not line and self._timeout is not None and self._process.wait() == -SIGKILL:
            raise HangError(f"did not finish within {self._timeout:g} s")
        if not line:
            self._process.wait()
            self._log.seek(0)
            said = "".join(self._log.readlines()[-_NLINES:])
            raise WorkerError(f"the process of {self._name} has ended:\n{said}")
        return json.loads(line)

    def close(self) -> None:
        """End the process; it may have ended before."""
        if self._log.closed:
            return
        with self._log, self._process as process:
            process.stdin.close()


class Worker(Process):
    """A running process of the contender `name` of the folder `cases`."""

    def __init__(self, cases: str, name: str, timeout: float | None = None) -> None:
        command = (sys.executable, "-m", "race.worker", cases, name)
        super().__init__(name, *command, timeout=timeout)

    def prepare(self, **task: Any) -> "WorkerLoop":
        """Return the loop of a task, whose result the process has checked.

        Only the loop returned last can be run.

        Raises
        ------
        WorkerError
            The result is wrong, or something failed.
        """
        self.ask(**task)
        return WorkerLoop(self)

    def report(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """Return what a function of a module returns for the contender, a JSON value."""
        return self.ask(report=f"{function.__module__}:{function.__name__}", **arguments)

    def memory(self) -> list[int]:
        """Return the resident bytes of the process and of each of its helper processes."""
        return self.ask(memory=True)


class WorkerLoop:
    """The loop of the last task of a worker.

    Attributes
    ----------
    processor : list of float
        Seconds of processor time per call, for each run of the loop.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.processor: list[float] = []

    def __call__(self, count: int) -> float:
        seconds, processor = self._worker.ask(count=count)
        self.processor.append(processor / count)
        return float(seconds)


def main(arguments: list[str]) -> int:
    """Answer requests until the input ends; return the exit status."""
    from race.races import assemble  # it imports this module

    cases, name = arguments
    contenders = import_module(f"{cases}.contenders")
    (contender,), _ = assemble(contenders.TABLE, [name])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # output of libraries must not mix with answers
    with ExitStack() as stack:
        loop: Loop | None = None
        for line in sys.stdin:
            request = json.loads(line)
            helpers = [one.pid for one in active_children() if one.pid is not None]
            answer: Any
            if loop is not None and "count" in request:
                before = processor_seconds(*helpers)
                seconds = loop(request["count"])
                answer = seconds, processor_seconds(*helpers) - before
            elif "report" in request:
                module, _, function = request.pop("report").partition(":")
                answer = getattr(import_module(module), function)(contender, **request)
            elif "memory" in request:
                answer = [*map(proportional, ("self", *helpers))]
            else:
                stack.close()
                answer, loop = None, contenders.prepare(contender, request, stack)
            print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
