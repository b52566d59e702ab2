"""The figures of a run as tables."""

from collections.abc import Callable
from typing import Any

from racepage import Lines, Table, cases_of
from races import Case

from benzina.contender import BARE, BYTES, OURS
from benzina.work import SIZES

Show = Callable[[float], str]


def all_tables(run: dict[str, Any]) -> list[Table]:
    """Return every table of a run but that of the targets."""
    tables = [
        Table(
            "Loading",
            f"Pictures a second; in brackets how many times as fast as {BARE}, which makes no "
            "batches.",
            _timings(cases_of(run, "load/"), BARE, _per_second),
        ),
        Table(
            "A large index",
            "Milliseconds; in brackets how many times as long as reading the same bytes.",
            _timings(cases_of(run, "index/"), BYTES, _milliseconds, is_longer=True),
        ),
        Table(
            "One sample",
            f"Microseconds; in brackets how many times as fast as {OURS}.",
            _timings(cases_of(run, "sample/"), OURS, _microseconds),
        ),
        Table(
            "Packing",
            f"Pictures a second on all processors; in brackets how many times as fast as {BARE}, "
            "which writes no file.",
            _timings(cases_of(run, "pack"), BARE, _per_second),
        ),
        Table(
            "Sizes",
            "Bytes a picture, with everything that is in the files.",
            _sizes(run),
        ),
    ]
    return [table for table in tables if len(table.lines) > 1]


def _per_second(seconds: float) -> str:
    return f"{1 / seconds:,.0f}" if seconds < 0.01 else f"{1 / seconds:,.1f}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}"


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.2f}"


def _timings(cases: list[Case], base: str, show: Show, *, is_longer: bool = False) -> Lines:
    names = dict.fromkeys(name for case in cases for name in case.seconds)
    lines: Lines = [("contender", *(case.title for case in cases))]
    for name in names:
        lines.append((name, *(_timing(case, name, base, show, is_longer) for case in cases)))
    return lines


def _timing(case: Case, name: str, base: str, show: Show, is_longer: bool) -> str:
    seconds, other = case.median(name), case.median(base)
    if seconds is None:
        return "-"
    if other is None:
        return show(seconds)
    ratio = seconds / other if is_longer else other / seconds
    return f"{show(seconds)} ({ratio:.2f})"


def _sizes(run: dict[str, Any]) -> Lines:
    lines: Lines = [("form", "bytes a picture", "PSNR")]
    count = run["setting"]["npictures"]
    for name, found in run.get(SIZES, {}).items():
        decibels = f"{found['psnr']:.2f} dB" if "psnr" in found else "-"
        lines.append((name, f"{found['nbytes'] / count:,.0f}", decibels))
    return lines
