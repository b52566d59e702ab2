"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m vrs``; ``make bench-vrs`` does it in an environment with all peers.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from command import Say, run
from races import folder_in_memory

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return the exit status."""
    return run(argv, prog="vrs", work=WORK, names=TABLE, measure=measure, text=PAGE.text)


def measure(work: list[str], names: list[str], say: Say, *, is_quick: bool) -> dict[str, Any]:
    """Do the work that is named and return what was measured, as JSON values."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-vrs-")))
        memory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="blp-", dir=folder_in_memory())
        )
        say("making the records")
        bench = Bench(QUICK if is_quick else FULL, folder, Path(memory), names, say)
        stack.callback(bench.closing.close)
        for name in work:
            WORK[name](bench)
        return {**bench.results(surroundings(bench)), "per_array": PER_ARRAY}


if __name__ == "__main__":
    sys.exit(main())
