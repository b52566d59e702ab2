"""The figures of a run as a table: ours, and how many times as fast as each other contender."""

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import BARE, NTHREADS, ORIGINAL, OURS

import bloscpack
from bloscpack.format.codec import BLOSC_VERSION
from bloscpack.parallel.threads import available_cpus

HEAD = ("case", "best", "median", "MB/s", BARE, "ratio", ORIGINAL, "ratio")


@dataclass(frozen=True, slots=True)
class Row:
    """One contender in one case.

    Attributes
    ----------
    case, who : str
        What was done and by whom.
    nbytes : int
        Decoded bytes a call handles.
    best, median : float
        Seconds a call.
    rounds : int
        How many there were.
    """

    case: str
    who: str
    nbytes: int
    best: float
    median: float
    rounds: int

    @classmethod
    def of_json(cls, entry: dict[str, Any]) -> "Row":
        """Return the row of an entry under ``benchmarks`` in pytest-benchmark's JSON."""
        info, stats = entry["extra_info"], entry["stats"]
        return cls(
            info["case"],
            info["who"],
            info["nbytes"],
            stats["min"],
            stats["median"],
            stats["rounds"],
        )

    @property
    def speed(self) -> str:
        """MB/s of decoded bytes, by the best round."""
        return f"{self.nbytes / self.best / 1e6:.0f}"


def cells(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return the lines of the table, one for each case, the head first."""
    cases: dict[str, dict[str, Row]] = {}
    for row in rows:
        cases.setdefault(row.case, {})[row.who] = row
    lines = [HEAD]
    for case, by_who in cases.items():
        ours = by_who.get(OURS)
        if ours is None:
            continue
        line = [case, duration(ours.best), duration(ours.median), ours.speed]
        for who in (BARE, ORIGINAL):
            peer = by_who.get(who)
            line += [peer.speed, f"{peer.best / ours.best:.2f}"] if peer else ["-", "-"]
        lines.append(tuple(line))
    return lines


def duration(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def text_table(lines: list[tuple[str, ...]]) -> list[str]:
    """Return the lines aligned, for a terminal."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]


def markdown_table(lines: list[tuple[str, ...]]) -> list[str]:
    """Return the lines as a Markdown table."""
    head, *body = lines
    rule = ("---", *("---:" for _ in head[1:]))
    return ["| " + " | ".join(line) + " |" for line in (head, rule, *body)]


def surroundings(original: dict[str, str] | str) -> dict[str, str]:
    """Return machine, versions and parameters in words; `original`: its versions, or why not."""
    if isinstance(original, str):
        peer = f"not run: {original}"
    else:
        peer = ", ".join(f"{name} {number}" for name, number in original.items())
    return {
        "machine": f"{_processor()}, {available_cpus()} processors, {platform.system()}",
        "threads": str(NTHREADS),
        "versions": f"bloscpack {bloscpack.__version__}, C-Blosc {BLOSC_VERSION}, "
        f"python-blosc {version('blosc')}, numpy {version('numpy')}, "
        f"Python {platform.python_version()}",
        ORIGINAL: peer,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
