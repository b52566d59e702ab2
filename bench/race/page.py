"""Page and terminal output of a run: surroundings, targets, tables."""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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


def by_case(head: str, cases: Sequence[Case], cell: Cell) -> Lines:
    """Return a line for each race and a column for each contender."""
    names = [*dict.fromkeys(name for case in cases for name in case.seconds)]
    lines: Lines = [(head, *names)]
    return lines + [(case.title, *(cell(case, name) for name in names)) for case in cases]


def grid(head: str, columns: dict[str, Any], cell: Callable[[Any, str], str]) -> Lines:
    """Return a column for each dict, and a line for each name that is in one of them."""
    names = dict.fromkeys(name for found in columns.values() for name in found)
    lines: Lines = [(head, *columns)]
    for name in names:
        found_or_not = (cell(found, name) if name in found else "-" for found in columns.values())
        lines.append((name, *found_or_not))
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


def raced(
    run: Run,
    title: str,
    about: str,
    start: str,
    cell: Cell,
    absent: Callable[[str], bool] = lambda name: False,
) -> Table:
    """Return the table of the races whose keys begin with `start`."""
    return Table(title, about, timings(cases_of(run, start), cell, absent))


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


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def surroundings(races: Races, libraries: Iterable[str] = ()) -> dict[str, str]:
    """Return the facts that every page lists above the figures.

    `libraries` are versions beside those of the contenders.
    """
    about = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{_processor()}, {available_cpus()} processors, {platform.system()}",
        "threads": str(NTHREADS),
        "versions": f"bloscpack {bloscpack.__version__}, C-Blosc {BLOSC_VERSION}, "
        f"python-blosc {version('blosc')}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
    }
    if races.original is not None:
        versions = races.original.versions.items()
        about[ORIGINAL] = ", ".join(f"{name} {number}" for name, number in versions)
    if contenders := dict.fromkeys(one.version() for one in races.contenders):
        about["contenders"] = "; ".join([*contenders, *libraries])
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
    """Layout of a page of a benchmark.

    Attributes
    ----------
    file : str
        Name of the page in docs/.
    title : str
        Its heading.
    introduction : str
        Markdown above the figures; the settings of the run fill its fields.
    summary : callable
        Returns the table that the page starts with, at most five lines and a head.
    lists : dict of str to str
        Heads of lists of names and texts, and the keys of these in the run.
    tables, targets : callable
        Return those of a run; tables without lines are left out.
    remarks : str
        Markdown below the targets.
    """

    file: str
    title: str
    introduction: str
    summary: Callable[[Run], Lines]
    lists: dict[str, str]
    tables: Callable[[Run], list[Table]]
    targets: Callable[[Run], list[Target]] = lambda run: []
    remarks: str = ""

    def markdown(self, run: Run) -> str:
        """Return the page of a run."""
        about = {name: text for name, text in run["about"].items() if name != "date"}
        summary = self.summary(run)
        introduction = self.introduction.format(**run["setting"])
        parts = [f"# {self.title}\n", _markdown(summary), introduction]
        parts += [f"Run on {run['about']['date']}:\n", items(about)]
        for heading, key in self.lists.items():
            parts += [f"{heading}\n", items(run[key])]
        targets = [line for line in target_lines(self.targets(run)) if line not in summary[1:]]
        if len(targets) > 1:
            parts += ["## Targets\n", _markdown(targets)]
        parts.append(self.remarks)
        for table in self._filled_tables(run):
            about_table = fill(" ".join(table.about.split()), 100) + "\n" if table.about else ""
            parts += [f"## {table.title}\n", about_table, _markdown(table.lines)]
        return "\n".join(part for part in parts if part)

    def write(self, run: Run, folder: Path) -> Path:
        """Write the page to a folder and return its path."""
        path = folder / self.file
        path.write_text(self.markdown(run), "utf-8")
        return path

    def text(self, run: Run) -> list[str]:
        """Return tables and targets as lines for a terminal, the targets last."""
        lines: list[str] = []
        for table in self._filled_tables(run):
            about = [table.about] if table.about else []
            lines += ["", table.title, *about, *text_table(table.lines)]
        found = target_lines(self.targets(run))
        return [*lines, "", "Targets", *text_table(found)] if len(found) > 1 else lines

    def _filled_tables(self, run: Run) -> list[Table]:
        return [table for table in self.tables(run) if len(table.lines) > 1]


def target_lines(targets: Iterable[Target]) -> Lines:
    """Return the targets as lines, the head first."""
    lines: Lines = [("work", "target", "found", "met")]
    return lines + [(one.work, one.target, one.found, one.met) for one in targets]


def chosen_targets(
    targets: Callable[[Run], list[Target]], *chosen: tuple[str, str]
) -> Callable[[Run], Lines]:
    """Return the summary of those targets whose work and target begin with these texts."""

    def summary(run: Run) -> Lines:
        found = targets(run)
        return target_lines(
            one
            for work, target in chosen
            for one in found
            if one.work.startswith(work) and one.target.startswith(target)
        )

    return summary


def _markdown(lines: Lines) -> str:
    head, *body = lines
    rule = ("---", *("---:" for _ in head[1:]))
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *body))
