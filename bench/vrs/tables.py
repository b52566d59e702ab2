"""The figures of a run as tables."""

from collections.abc import Callable
from typing import Any

from racepage import Lines, Table, cases_of
from races import Case

from vrs.contender import WHEEL
from vrs.work import FRAME_SIZES, MOTION_SIZES


def all_tables(run: dict[str, Any]) -> list[Table]:
    """Return every table of a run but that of the targets."""
    tables = [
        Table(
            "Records with metadata",
            "Microseconds a record, of opening for the file; in brackets how many times as fast as "
            "the wheel.",
            _timings(cases_of(run, "records/"), _microseconds),
        ),
        Table(
            "All frames",
            "MB/s of pixels; in brackets how many times as fast as the wheel.",
            _timings(cases_of(run, "frames/"), _speed),
        ),
        Table(
            "A frame at random",
            "Microseconds a frame; in brackets how many times as fast as the wheel.",
            _timings(cases_of(run, "frame/"), _microseconds),
        ),
        Table(
            "Writing",
            "Records a second of the motion sensor, and MB/s of frames, with opening and closing.",
            _timings(cases_of(run, "write/"), _written),
        ),
        Table(
            "Sizes of the files of the motion sensor",
            "Bytes a record, with everything that is in the files; in brackets how many times "
            "smaller than the recording.",
            _motion_sizes(run.get(MOTION_SIZES, {}), run["setting"]["nrecords"]),
        ),
        Table(
            "Sizes of the files of frames",
            "Bytes a frame, with everything that is in the files.",
            _frame_sizes(run.get(FRAME_SIZES, {}), run["setting"]["nframes"]),
        ),
    ]
    return [table for table in tables if len(table.lines) > 1]


def _microseconds(case: Case, seconds: float) -> str:
    return f"{seconds * 1e6:.3g}" if seconds < 1e-3 else f"{seconds * 1e6:,.0f}"


def _speed(case: Case, seconds: float) -> str:
    return f"{case.nbytes / seconds / 1e6:,.0f}"


def _written(case: Case, seconds: float) -> str:
    return f"{1 / seconds:,.0f}/s" if case.key == "write/motion" else _speed(case, seconds)


def _timings(cases: list[Case], show: Callable[[Case, float], str]) -> Lines:
    names = dict.fromkeys(name for case in cases for name in case.seconds)
    lines: Lines = [("contender", *(case.title for case in cases))]
    for name in names:
        lines.append((name, *(_timing(case, name, show) for case in cases)))
    for name in dict.fromkeys(name for case in cases for name in case.skipped):
        lines.append((name, *("not there" for _ in cases)))
    return lines


def _timing(case: Case, name: str, show: Callable[[Case, float], str]) -> str:
    seconds, base = case.median(name), case.median(WHEEL)
    if seconds is None:
        return "-"
    ratio = "" if base is None else f" ({base / seconds:.2f})"
    return show(case, seconds) + ratio


def _motion_sizes(sizes: dict[str, float], count: int) -> Lines:
    lines: Lines = [("file", "bytes a record")]
    base = next(iter(sizes.values()), 0.0)
    for name, nbytes in sizes.items():
        lines.append((name, f"{nbytes / count:.1f} ({base / nbytes:.2f})"))
    return lines


def _frame_sizes(sizes: dict[str, dict[str, float]], count: int) -> Lines:
    names = dict.fromkeys(name for found in sizes.values() for name in found)
    lines: Lines = [("bytes a frame", *sizes)]
    for name in names:
        cells = (f"{found[name] / count:,.0f}" for found in sizes.values())
        lines.append((name, *cells))
    return lines
