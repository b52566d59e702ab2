"""Counts the modules of ours that are loaded and entered, and the functions that are called."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import numpy as np

import bloscpack as bp

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = str(Path(bp.__file__).parent)

# Run in a fresh process: what it loads, and which modules have a function that is called.
PROBE = """
import io, json, sys
entered = set()
def note(frame, event, _):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("bloscpack") and frame.f_code.co_name != "<module>":
        entered.add(name)
{program}
loaded = [name for name in sys.modules if name == "bloscpack" or name.startswith("bloscpack.")]
sys.setprofile(None)
sys.stdout = sys.__stdout__
print(json.dumps({{"modules loaded": len(loaded), "modules entered": len(entered)}}))
"""
IMPORT = "import bloscpack"
COMMAND = """
from bloscpack.cli.main import main
sys.stdout = io.StringIO()
sys.setprofile(note)
main({argv!r})
"""


def counts() -> dict[str, dict[str, int]]:
    """Return the counts by what is done."""
    with TemporaryDirectory() as name:
        path = str(Path(name) / "a.blp")
        bp.save(path, np.arange(1 << 12, dtype="u1").reshape(64, 64), chunks=8)
        programs = {
            "import bloscpack": IMPORT,
            "blpk --version": COMMAND.format(argv=["--version"]),
            "blpk ls FILE": COMMAND.format(argv=["ls", path]),
            "blpk verify FILE": COMMAND.format(argv=["verify", path]),
        }
        found = {each: _probed(program) for each, program in programs.items()}
        del found["import bloscpack"]["modules entered"]
        found["bloscpack.open(path)[3]"] = entered(lambda: bp.open(path), 3)
        found["bloscpack.open(path)"] = entered(lambda: bp.open(path))
    return found


def _probed(program: str) -> dict[str, int]:
    run = subprocess.run(
        [sys.executable, "-c", PROBE.format(program=program)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    found: dict[str, int] = json.loads(run.stdout)
    return found


def entered(opening: Callable[[], Any], row: int | None = None) -> dict[str, int]:
    """Return how many of our modules an opening enters, and how many Python functions it calls."""
    for _ in range(2):  # the first time, modules are imported and metadata are decoded
        found = _entered(opening, row)
    return found


def _entered(opening: Callable[[], Any], row: int | None) -> dict[str, int]:
    modules: set[str] = set()
    ncalls = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal ncalls
        if event == "call":
            ncalls += 1
            if frame.f_code.co_filename.startswith(PACKAGE):
                modules.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        array = opening()
        if row is not None:
            array[row]
    finally:
        sys.setprofile(before)
    array.close()
    return {"modules entered": len(modules), "calls": ncalls}
