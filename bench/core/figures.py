"""Page docs/benchmarks.md: its tables."""

from functools import partial

from race.page import Lines, Page, Run, cases_of, duration, speed
from race.races import Case
from race.timing import BARE, ORIGINAL, OURS

from core.cases import BENCHMARK, NEEDED


def ratios(cases: list[Case]) -> Lines:
    """Return our times, and how many times as fast we are as each of the others."""
    lines: Lines = [("case", "best", "median", "MB/s", BARE, "ratio", ORIGINAL, "ratio")]
    for case in cases:
        if OURS not in case.seconds:
            continue
        best = case.best()
        line = [case.title, duration(best[OURS]), duration(case.median(OURS) or 0.0)]
        line.append(speed(case, best[OURS]))
        for who in (BARE, ORIGINAL):
            has = who in best
            line += [speed(case, best[who]), f"{best[who] / best[OURS]:.2f}"] if has else "--"
        lines.append(tuple(line))
    return lines


def _table(work: str, run: Run) -> Lines:
    return ratios(cases_of(run, f"{work} "))


def _small(run: Run) -> Lines:
    """Return the time of each small call, and that of the calls which it needs."""
    lines: Lines = [("call", "time", "what it needs", "time", "ratio")]
    for case in cases_of(run, "small "):
        ours, needed = case.median(OURS) or 0.0, case.median(NEEDED) or 0.0
        needs = case.key.partition(" / ")[2]
        ratio = f"{ours / needed:.2f}"
        lines.append((case.title, duration(ours), needs, duration(needed), ratio))
    return lines


def _summary(run: Run) -> Lines:
    """Return a case of each size and each kind of work."""
    chosen = (
        *("chunk of 1024 KiB, zstd", "chunk of 64 KiB, zstd", "pack 1 KiB float64 blosclz-7"),
        *("pack 80 KB float64 blosclz-7", "unpack 80 KB float64 blosclz-7"),
    )
    return ratios([case for case in cases_of(run) if case.key in chosen])


PAGES = (
    Page(
        "benchmarks.md",
        "core/page.md",
        _summary,
        {work: partial(_table, work) for work in BENCHMARK.work} | {"small": _small},
        lists=(),
    ),
)
