"""Run one scenario in a separate process, under a timeout: a hang fails with a traceback.

``python scenario.py MODULE NAME FILE [ARGUMENT ...]`` calls a function of a module beside this one.
The processes it starts may be spawned, which imports this script again: keep it light.
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

# Timeout against hanging, sufficient for busy machines.
TIMEOUT_SECONDS = 500
SHAPE = (512, 4096)
# Use threads even on a single processor.
NTHREADS = "4"


def content() -> np.ndarray:
    return np.arange(SHAPE[0] * SHAPE[1], dtype="<i4").reshape(SHAPE)


def check_whole(array: bp.Array) -> None:
    """Read everything, on threads, and compare."""
    if not np.array_equal(array[:], content()):
        raise ValueError("the whole array differs")


def check_rows(array: bp.Array, seed: int, count: int = 40) -> None:
    """Read random rows and compare."""
    # Not numpy's generator: it is imported lazily, and a fork during an import is tested elsewhere.
    numbers = Random(seed)
    for row in (numbers.randrange(SHAPE[0]) for _ in range(count)):
        found, first = array[row], row * SHAPE[1]
        if not np.array_equal(found, np.arange(first, first + SHAPE[1])):
            raise ValueError(f"row {row} differs")


def run(
    module: str, name: str, path: Path, *arguments: str, nthreads: str | None = NTHREADS
) -> None:
    """Run a scenario; raise `AssertionError` with its output if it fails or hangs."""
    environment = dict(os.environ, PYTHONPATH=str(Path(bp.__file__).parents[1]))
    environment.pop("BLOSCPACK_NTHREADS", None)
    if nthreads:
        environment["BLOSCPACK_NTHREADS"] = nthreads
    command = [sys.executable, __file__, module, name, str(path), *arguments]
    # A separate process group, so that hanging children are killed as well.
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
