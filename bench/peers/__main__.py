"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m peers``; ``make bench-peers`` does it in an environment with all peers.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from harness import NTHREADS

from peers.about import surroundings
from peers.contender import TABLE
from peers.damage import damage_files
from peers.data import FULL, QUICK
from peers.files import race_files
from peers.memory import measure_memory
from peers.page import text
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
    parser = argparse.ArgumentParser(prog="python -m peers", description="Race the peers.")
    parser.add_argument("--quick", action="store_true", help="little data, two rounds: a try")
    parser.add_argument("--only", choices=WORK, action="append", help="this part; may be repeated")
    parser.add_argument(
        "--peer", choices=TABLE, action="append", help="bloscpack and this one; may be repeated"
    )
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    args = parser.parse_args(argv)
    names = [*TABLE] if args.peer is None else list(dict.fromkeys([Ours.name, *args.peer]))
    start = perf_counter()

    def say(what: str) -> None:
        print(f"{perf_counter() - start:6.1f} s  {what}", file=sys.stderr, flush=True)

    run = measure(args.only or [*WORK], names, say, is_quick=args.quick)
    run["about"]["took"] = f"{perf_counter() - start:.0f} s"
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(run, indent=1) + "\n", "utf-8")
    print("\n".join(text(run)))
    return 0


def measure(
    work: list[str], names: list[str], say: Callable[[str], object], *, is_quick: bool
) -> dict[str, Any]:
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
