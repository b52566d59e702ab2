"""What the commands of all races share: their options, their progress, and where figures go."""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

Say = Callable[[str], object]
"""Takes a line on the progress."""


class Measure(Protocol):
    """Does the work that is named, by those who are named, and returns JSON values."""

    def __call__(
        self, work: list[str], names: list[str], say: Say, *, is_quick: bool
    ) -> dict[str, Any]:
        """Say what goes on, and return what was measured; `is_quick`: of little data."""
        ...


def run(
    argv: Sequence[str] | None,
    *,
    prog: str,
    work: Collection[str],
    names: Collection[str],
    measure: Measure,
    text: Callable[[dict[str, Any]], list[str]],
    always: str | None = None,
) -> int:
    """Run the benchmarks that the arguments name; return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; by default those of the process.
    prog : str
        The name of the package.
    work, names : collection of str
        Parts of the work, and contenders, to choose from.
    measure : callable
        Runs them.
    text : callable
        Gives the lines to print of what was measured.
    always : str, optional
        A contender that takes part whoever is chosen.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description="Race the peers.")
    parser.add_argument("--quick", action="store_true", help="little data, two rounds: a try")
    parser.add_argument("--only", choices=work, action="append", help="this part; may be repeated")
    whose = "this contender" if always is None else f"{always} and this one"
    parser.add_argument("--who", choices=names, action="append", help=f"{whose}; may be repeated")
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    args = parser.parse_args(argv)
    chosen = [name for name in names if not args.who or name in args.who or name == always]
    start = perf_counter()

    def say(what: str) -> None:
        print(f"{perf_counter() - start:6.1f} s  {what}", file=sys.stderr, flush=True)

    found = measure(args.only or [*work], chosen, say, is_quick=args.quick)
    found["about"]["took"] = f"{perf_counter() - start:.0f} s"
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print("\n".join(text(found)))
    return 0
