"""Page docs/benchmarks-remote.md: its tables and targets."""

from collections.abc import Callable, Iterable
from functools import partial
from operator import eq, le
from typing import Any

from race.page import (
    Lines,
    Page,
    Run,
    Target,
    at_least,
    by_case,
    cases_of,
    grid,
    judge,
    raced,
    speed,
    with_ratio,
)
from race.races import Case

from remote.cases import COUNTS
from remote.contenders import (
    CLIP,
    HDF5,
    ICECHUNK,
    OBSTORE,
    OPEN,
    OURS,
    ROW,
    SERIES,
    SHARDED,
    STORE,
    TENSORSTORE,
    TILE,
    ZARR,
    ZARRS,
)
from remote.serving import HTTP, S3

_READERS = (
    ZARR,
    SHARDED,
    OBSTORE,
    ZARRS,
    TENSORSTORE,
    ICECHUNK,
)  # that fetch what they are asked for
# Our requests to open, and the additional ones of what is read next.
_NREQUESTS = {OURS: {OPEN: 1, ROW: 1, CLIP: 1}, STORE: {OPEN: 2, CLIP: 1}}


def _requests(server: str) -> Callable[[Run], Lines]:
    """Return what makes the table of requests to a server."""

    def count(found: dict[str, list[int]], name: str) -> str:
        nrequests, nbytes = found[name]
        return f"{nrequests:,} ({nbytes / 1e6:,.2f})"

    def lines(run: Run) -> Lines:
        by_work = run.get(COUNTS, {}).get(server, {})
        return grid("contender", {one["title"]: one["found"] for one in by_work.values()}, count)

    return lines


def _milliseconds(case: Case, seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.1f}"


def _dask(run: Run) -> Lines:
    return by_case("what, codec, scheduler", cases_of(run, "dask/"), with_ratio(speed, ZARR))


def targets_of(run: Run) -> list[Target]:
    """Return a line for each target whose work was run."""
    targets: list[Target] = []
    for server, by_work in run.get(COUNTS, {}).items():
        for name, wanted in _NREQUESTS.items():
            for work, count in wanted.items():
                goal = f"{count} request{'s' * (count > 1)}" + " more" * (work != OPEN)
                targets += _request(by_work[work], name, server, goal, count)
    for case in cases_of(run, "time/"):
        if case.key.removeprefix("time/") in (OPEN, ROW, CLIP, TILE, SERIES):
            targets += _fastest(case, f"{case.title}, time, S3", _READERS, 1.0)
    for case in cases_of(run, "whole"):
        targets += _fastest(case, "whole, S3 of 1 Gbit/s", (*_READERS, HDF5), 0.95)
    for case in cases_of(run, "dask/"):
        targets += at_least(run, f"Dask, {case.title}", case.key, OURS, ZARR, 1.0)
    return targets


def _fastest(case: Case, work: str, others: Iterable[str], times: float) -> list[Target]:
    """Return the target to be `times` as fast as the fastest of the others."""
    ours = case.median(OURS)
    found = {one: seconds for one in others if (seconds := case.median(one)) is not None}
    if ours is None or not found:
        return []
    best = min(found, key=lambda one: found[one])
    goal = f">= {times:g} times the best"
    return judge(f"bloscpack, {work}", goal, {best: found[best] / ours}, partial(le, times))


def _request(
    counted: dict[str, Any], name: str, server: str, goal: str, count: int
) -> list[Target]:
    """Return the target of the requests of one kind of work."""
    found = {"": counted["found"][name][0]} if name in counted["found"] else {}
    work = f"{name}, {counted['title']}, {server}"
    return judge(work, goal, found, partial(eq, count), "{:,}".format)


PAGES = (
    Page(
        "benchmarks-remote.md",
        "remote/page.md",
        (
            f"{OURS}, open, S3",
            f"{OURS}, one row, S3",
            f"{OURS}, one row, time, S3",
            f"{OURS}, whole, S3 of 1 Gbit/s",
            "Dask, write, zstd, threads",
        ),
        {
            **{server: _requests(server) for server in (S3, HTTP)},
            "time": raced("time/", with_ratio(_milliseconds, OURS, is_longer=True, digits=1)),
            "whole": raced("whole", with_ratio(speed, OURS)),
            "dask": _dask,
        },
        targets_of,
        ("notes", "dask_notes"),
    ),
)
