"""Read files in every way, under limits, in a separate process.

``python confined.py`` reads requests from standard input, one line of JSON each: a folder and the
names of ways to read. For each file and way it prints a JSON object: the outcome, the time, and the
growth of the peak resident memory. Each way runs in a fork, so that a crash is detected. An empty
line ends the response. Without names, all ways for arrays and bytes are used; those for frame
stores, recordings and datasets must be named.
"""

import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entries import Reader, outcome, readers

import bloscpack

# One for each kind of file: a function from a folder to its ways to read, by name. Those of a file
# type are in a module of their own, such as `dataset_readers` in ``dataset_entries.py``.
READERS: tuple[Callable[[Path], dict[str, Reader]], ...] = (
    readers,
    *(
        getattr(importlib.import_module(path.stem), path.stem.replace("entries", "readers"))
        for path in sorted(Path(__file__).parent.glob("*_entries.py"))
    ),
)

ADDRESS_SPACE_NBYTES = 8 << 30
# Processor time in seconds; a way that needs more is killed, and the others are not tried.
MAX_SECONDS = 60  # a guard against hanging, long enough for busy machines
# Seconds without an outcome after which the process has hung.
MAX_SILENT_SECONDS = 300


@dataclass(frozen=True)
class Outcome:
    """Result of one way of reading: "value", "refused", "fault", or how the process died."""

    file: str
    name: str
    what: str
    message: str
    extra_nbytes: int
    seconds: float


class Confinement:
    """Process that reads; it is reused because its imports take longer than most files."""

    def __init__(self) -> None:
        self._process = self._start()

    @staticmethod
    def _start() -> "subprocess.Popen[str]":
        root = Path(bloscpack.__file__).parents[1]
        return subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(
        self, files: dict[str, bytes], folder: Path, only: tuple[str, ...] = ()
    ) -> list[Outcome]:
        """Return the outcomes of reading `files`, by name, in every way or in the named ways."""
        place = folder / "confined"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for number, data in enumerate(files.values()):
            (place / f"{number:04}").write_bytes(data)
        names = list(files)
        return [
            Outcome(**{**outcome, "file": names[int(outcome["file"])]})
            for outcome in self._ask(place, only)
        ]

    def _ask(self, place: Path, only: tuple[str, ...]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(place), *only]) + "\n")
        self._process.stdin.flush()
        answer = []
        while (line := self._next_line()) != "\n":
            answer.append(json.loads(line))
        return answer

    def _next_line(self) -> str:
        assert self._process.stdout is not None
        timer = threading.Timer(MAX_SILENT_SECONDS, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            status = self._process.wait()
            self.close()
            self._process = self._start()  # for the next test
            raise RuntimeError(f"the process that reads ended: {status}")
        return line

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _peak_nbytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _attempt(name: str, reader: Reader, data: bytes) -> dict[str, object]:
    before, began = _peak_nbytes(), time.process_time()
    what, found = outcome(name, reader, data)
    seconds, extra = time.process_time() - began, _peak_nbytes() - before
    message = "" if what == "value" else f"{type(found).__name__}: {found}"
    return {"what": what, "message": message[:200], "extra_nbytes": extra, "seconds": seconds}


def main() -> None:
    if not os.environ.get("BLOSCPACK_SANITIZE"):  # the sanitizer maps terabytes for itself
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_NBYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        folder, *only = json.loads(line)
        _read_all(Path(folder), only)
        sys.stdout.write("\n")
        sys.stdout.flush()


def _read_all(folder: Path, only: list[str]) -> None:
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for name in only or readers(folder):
            if not _read(path, name, data):
                return


def _read(path: Path, name: str, data: bytes) -> bool:
    """Print the outcome of one way; return whether to continue."""
    with tempfile.TemporaryFile() as report:
        child = os.fork()
        if child == 0:
            with tempfile.TemporaryDirectory() as folder:
                resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
                ways = {way: read for of in READERS for way, read in of(Path(folder)).items()}
                found = _attempt(name, ways[name], data)
            os.write(report.fileno(), json.dumps(found).encode())
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        report.seek(0)
        written = report.read()
    died = {"what": f"died, status {status}", "message": "", "extra_nbytes": 0, "seconds": 0}
    found = json.loads(written) if written else died
    sys.stdout.write(json.dumps({"file": path.name, "name": name, **found}) + "\n")
    sys.stdout.flush()
    return bool(written) or os.WTERMSIG(status) not in (signal.SIGKILL, signal.SIGXCPU)


if __name__ == "__main__":
    main()
