"""Fixtures of the tests of bench/: its modules, and runs of its programs."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
MEMORY = Path("/dev/shm")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run Python, by default in bench/, on files in memory where there is such a file system."""

    def run(*command: object, cwd: Path = BENCH, **environment: str) -> object:
        # A pytest of its own, not a worker of this one's.
        own = {name: value for name, value in os.environ.items() if "XDIST" not in name}
        memory = {"TMPDIR": str(MEMORY)} if MEMORY.is_dir() else {}
        return subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=cwd,
            env={**own, "PYTHONPATH": f"{ROOT}{os.pathsep}{BENCH}", **memory, **environment},
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.fixture(scope="module")
def bench() -> Iterator[None]:
    """Let the modules of bench/ be imported, here and by the processes of contenders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        patch.setenv("PYTHONPATH", str(ROOT))
        yield
