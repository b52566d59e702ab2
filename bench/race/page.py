"""Page and terminal output of a run: surroundings, targets, tables.

``python -m race.page peers RUN.json`` writes the page of bench/peers from the JSON of a run.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from textwrap import fill
from typing import Any, Self

import numpy as np

import bloscpack
from bloscpack.format.codec import BLOSC_VERSION
from bloscpack.parallel.threads import available_cpus
from race.races import Case, Races
from race.timing import NTHREADS, ORIGINAL

DOCS = Path(__file__).resolve().parents[2] / "docs"

Run = dict[str, Any]
Lines = list[tuple[str, ...]]
Cell = Callable[[Case, str], str]
"""Returns the text of a contender in a case."""


@dataclass(frozen=True, slots=True)
class Table:
    """A title, how to read it, and lines of cells, the head first."""

    title: str
    about: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Target:
    """A figure to reach, and whether a run reached it; all in words."""

    work: str
    target: str
    found: str
    met: str

    @classmethod
    def judged(cls, work: str, target: str, found: str, is_met: bool) -> Self:
        """Return the target of one figure."""
        return cls(work, target, found, "yes" if is_met else "no")


def cases_of(run: Run, start: str = "") -> list[Case]:
    """Return the races of a run whose keys begin with `start`."""
    return [Case(**entry) for entry in run["cases"] if entry["key"].startswith(start)]


def case_of(run: Run, key: str) -> Case | None:
    """Return a race of a run, None if it was not held."""
    return next((case for case in cases_of(run, key) if case.key == key), None)


def ratio_of(case: Case | None, ours: str, other: str) -> float | None:
    """Return how many times as fast as another we were; None unless both took part."""
    seconds, base = (None, None) if case is None else (case.median(ours), case.median(other))
    return None if seconds is None or base is None else base / seconds


def at_least(case: Case | None, ours: str, other: str, times: float, work: str) -> Iterator[Target]:
    """Yield the target to be `times` as fast as another, if both took part."""
    if (ratio := ratio_of(case, ours, other)) is not None:
        target = f">= {times:g} times {other}"
        yield Target.judged(work, target, f"{ratio:.2f}", ratio >= times)


def timings(
    cases: Sequence[Case], cell: Cell, absent: Callable[[str], bool] = lambda name: False
) -> Lines:
    """Return a column for each race and a line for each contender.

    Contenders that are not there have a line, too, where `absent` is true of their names.
    """
    names = dict.fromkeys(name for case in cases for name in case.seconds)
    lines: Lines = [("contender", *(case.title for case in cases))]
    lines += [(name, *(cell(case, name) for case in cases)) for name in names]
    skipped = dict.fromkeys(name for case in cases for name in case.skipped)
    for name in skipped:
        if name not in names and absent(name):
            lines.append((name, *(case.skipped.get(name, "-") for case in cases)))
    return lines


def grid(head: str, columns: dict[str, Any], cell: Callable[[Any, str], str]) -> Lines:
    """Return a column for each entry, and a line for each name that is in one of these dicts."""
    dicts = [found for found in columns.values() if isinstance(found, dict)]
    lines: Lines = [(head, *columns)]
    for name in dict.fromkeys(name for found in dicts for name in found):
        lines.append((name, *(cell(found, name) for found in columns.values())))
    return lines


def with_ratio(
    show: Callable[[Case, float], str], base: str | None = None, *, is_longer: bool = False
) -> Cell:
    """Return a cell of the median and, in brackets, its ratio to another contender's.

    The ratio says how many times as fast as `base` the contender is, or how many times as long as
    `base` it takes.
    """

    def cell(case: Case, name: str) -> str:
        seconds, other = case.median(name), None if base is None else case.median(base)
        if seconds is None:
            return "-"
        if other is None:
            return show(case, seconds)
        return f"{show(case, seconds)} ({seconds / other if is_longer else other / seconds:.2f})"

    return cell


def duration(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def text_table(lines: Lines) -> list[str]:
    """Return the lines aligned, for a terminal."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]


def markdown_table(lines: Lines) -> list[str]:
    """Return the lines as a Markdown table."""
    head, *body = lines
    rule = ("---", *("---:" for _ in head[1:]))
    return ["| " + " | ".join(line) + " |" for line in (head, rule, *body)]


