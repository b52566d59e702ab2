"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m peers``; ``make bench-peers`` does it in an environment with all peers.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from command import Say, run
from races import folder_in_memory

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
        in_memory = folder_in_memory()
        if in_memory is not None and in_memory not in folder.resolve().parents:
            memory_folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-", dir=in_memory))
            )
        say("making the array")
        bench = Bench(QUICK if is_quick else FULL, folder, memory_folder, names, say)
        stack.callback(bench.close)
        for name in work:
            WORK[name](bench)
        return bench.results(surroundings(bench))


if __name__ == "__main__":
    sys.exit(main())
