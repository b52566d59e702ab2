"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m benzina``; ``make bench-benzina`` does it in an environment with all peers.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from command import Say, run
from races import folder_in_memory

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return the exit status."""
    return run(argv, prog="benzina", work=WORK, names=TABLE, measure=measure, text=PAGE.text)


def measure(work: list[str], names: list[str], say: Say, *, is_quick: bool) -> dict[str, Any]:
    """Do the work that is named and return what was measured, as JSON values."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-benzina-")))
        memory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="blp-", dir=folder_in_memory())
        )
        say("making the pictures")
        bench = Bench(QUICK if is_quick else FULL, folder, Path(memory), names, say)
        stack.callback(bench.closing.close)
        for name in work:
            WORK[name](bench)
        return bench.results(surroundings(bench))


if __name__ == "__main__":
    sys.exit(main())
