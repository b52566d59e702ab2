"""Table of ``make bench``: our figures, and how many times as fast we are as each contender."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from race.page import duration
from race.timing import BARE, ORIGINAL, OURS

CONTENDERS = (OURS, BARE, ORIGINAL)
HEAD = ("case", "best", "median", "MB/s", BARE, "ratio", ORIGINAL, "ratio")


@dataclass(frozen=True, slots=True)
class Row:
    """One contender in one case; times are seconds per call, each of `nbytes` decoded bytes."""

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
        times = (stats["min"], stats["median"], stats["rounds"])
        return cls(info["case"], info["who"], info["nbytes"], *times)

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