def machine() -> dict[str, str]:
    """Return machine, threads and versions in words."""
    return {
        "machine": f"{_processor()}, {available_cpus()} processors, {platform.system()}",
        "threads": str(NTHREADS),
        "versions": f"bloscpack {bloscpack.__version__}, C-Blosc {BLOSC_VERSION}, "
        f"python-blosc {version('blosc')}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
    }


def original_versions(found: dict[str, str] | str) -> dict[str, str]:
    """Return the versions of bloscpack 0.16 in words; a string says why it did not run."""
    if isinstance(found, str):
        return {ORIGINAL: f"not run: {found}"}
    return {ORIGINAL: ", ".join(f"{name} {number}" for name, number in found.items())}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def surroundings(
    races: Races,
    libraries: Iterable[str] = (),
    original: dict[str, str] | str | None = None,
) -> dict[str, str]:
    """Return the facts that every page lists above the figures.

    `libraries` are versions beside those of the contenders; `original` is as in
    `original_versions`, and None where bloscpack 0.16 has no part.
    """
    about = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **machine()}
    if original is not None:
        about |= original_versions(original)
    versions = dict.fromkeys(one.version() for one in races.contenders)
    about["contenders"] = "; ".join([*versions, *libraries])
    if races.absent:
        about["not there"] = "; ".join(f"{who}: {why}" for who, why in races.absent.items())
    return about


def items(texts: dict[str, str]) -> str:
    """Return names and their texts as a Markdown list."""
    lines = [
        fill(f"- {name}: {text}", 100, subsequent_indent="  ", break_on_hyphens=False)
        for name, text in texts.items()
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Page:
    """Layout of the page of a benchmark.

    Attributes
    ----------
    introduction : callable
        Returns the Markdown above the figures, from the run.
    lists : dict of str to str
        Heads of lists of names and texts, and the keys of these in the run.
    tables, targets : callable
        Return those of a run; tables without lines are left out.
    remarks : str
        Markdown below the targets.
    path : Path, optional
        The page; None where it is part of another.
    """

    introduction: Callable[[Run], str]
    lists: dict[str, str]
    tables: Callable[[Run], list[Table]]
    targets: Callable[[Run], list[Target]]
    remarks: str = ""
    path: Path | None = None

    def markdown(self, run: Run) -> str:
        """Return the page of a run."""
        about = {name: text for name, text in run["about"].items() if name != "date"}
        parts = [self.introduction(run), f"Run on {run['about']['date']}:\n", items(about)]
        for introduction, key in self.lists.items():
            parts += [f"{introduction}\n", items(run[key])]
        parts += ["## Targets\n", _markdown(self._target_lines(run)), self.remarks]
        for table in self._filled_tables(run):
            about_table = fill(table.about, 100) + "\n" if table.about else ""
            parts += [f"## {table.title}\n", about_table, _markdown(table.lines)]
        return "\n".join(part for part in parts if part)

    def text(self, run: Run) -> list[str]:
        """Return tables and targets as lines for a terminal, the targets last."""
        lines: list[str] = []
        for table in self._filled_tables(run):
            about = [table.about] if table.about else []
            lines += ["", table.title, *about, *text_table(table.lines)]
        lines += ["", *(f"{name}: {about}" for name, about in run["about"].items())]
        found = self._target_lines(run)
        return [*lines, "", "Targets", *text_table(found)] if len(found) > 1 else lines

    def _filled_tables(self, run: Run) -> list[Table]:
        return [table for table in self.tables(run) if len(table.lines) > 1]

    def _target_lines(self, run: Run) -> Lines:
        lines: Lines = [("work", "target", "found", "met")]
        lines += [(one.work, one.target, one.found, one.met) for one in self.targets(run)]
        return lines


def _markdown(lines: Lines) -> str:
    return "\n".join(markdown_table(lines)) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page of the run that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m race.page", description="Write a page.")
    parser.add_argument("folder", help="the benchmark")
    parser.add_argument("run", type=Path, help="JSON that `python -m race FOLDER --json` wrote")
    parser.add_argument("-o", "--output", type=Path, help="by default the page in docs/")
    args = parser.parse_args(argv)
    page: Page = import_module(f"{args.folder}.figures").PAGE
    output = args.output or page.path
    if output is None:
        parser.error(f"the page of {args.folder} is part of another: run page.py; or name --output")
    output.write_text(page.markdown(json.loads(args.run.read_text("utf-8"))), "utf-8")
    print(f"wrote {output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
