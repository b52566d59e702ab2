"""A contender in a process of its own, where it works and is timed.

What one leaves behind in a process, such as freed memory that the next need not ask the system for,
or idle threads, makes others faster or slower: in one process GulpIO2 is a quarter faster after
somebody else had a large array.

`Worker` is this side; a module that it runs calls `serve` there. Each line on standard input is a
JSON object and gives one line of JSON on standard output: a task, for which null is given once it
is prepared and its result was checked; or a ``count``, for which the seconds are given that the
last task took so many times.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import Loop

_NLINES = 30  # of what a process said last

BENCH = Path(__file__).resolve().parent


class WorkerError(Exception):
    """The process has ended; the message has what it said last."""


class Worker:
    """A running process of a contender.

    Parameters
    ----------
    module : str
        What it runs; it calls `serve`.
    name : str
        The contender, its argument.
    """

    def __init__(self, module: str, name: str) -> None:
        self._name = name
        # Some libraries tell whatever they do; all of it is kept for the case that they fail.
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, name],
            cwd=BENCH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def prepare(self, **task: Any) -> Loop:
        """Return the loop that does a task over there, after checking what it results in.

        Only the loop made last can be run. The module says what a task is.

        Raises
        ------
        WorkerError
            What came out is wrong, or something failed.
        """
        self._ask(task)
        return lambda count: float(self._ask({"count": count}))

    def _ask(self, request: dict[str, Any]) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            self._log.seek(0)
            said = "".join(self._log.readlines()[-_NLINES:])
            raise WorkerError(f"the process of {self._name} has ended:\n{said}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        with self._log, self._process as process:
            assert process.stdin is not None
            process.stdin.close()


def serve(prepare: Callable[[dict[str, Any], ExitStack], Loop]) -> int:
    """Answer until there are no more requests; return the exit status.

    Parameters
    ----------
    prepare : callable
        Makes the loop of a task; what it puts on the stack is closed before the next task.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    with ExitStack() as stack:
        loop: Loop | None = None
        for line in sys.stdin:
            request = json.loads(line)
            if loop is not None and "count" in request:
                answer = loop(request["count"])
            else:
                stack.close()
                answer, loop = None, prepare(request, stack)
            print(json.dumps(answer), file=answers, flush=True)
    return 0
