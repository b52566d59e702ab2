"""Run everything, print the tables, write what was measured as JSON.

From bench/: ``python -m remote``; ``make bench-remote`` does it in an environment with all peers.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from command import Say, run
from races import folder_in_memory

from remote.about import surroundings
from remote.blocks import NOTES
from remote.contender import TABLE
from remote.data import FULL, QUICK
from remote.page import PAGE
from remote.race import Bench
from remote.serving import serving
from remote.work import count_requests, race_dask, time_requests

WORK = {"requests": count_requests, "times": time_requests, "dask": race_dask}
_LIBRARIES = ("s3fs", "aiohttp", "moto", "dask", "distributed")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return the exit status."""
    return run(argv, prog="remote", work=WORK, names=TABLE, measure=measure, text=PAGE.text)


def measure(work: list[str], names: list[str], say: Say, *, is_quick: bool) -> dict[str, Any]:
    """Do the work that is named and return what was measured, as JSON values."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-remote-")))
        say("writing the array")
        memory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="blp-", dir=folder_in_memory())
        )
        setting, servers = QUICK if is_quick else FULL, stack.enter_context(serving())
        bench = Bench(setting, folder, Path(memory), servers, names, say)
        stack.callback(bench.closing.close)
        for name in work:
            WORK[name](bench)
        versions = [f"{name} {version(name)}" for name in _LIBRARIES]
        return {"dask_notes": NOTES, **bench.results(surroundings(bench, versions))}


if __name__ == "__main__":
    sys.exit(main())
