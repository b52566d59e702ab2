"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m frames``; ``make bench-frames`` does it in an environment with all peers.
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

from frames.about import surroundings
from frames.clips import race_clips
from frames.codecs import race_codecs
from frames.contender import TABLE
from frames.data import FULL, QUICK
from frames.ingesting import race_ingest
from frames.loading import measure_loading
from frames.opening import measure_opening
from frames.page import text
from frames.race import Bench

WORK = {
    "clips": race_clips,
    "codecs": race_codecs,
    "opening": measure_opening,
    "ingest": race_ingest,
    "loading": measure_loading,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m frames", description="Race the peers.")
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
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-frames-"))
        say("making the clips")
        bench = Bench(QUICK if is_quick else FULL, Path(folder), names, say)
        stack.callback(bench.closing.close)
        for name in work:
            WORK[name](bench)
        return {
            "about": surroundings(bench),
            "setting": asdict(bench.setting),
            "nthreads": NTHREADS,
            "cases": [asdict(case) for case in bench.cases],
            "notes": {one.name: one.note for one in bench.contenders},
            "clips": {one.name: one.about for one in (*bench.clips, *bench.other_clips)},
            **bench.found,
        }


if __name__ == "__main__":
    sys.exit(main())
