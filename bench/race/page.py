"""Pages of a run: surroundings, targets, tables."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import ge, le
from pathlib import Path
from textwrap import fill
from typing import Any, Self

from race.races import Case
from race.worker import BENCH

DOCS = BENCH.parent / "docs"

Run = dict[str, Any]
Lines = list[tuple[str, ...]]
Cell = Callable[[Case, str], str]
"""Returns the text of a contender in a case."""

_BLOCK = re.compile(r"<!-- (\w+) -->")


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


def ratio_of(case: Case, ours: str, other: str) -> float | None:
    """Return how many times as fast as another we were; None unless both took part."""
    seconds, base = case.median(ours), case.median(other)
    return None if seconds is None or base is None else base / seconds


def figures(run: Run, start: str, figure: Callable[[Case], float | None]) -> dict[str, float]:
    """Return a figure of each race whose key begins with `start`, by the rest of the key."""
    found = {case.key.removeprefix(start): figure(case) for case in cases_of(run, start)}
    return {name: value for name, value in found.items() if value is not None}


def judge(
    work: str,
    target: str,
    found: dict[str, float],
    is_met: Callable[[float], bool],
    show: Callable[[float], str] = "{:.2f}".format,
) -> list[Target]:
    """Return the target of the figures of one or several races, if there are any."""
    if not found:
        return []
    nmet = sum(map(is_met, found.values()))
    met = {0: "no", len(found): "yes"}.get(nmet, f"{nmet} of {len(found)}")
    shown = ", ".join(f"{name} {show(value)}".strip() for name, value in found.items())
    return [Target(work, target, shown, met)]


def at_least(
    run: Run, work: str, start: str, ours: str, other: str, times: float, goal: str = ""
) -> list[Target]:
    """Return the target to be `times` as fast as another in the races that both took part in."""
    found = figures(run, start, lambda case: ratio_of(case, ours, other))
    return judge(work, f">= {times:g} times {goal or other}", found, partial(le, times))


def at_most(
    run: Run,
    work: str,
    start: str,
    figure: Callable[[Case], float | None],
    limit: float,
    goal: str,
    show: Callable[[float], str] = "{:.2f}".format,
) -> list[Target]:
    """Return the target that a figure of the races whose keys begin with `start` has a limit."""
    return judge(work, goal, figures(run, start, figure), partial(ge, limit), show)


def by_case(head: str, cases: Sequence[Case], cell: Cell) -> Lines:
    """Return a line for each race and a column for each contender."""
    names = [*dict.fromkeys(name for case in cases for name in case.seconds)]
    lines: Lines = [(head, *names)]
    return lines + [(case.title, *(cell(case, name) for name in names)) for case in cases]


def timings(cases: Sequence[Case], cell: Cell) -> Lines:
    """Return a column for each race and a line for each contender."""
    return [*zip(*by_case("contender", cases, cell), strict=True)]


def grid(head: str, columns: dict[str, Any], cell: Callable[[Any, str], str]) -> Lines:
    """Return a column for each dict, and a line for each name that is in one of them."""
    names = dict.fromkeys(name for found in columns.values() for name in found)
    lines: Lines = [(head, *columns)]
    for name in names:
        found_or_not = (cell(found, name) if name in found else "-" for found in columns.values())
        lines.append((name, *found_or_not))
    return lines


def with_ratio(
    show: Callable[[Case, float], str],
    base: str | None = None,
    *,
    is_longer: bool = False,
    digits: int = 2,
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
        ratio = seconds / other if is_longer else other / seconds
        return f"{show(case, seconds)} ({ratio:.{digits}f})"

    return cell


def raced(start: str, cell: Cell) -> Callable[[Run], Lines]:
    """Return what makes the table of the races of a run whose keys begin with `start`."""
    return lambda run: timings(cases_of(run, start), cell)


def duration(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def unit(factor: float, form: str = ".1f") -> Callable[[Case, float], str]:
    """Return what shows a time times `factor`; microseconds with 1e6."""
    return lambda case, seconds: format(seconds * factor, form)


def speed(case: Case, seconds: float) -> str:
    """Return the MB/s of the bytes of a case."""
    return f"{case.nbytes / seconds / 1e6:,.0f}"


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


def items(texts: dict[str, str]) -> list[str]:
    """Return names and their texts as the lines of a Markdown list."""
    return [
        fill(f"- {name}: {text}", 120, subsequent_indent="  ", break_on_hyphens=False)
        for name, text in texts.items()
    ]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a benchmark.

    Its text is a template in Markdown. The settings of the run fill the fields in braces. A comment
    such as ``<!-- clip -->`` is replaced by the table, the list or the targets of that name; a
    section is left out if the run has nothing for its comments.

    Attributes
    ----------
    file : str
        Name of the page in docs/.
    template : str
        Path of the template, from bench/.
    summary : callable or tuple of str
        Returns the table that the page starts with, at most five lines and a head; or how the
        targets in it begin, each as "work: target".
    tables : dict of str to callable
        Return the tables of a run.
    targets : callable
        Returns the targets of a run.
    lists : tuple of str
        Members of a run that are lists of names and texts.
    """

    file: str
    template: str
    summary: Callable[[Run], Lines] | tuple[str, ...]
    tables: dict[str, Callable[[Run], Lines]]
    targets: Callable[[Run], list[Target]] = lambda run: []
    lists: tuple[str, ...] = ("notes",)

    def render(self, run: Run, show: Callable[[Lines], list[str]]) -> str:
        """Return the page of a run, its tables as `show` has them."""
        about = {name: text for name, text in run["about"].items() if name != "date"}
        head, *targets = target_lines(self.targets(run))
        if isinstance(self.summary, tuple):
            chosen = (
                [line for line in targets if ": ".join(line).startswith(start)]
                for start in self.summary
            )
            summary = [head, *chain.from_iterable(chosen)]
        else:
            summary = self.summary(run)
        targets = [head, *(line for line in targets if line not in summary)]
        tables = {name: make(run) for name, make in self.tables.items()}
        tables |= {"summary": summary, "targets": targets}
        blocks = {name: show(lines) for name, lines in tables.items() if len(lines) > 1}
        blocks |= {name: items(run[name]) for name in self.lists} | {"about": items(about)}
        text = (BENCH / self.template).read_text("utf-8")
        text = text.format(**run["setting"], date=run["about"]["date"])
        sections = []
        for section in text.split("\n## "):
            names = _BLOCK.findall(section)
            if not names or any(name in blocks for name in names):
                sections.append(_BLOCK.sub(lambda at: "\n".join(blocks.get(at[1], ())), section))
        return "\n## ".join(sections)

    def write(self, run: Run, folder: Path) -> Path:
        """Write the page to a folder and return its path."""
        path = folder / self.file
        path.write_text(self.render(run, markdown_table), "utf-8")
        return path

    def text(self, run: Run) -> str:
        """Return all but the introduction for a terminal."""
        return self.render(run, text_table).partition("\n## ")[2]


def target_lines(targets: Iterable[Target]) -> Lines:
    """Return the targets as lines, the head first."""
    lines: Lines = [("work", "target", "found", "met")]
    return lines + [(one.work, one.target, one.found, one.met) for one in targets]


def markdown_table(lines: Lines) -> list[str]:
    """Return the lines of a Markdown table."""
    head, *body = lines
    rule = ("---", *("---:" for _ in head[1:]))
    return [f"| {' | '.join(line)} |" for line in (head, rule, *body)]
