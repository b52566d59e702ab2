"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m vrs``; ``make bench-vrs`` does it in an environment with all peers.
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

from vrs.about import surroundings
from vrs.contender import PER_ARRAY, TABLE
from vrs.data import FULL, QUICK
from vrs.page import text
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
    parser = argparse.ArgumentParser(prog="python -m vrs", description="Race the peers.")
    parser.add_argument("--quick", action="store_true", help="little data, two rounds: a try")
    parser.add_argument("--only", choices=WORK, action="append", help="this part; may be repeated")
    parser.add_argument(
        "--who", choices=TABLE, action="append", help="this contender; may be repeated"
    )
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    args = parser.parse_args(argv)
    names = [name for name in TABLE if name in (args.who or TABLE)]
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
