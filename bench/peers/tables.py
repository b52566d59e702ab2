"""The figures of a run as tables: a column for each race, a line for each contender."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import report
from harness import ORIGINAL, OURS

from peers.race import Case

Lines = list[tuple[str, ...]]

# Title, and how the keys of its races begin.
GROUPS = (
    ("Whole reads", ("read/",)),
    ("Whole writes", ("write/", "synced/")),
    ("All threads against one", ("threads/",)),
    ("Rows at random", ("row/", "first/")),
    ("Blocks, strides, iteration", ("block/", "stride/", "iterate/")),
    ("Files", ("open", "append")),
)


@dataclass(frozen=True, slots=True)
class Table:
    """A title and lines of cells, the head first."""

    title: str
    lines: Lines


def cases_of(run: dict[str, Any]) -> list[Case]:
    """Return the races of a run."""
    return [Case(**entry) for entry in run["cases"]]


def timing_tables(cases: Iterable[Case]) -> list[Table]:
    """Return the tables of all races."""
    cases = list(cases)
    tables = []
    for title, keys in GROUPS:
        chosen = [case for case in cases if case.key.startswith(keys)]
        if chosen:
            tables.append(Table(title, _lines(chosen)))
    return tables


def _lines(cases: list[Case]) -> Lines:
    names = dict.fromkeys(name for case in cases for name in case.seconds)
    lines: Lines = [("contender", *(case.title for case in cases))]
    lines += [(name, *(_cell(case, name) for case in cases)) for name in names]
    absent = dict.fromkeys(name for case in cases for name in case.skipped)
    for name in absent:
        if name not in names:
            lines.append((name, *(_reason(case, name) for case in cases)))
    return lines


def _cell(case: Case, name: str) -> str:
    """Return the median; for others than us, how many times ours it is."""
    median = case.median(name)
    if median is None:
        return _reason(case, name)
    text = report.duration(median)
    if name.startswith(OURS) and name != ORIGINAL:
        return f"{text}, {case.nbytes / median / 1e6:.0f} MB/s" if case.nbytes else text
    ours = case.median(OURS)
    return text if ours is None else f"{text} ({median / ours:.2f})"


def _reason(case: Case, name: str) -> str:
    return case.skipped.get(name, "-")


def text_tables(run: dict[str, Any]) -> list[str]:
    """Return all tables as lines for a terminal."""
    lines = []
    for table in all_tables(run):
        lines += ["", table.title, *report.text_table(table.lines)]
    return [*lines, "", *(f"{name}: {text}" for name, text in run["about"].items())]


def all_tables(run: dict[str, Any]) -> list[Table]:
    """Return every table of a run."""
    return timing_tables(cases_of(run))
