"""Run a benchmark, print its tables, and write the figures as JSON.

From bench/: ``python -m race peers --quick``; ``make bench-peers`` does it in an environment with
all contenders.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from race.page import DOCS, Page
from race.races import Benchmark, Setting, folder_in_memory
from race.worker import BENCH

FOLDERS = sorted(path.parent.name for path in BENCH.glob("*/cases.py"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the work that the arguments name; return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    chooser = argparse.ArgumentParser(prog="python -m race", description="Race the contenders.")
    chooser.add_argument("folder", choices=FOLDERS, help="the benchmark")
    folder = chooser.parse_args(argv[:1]).folder
    benchmark: Benchmark = import_module(f"{folder}.cases").BENCHMARK
    pages: tuple[Page, ...] = import_module(f"{folder}.figures").PAGES
    names, always = list(benchmark.races.table), benchmark.always
    parser = argparse.ArgumentParser(
        prog=f"python -m race {folder}", description=chooser.description
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="little data, two rounds: a try")
    add("--only", choices=benchmark.work, action="append", help="this work; may be repeated")
    whose = " and ".join([*always, "this contender"])
    add("--who", choices=names, action="append", help=f"{whose}; may be repeated")
    add("--json", type=Path, help="where to write the figures")
    add("--read", type=Path, metavar="JSON", help="take the figures of an earlier run")
    add("--page", type=Path, nargs="?", const=DOCS, help="write the pages to docs/, or elsewhere")
    args = parser.parse_args(argv[1:])
    if args.read is not None:
        found = json.loads(args.read.read_text("utf-8"))
    else:
        chosen = [name for name in names if not args.who or name in args.who or name in always]
        setting = Setting(**{name: two[args.quick] for name, two in benchmark.settings.items()})
        found = measure(benchmark, args.only or [*benchmark.work], chosen, setting)
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for page in pages:
        print(page.text(found))
    print("", *(f"{name}: {text}" for name, text in found["about"].items()), sep="\n")
    for page in pages if args.page is not None else ():
        print(f"wrote {page.write(found, args.page)}", file=sys.stderr)
    return 0


def measure(
    benchmark: Benchmark, work: list[str], names: list[str], setting: Setting
) -> dict[str, Any]:
    """Do the work that is named and return all measurements as JSON values."""
    start = perf_counter()

    def say(line: str) -> None:
        print(f"{perf_counter() - start:6.1f} s  {line}", file=sys.stderr, flush=True)

    with ExitStack() as stack:
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blp-", dir=parent)))
            for parent in (None, folder_in_memory())
        ]
        say("making the data")
        races = benchmark.races(setting, *folders, names, say)
        stack.callback(races.closing.close)
        for name in work:
            benchmark.work[name](races)
        found: dict[str, Any] = races.results()
    found["about"]["took"] = f"{perf_counter() - start:.0f} s"
    return found


if __name__ == "__main__":
    sys.exit(main())
