"""The figures of a run as tables."""

from typing import Any

from racepage import Lines, Table, cases_of
from races import Case

from remote.contender import OURS, ZARR
from remote.work import COUNTS


def all_tables(run: dict[str, Any]) -> list[Table]:
    """Return every table of a run but that of the targets."""
    tables = [
        Table(
            f"Requests, {server}",
            "Requests to open; then how many more for what is read through the open handle. In "
            "brackets the MB of the answers' bodies.",
            _counts(by_work),
        )
        for server, by_work in run.get(COUNTS, {}).items()
    ]
    delay = 1e3 * run["setting"]["delay"]
    tables += [
        Table(
            f"Milliseconds, S3 that takes {delay:g} ms to answer",
            "To open; then to read through a handle that was just opened. In brackets how many "
            f"times as long as {OURS} takes.",
            _times(cases_of(run, "time/")),
        ),
        Table(
            "Through Dask",
            "MB/s of decoded bytes; in brackets how many times as fast as zarr without checksums.",
            _speeds(cases_of(run, "dask/")),
        ),
    ]
    return [table for table in tables if len(table.lines) > 1]


def _counts(by_work: dict[str, Any]) -> Lines:
    works = list(by_work.values())
    lines: Lines = [("contender", *(work["title"] for work in works))]
    for name in works[0]["found"]:
        lines.append((name, *(_count(work["found"].get(name)) for work in works)))
    return lines


def _count(found: list[int] | None) -> str:
    if found is None:
        return "-"
    nrequests, nbytes = found
    return f"{nrequests:,} ({nbytes / 1e6:,.2f})"


def _times(cases: list[Case]) -> Lines:
    names = dict.fromkeys(name for case in cases for name in case.seconds)
    lines: Lines = [("contender", *(case.title for case in cases))]
    for name in names:
        lines.append((name, *(_time(case, name) for case in cases)))
    return lines


def _time(case: Case, name: str) -> str:
    seconds, ours = case.median(name), case.median(OURS)
    if seconds is None:
        return "-"
    milliseconds = 1e3 * seconds
    shown = f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.1f}"
    return shown if ours is None or name == OURS else f"{shown} ({seconds / ours:.1f})"


def _speeds(cases: list[Case]) -> Lines:
    names = list(dict.fromkeys(name for case in cases for name in case.seconds))
    lines: Lines = [("what, codec, scheduler", *names)]
    for case in cases:
        lines.append((case.title, *(_speed(case, name) for name in names)))
    return lines


def _speed(case: Case, name: str) -> str:
    seconds, base = case.median(name), case.median(ZARR)
    if seconds is None:
        return "-"
    shown = f"{case.nbytes / seconds / 1e6:,.0f}"
    return shown if base is None or name == ZARR else f"{shown} ({base / seconds:.2f})"
