"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m benzina``; ``make bench-benzina`` does it in an environment with all peers.
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

from benzina.about import surroundings
from benzina.contender import TABLE
from benzina.data import FULL, QUICK
from benzina.page import PAGE
from benzina.race import Bench
from benzina.work import (
    measure_sizes,
    race_index,
    race_loading,
    race_packing,
    race_samples,
)

WORK = {
    "loading": race_loading,
    "index": race_index,
    "samples": race_samples,
    "packing": race_packing,
    "sizes": measure_sizes,
}
_IN_MEMORY = Path("/dev/shm")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return the exit status."""
    return run(argv, prog="benzina", work=WORK, names=TABLE, measure=measure, text=PAGE.text)


def measure(work: list[str], names: list[str], say: Say, *, is_quick: bool) -> dict[str, Any]:
    """Do the work that is named and return what was measured, as JSON values."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-benzina-")))
        parent = _IN_MEMORY if _IN_MEMORY.is_dir() else None
        memory = stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-", dir=parent))
        say("making the pictures")
        bench = Bench(QUICK if is_quick else FULL, folder, Path(memory), names, say)
        stack.callback(bench.closing.close)
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
