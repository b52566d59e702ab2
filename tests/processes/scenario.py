"""Run one scenario in a process of its own, under a timeout: a hang is a failure with a traceback.

``python scenario.py MODULE NAME FILE [ARGUMENT ...]`` calls a function of a module beside this one.
Its processes may be made by spawn, which imports this script again: keep it light.
"""

import faulthandler
import importlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np

import bloscpack as bp

# A guard against hanging, on machines however busy.
TIMEOUT_SECONDS = 240
SHAPE = (512, 4096)
# Threads are wanted even where there is one processor.
NTHREADS = "4"


def content() -> np.ndarray:
    return np.arange(SHAPE[0] * SHAPE[1], dtype="<i4").reshape(SHAPE)


def check_whole(array: bp.Array) -> None:
    """Read everything, on threads, and compare."""
    if not np.array_equal(array[:], content()):
        raise ValueError("the whole array differs")


def check_rows(array: bp.Array, seed: int, count: int = 40) -> None:
    """Read random rows and compare."""
    # Not numpy's: it is imported on use, and a fork amid an import is trouble of its own.
    numbers = Random(seed)
    for row in (numbers.randrange(SHAPE[0]) for _ in range(count)):
        found, first = array[row], row * SHAPE[1]
        if not np.array_equal(found, np.arange(first, first + SHAPE[1])):
            raise ValueError(f"row {row} differs")


def run(
    module: str, name: str, path: Path, *arguments: str, nthreads: str | None = NTHREADS
) -> None:
    """Run a scenario; raise `AssertionError` with what it printed if it fails or hangs."""
    environment = dict(os.environ, PYTHONPATH=str(Path(bp.__file__).parents[1]))
    environment.pop("BLOSCPACK_NTHREADS", None)
    if nthreads:
        environment["BLOSCPACK_NTHREADS"] = nthreads
    command = [sys.executable, __file__, module, name, str(path), *arguments]
    # A group of its own, so that what hangs below it ends with it.
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS + 30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
    assert process.returncode == 0, f"{name} ended with {process.returncode}:\n{output}"


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.dump_traceback_later(TIMEOUT_SECONDS, exit=True)
    function = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])
    function(Path(sys.argv[3]), *sys.argv[4:])
