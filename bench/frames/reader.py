"""A contender in a process of its own, where it reads and is timed.

What one leaves behind in a process, such as freed memory that the next need not ask the system for,
or idle threads, makes others faster or slower: in one process GulpIO2 is a quarter faster after
somebody else had a large array.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness import Loop

BENCH = Path(__file__).resolve().parents[1]


class ReaderError(Exception):
    """The process has ended; what it said is on standard error."""


class Reader:
    """A running process of a contender.

    Parameters
    ----------
    name : str
        The contender.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "frames.reader_worker", name],
            cwd=BENCH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def prepare(self, **task: Any) -> Loop:
        """Return the loop that does a task over there, after checking what it results in.

        Only the loop made last can be run. See `reader_worker` for what a task is.

        Raises
        ------
        ReaderError
            What was read is wrong, or something failed.
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
            raise ReaderError(f"the process of {self._name} has ended")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
