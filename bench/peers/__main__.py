"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m peers``; ``make bench-peers`` does it in an environment with all peers.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from command import Say, run
from harness import NTHREADS

from peers.about import surroundings
from peers.contender import TABLE
from peers.damage import damage_files
from peers.data import FULL, QUICK
from peers.files import race_files
from peers.memory import measure_memory
from peers.page import PAGE
from peers.parts import race_parts
from peers.race import Bench
from peers.whole import race_whole
from peers.with_bloscpack import Ours

WORK = {
    "whole": race_whole,
    "parts": race_parts,
    "files": race_files,
    "memory": measure_memory,
    "damage": damage_files,
}
_IN_MEMORY = Path("/dev/shm")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return the exit status."""
    return run(
        argv,
        prog="peers",
        work=WORK,
        names=TABLE,
        measure=measure,
        text=PAGE.text,
        always=Ours.name,
    )


def measure(work: list[str], names: list[str], say: Say, *, is_quick: bool) -> dict[str, Any]:
    """Do the work that is named and return what was measured, as JSON values."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-peers-")))
        memory_folder = None
        if _IN_MEMORY.is_dir() and _IN_MEMORY not in folder.resolve().parents:
            memory_folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-", dir=_IN_MEMORY))
            )
        say("making the array")
        bench = Bench(QUICK if is_quick else FULL, folder, memory_folder, names, say)
        stack.callback(bench.close)
        for name in work:
            WORK[name](bench)
        return {
            "about": surroundings(bench),
            "setting": asdict(bench.setting),
            "nthreads": NTHREADS,
            "cases": [asdict(case) for case in bench.cases],
            "notes": {one.name: one.note for one in bench.contenders},
            **bench.found,
        }


if __name__ == "__main__":
    sys.exit(main())
