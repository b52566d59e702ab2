"""Page docs/benchmarks-arrays.md: its tables."""

from collections.abc import Callable, Iterable
from statistics import geometric_mean
from typing import Any

from race.page import Lines, Page, Run, by_case, cases_of, duration
from race.races import Case
from race.timing import OURS

from arrays.contenders import AUTO, BLOSC2, JPEGXL, PCODEC, ZARR

_DEFAULTS, _PEERS = f"{BLOSC2} or {ZARR}", "smallest other"
_BASES = (OURS, _DEFAULTS, PCODEC, JPEGXL, _PEERS)


class Figures:
    """Sizes and times of whole arrays, by array and contender."""

    def __init__(self, run: Run) -> None:
        self.arrays: dict[str, Any] = run["arrays"]
        self.sizes: dict[str, dict[str, float]] = {
            name: dict(found) for name, found in run.get("sizes", {}).items()
        }
        cases = {case.key: case.best() for case in cases_of(run)}
        self.reads = {name: cases[f"read/{name}"] for name in self.sizes}
        self.writes = {name: cases[f"write/{name}"] for name in self.sizes}
        self.names = [*dict.fromkeys(one for found in self.sizes.values() for one in found)]
        self.peers = [one for one in self.names if one not in (OURS, AUTO)]
        measured = [name for name in self.sizes if self.arrays[name]["is_measured"]]
        self.chosen = measured or [*self.sizes]
        for found in self.sizes.values():
            for label, names in ((_DEFAULTS, (BLOSC2, ZARR)), (_PEERS, self.peers)):
                if sizes := [found[one] for one in names if one in found]:
                    found[label] = min(sizes)

    def ratio(self, table: dict[str, Any], one: str, base: str, names: Iterable[str]) -> str:
        """Return the mean of `one` over `base` among the arrays of which both have a figure."""
        both = [table[name] for name in names if {one, base} <= table[name].keys()]
        return f"{geometric_mean(found[one] / found[base] for found in both):.2f}" if both else "-"

    def speed(self, table: dict[str, Any], one: str, names: Iterable[str]) -> str:
        """Return the mean of the MB/s of decoded bytes."""
        taken = [name for name in names if one in table[name]]
        speeds = (self.arrays[name]["nbytes"] / table[name][one] / 1e6 for name in taken)
        return f"{geometric_mean(speeds):,.0f}" if taken else "-"

    def contenders(self) -> Lines:
        """Return a line for each contender, over the measured arrays that it stored."""
        heads = ("arrays", "size", f"size of {AUTO}", "read", f"read by {AUTO}", "write")
        lines: Lines = [("contender", *heads)]
        for one in (*self.names, _DEFAULTS, _PEERS):
            if taken := [name for name in self.chosen if one in self.sizes[name]]:
                line = [one, str(len(taken)), self.ratio(self.sizes, one, OURS, taken)]
                line += [self.ratio(self.sizes, AUTO, one, taken)]
                line += [self.speed(self.reads, name, taken) for name in (one, AUTO)]
                lines.append((*line, self.speed(self.writes, one, taken)))
        return lines

    def kinds(self) -> Lines:
        """Return a line for each kind of data."""
        lines: Lines = [("kind", "arrays", *_BASES, "read, MB/s", "read", "write")]
        for group in dict.fromkeys(self.arrays[name]["kind"] for name in self.sizes):
            names = [name for name in self.sizes if self.arrays[name]["kind"] == group]
            line = [group, str(len(names))]
            line += [self.ratio(self.sizes, AUTO, base, names) for base in _BASES]
            line += [self.speed(self.reads, AUTO, names)]
            line += [self.ratio(table, OURS, AUTO, names) for table in (self.reads, self.writes)]
            lines.append(tuple(line))
        return lines

    def each(self) -> Lines:
        """Return a line for each array."""
        lines: Lines = [("array", "dtype, shape", OURS, AUTO, _PEERS, "read", f"read, {AUTO}")]
        for name, found in self.sizes.items():
            others = {size: one for one, size in found.items() if one in self.peers}
            times = {one: self.arrays[name]["nbytes"] / size for one, size in found.items()}
            line = [name, self.arrays[name]["about"]]
            line += [f"{times[one]:.2f}" if one in times else "-" for one in (OURS, AUTO)]
            line += [f"{times[_PEERS]:.2f}, {others[found[_PEERS]]}" if _PEERS in times else "-"]
            line += [self.speed(self.reads, one, [name]) for one in (OURS, AUTO)]
            lines.append(tuple(line))
        return lines


def _parts(head: str, start: str, base: str) -> Callable[[Run], Lines]:
    """Return what makes the table of times, over those of `base`, and of bytes read."""

    def lines(run: Run) -> Lines:
        def part(case: Case, name: str) -> str:
            seconds, other = case.median(name), case.median(base)
            if seconds is None or other is None:
                return "-"
            kilobytes = run["nread"][case.key][name] / 1e3
            return f"{duration(seconds)} ({seconds / other:.2f}), {kilobytes:,.1f} KB"

        return by_case(head, cases_of(run, start), part)

    return lines


def _summary(run: Run) -> Lines:
    head, *lines = Figures(run).contenders()
    return [head, *(line for line in lines if line[0] in (OURS, AUTO, BLOSC2, ZARR, _PEERS))]


PAGES = (
    Page(
        "benchmarks-arrays.md",
        "arrays/page.md",
        _summary,
        {
            "contenders": lambda run: Figures(run).contenders(),
            "kinds": lambda run: Figures(run).kinds(),
            "each": lambda run: Figures(run).each(),
            "rows": _parts("array, row", "row/", OURS),
            "cube": _parts("part", "cube/", AUTO),
        },
    ),
)
