"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m vrs``; ``make bench-vrs`` does it in an environment with all peers.
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

from vrs.about import surroundings
from vrs.contender import PER_ARRAY, TABLE
from vrs.data import FULL, QUICK
from vrs.page import PAGE
from vrs.race import Bench
from vrs.work import measure_sizes, race_frames, race_records, race_writing

WORK = {
    "records": race_records,
    "frames": race_frames,
    "writing": race_writing,
    "sizes": measure_sizes,
}
_IN_MEMORY = Path("/dev/shm")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return the exit status."""
    return run(argv, prog="vrs", work=WORK, names=TABLE, measure=measure, text=PAGE.text)


def measure(work: list[str], names: list[str], say: Say, *, is_quick: bool) -> dict[str, Any]:
    """Do the work that is named and return what was measured, as JSON values."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-vrs-")))
        parent = _IN_MEMORY if _IN_MEMORY.is_dir() else None
        memory = stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-", dir=parent))
        say("making the records")
        bench = Bench(QUICK if is_quick else FULL, folder, Path(memory), names, say)
        stack.callback(bench.closing.close)
        for name in work:
            WORK[name](bench)
        return {
            "about": surroundings(bench),
            "setting": asdict(bench.setting),
            "nthreads": NTHREADS,
            "per_array": PER_ARRAY,
            "cases": [asdict(case) for case in bench.cases],
            "notes": {one.name: one.note for one in bench.contenders},
            **bench.found,
        }


if __name__ == "__main__":
    sys.exit(main())
