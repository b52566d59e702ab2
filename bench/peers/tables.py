"""The figures of a run as tables: a column for each race, a line for each contender."""

from collections.abc import Iterable
from typing import Any

import report
from harness import ORIGINAL, OURS
from racepage import Lines, Table, cases_of
from races import Case

# Title, and how the keys of its races begin.
GROUPS = (
    ("Whole reads", ("read/",)),
    ("Whole writes", ("write/", "synced/")),
    ("All threads against one", ("threads/",)),
    ("Rows at random", ("row/", "first/")),
    ("Blocks, strides, iteration", ("block/", "stride/", "iterate/")),
    ("Files", ("open", "append")),
)


def timing_tables(cases: Iterable[Case]) -> list[Table]:
    """Return the tables of all races."""
    cases = list(cases)
    tables = []
    for title, keys in GROUPS:
        chosen = [case for case in cases if case.key.startswith(keys)]
        if chosen:
            tables.append(Table(title, "", _lines(chosen)))
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


def size_table(run: dict[str, Any]) -> list[Table]:
    """Return the table of what the files take, if it was measured."""
    sizes = run.get("sizes")
    if not sizes:
        return []
    names = dict.fromkeys(name for found in sizes.values() for name in found)
    lines: Lines = [("bytes stored", *sizes)]
    for name in names:
        cells = []
        for found in sizes.values():
            share = found.get(name, 0) / found[OURS]
            cells.append(f"{found[name]:,} ({share:.3f})" if name in found else "-")
        lines.append((name, *cells))
    return [Table("Sizes", "", lines)]


def memory_table(run: dict[str, Any]) -> list[Table]:
    """Return the table of peak memory, if it was measured."""
    memory = run.get("memory")
    if not memory:
        return []
    lines: Lines = [("MiB above the start", "whole read", "write from a generator")]
    for name in memory["read"]:
        found = [memory[action].get(name) for action in ("read", "write")]
        cells = [
            f"{grown / 2**20:.1f}" if isinstance(grown, int) else str(grown) for grown in found
        ]
        lines.append((name, *cells))
    return [Table("Peak memory", "", lines)]


def damage_tables(run: dict[str, Any]) -> list[Table]:
    """Return the tables of bit flips and of truncation, if they were counted."""
    tables = []
    if flips := run.get("flips"):
        outcomes = [*next(iter(flips.values()))["data"]]
        head = (
            "one flip in a file",
            *(f"{what}, {where}" for where in _WHERE for what in outcomes),
        )
        lines: Lines = [head]
        for name, found in flips.items():
            cells = [str(found[where][what]) for where in _WHERE for what in outcomes]
            lines.append((name, *cells))
        tables.append(Table("Bit flips", "", lines))
    if cut := run.get("truncation"):
        lines = [("60 % of a file", "whole read", "chunks whole", *_CUT.values())]
        for name, found in cut.items():
            chunks = found.get("chunks", {})
            cells = [str(chunks.get(what, "-")) for what in _CUT]
            lines.append((name, found["read"], f"{found['nwhole']} of {found['nchunks']}", *cells))
        tables.append(Table("Truncation", "", lines))
    return tables


_WHERE = ("data", "header")
_CUT = {"right": "read right", "raised": "refused", "wrong": "wrong, no error"}


def all_tables(run: dict[str, Any]) -> list[Table]:
    """Return every table of a run but that of the targets."""
    return [
        *timing_tables(cases_of(run)),
        *size_table(run),
        *memory_table(run),
        *damage_tables(run),
    ]
