"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m frames``; ``make bench-frames`` does it in an environment with all peers.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from command import Say, run

from frames.about import surroundings
from frames.clips import race_clips
from frames.codecs import race_codecs
from frames.contender import TABLE
from frames.data import FULL, QUICK
from frames.ingesting import race_ingest
from frames.loading import measure_loading
from frames.opening import measure_opening
from frames.page import PAGE
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
    return run(argv, prog="frames", work=WORK, names=TABLE, measure=measure, text=PAGE.text)


def measure(work: list[str], names: list[str], say: Say, *, is_quick: bool) -> dict[str, Any]:
    """Do the work that is named and return what was measured, as JSON values."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-frames-"))
        say("making the clips")
        bench = Bench(QUICK if is_quick else FULL, Path(folder), names, say)
        stack.callback(bench.closing.close)
        for name in work:
            WORK[name](bench)
        clips = {one.name: one.about for one in (*bench.clips, *bench.other_clips)}
        return {**bench.results(surroundings(bench)), "clips": clips}


if __name__ == "__main__":
    sys.exit(main())
