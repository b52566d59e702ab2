"""Read one file in every way, under limits, in a process of its own.

``python confined.py FILE [WAY ...]`` prints a JSON object a way: what came of it, in what time, and
by how much the peak of resident memory grew. Each way runs in a fork, so that a crash shows as one.
Without a WAY these are all of arrays and bytes; those of frame stores are to be named.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from entries import Reader, outcome, readers
from store_entries import store_readers

import bloscpack

ADDRESS_SPACE_NBYTES = 8 << 30
# Of processor time; a way in that needs more is killed, and the others are not tried.
MAX_SECONDS = 60  # a guard against hanging, on machines however busy


@dataclass(frozen=True)
class Outcome:
    """What came of reading in one way: "value", "refused", "fault", or how it died."""

    name: str
    what: str
    message: str
    extra_nbytes: int
    seconds: float


def read_confined(data: bytes, folder: Path, only: tuple[str, ...] = ()) -> list[Outcome]:
    """Return what comes of reading `data` in every way, or in those named."""
    path = folder / "confined.blp"
    path.write_bytes(data)
    root = Path(bloscpack.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, __file__, str(path), *only]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]


def _peak_nbytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _attempt(name: str, reader: Reader, data: bytes) -> dict[str, object]:
    before, began = _peak_nbytes(), time.monotonic()
    what, found = outcome(name, reader, data)
    seconds, extra = time.monotonic() - began, _peak_nbytes() - before
    message = "" if what == "value" else f"{type(found).__name__}: {found}"
    return {"what": what, "message": message[:200], "extra_nbytes": extra, "seconds": seconds}


def main(path: Path, only: list[str]) -> None:
    data = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_NBYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in only or readers(path.parent):
        with tempfile.TemporaryFile() as report:
            child = os.fork()
            if child == 0:
                with tempfile.TemporaryDirectory() as folder:
                    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
                    ways = {**readers(Path(folder)), **store_readers(Path(folder))}
                    found = _attempt(name, ways[name], data)
                os.write(report.fileno(), json.dumps(found).encode())
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            report.seek(0)
            written = report.read()
        died = {"what": f"died, status {status}", "message": "", "extra_nbytes": 0, "seconds": 0}
        found = json.loads(written) if written else died
        sys.stdout.write(json.dumps({"name": name, **found}) + "\n")
        sys.stdout.flush()
        if not written and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU):
            break


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
