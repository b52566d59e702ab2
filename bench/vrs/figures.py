"""Page docs/benchmarks-vrs.md: its tables and targets."""

from functools import partial
from operator import le

from race.page import (
    Lines,
    Page,
    Run,
    Target,
    at_least,
    figures,
    grid,
    judge,
    raced,
    speed,
    with_ratio,
)
from race.races import Case

from vrs.cases import FRAME_SIZES, MOTION_SIZES, PRESETS, RECORDING, STORE
from vrs.contenders import MCAP, OURS, OURS_ARRAYS, WHEEL

_SMALL_RECORDS = 100_000  # per second
_SMALLER = 3.0
# Work, race, our contender, the other one, and how many times as fast we are to be.
_RATIOS = (
    ("all records with metadata", "records/all", OURS, WHEEL, 0.7),
    ("one field of all records as an array", "records/field", OURS, WHEEL, 10.0),
    ("a record at random with metadata", "records/random", OURS, WHEEL, 0.5),
    ("raw frames", "frames/none", OURS, WHEEL, 0.9),
    (f"frames of {PRESETS['zfast']}, arrays", "frames/zfast", OURS_ARRAYS, WHEEL, 1.5),
    (f"frames of {PRESETS['zmedium']}, arrays", "frames/zmedium", OURS_ARRAYS, WHEEL, 1.5),
    ("write raw frames", "write/none", OURS, MCAP, 0.9),
)


def _microseconds(case: Case, seconds: float) -> str:
    return f"{seconds * 1e6:.3g}" if seconds < 1e-3 else f"{seconds * 1e6:,.0f}"


def _written(case: Case, seconds: float) -> str:
    return f"{1 / seconds:,.0f}/s" if case.key == "write/motion" else speed(case, seconds)


def _records_per_second(case: Case) -> float | None:
    return 1 / seconds if (seconds := case.median(OURS)) else None


def _motion_sizes(run: Run) -> Lines:
    sizes, count = run.get(MOTION_SIZES, {}), run["setting"]["nrecords"]
    base = next(iter(sizes.values()), 0.0)
    lines: Lines = [("file", "bytes a record")]
    for name, nbytes in sizes.items():
        lines.append((name, f"{nbytes / count:.1f} ({base / nbytes:.2f})"))
    return lines


def _frame_sizes(run: Run) -> Lines:
    count = run["setting"]["nframes"]
    sizes = run.get(FRAME_SIZES, {})
    return grid("bytes a frame", sizes, lambda found, name: f"{found[name] / count:,.0f}")


def targets_of(run: Run) -> list[Target]:
    """Return a line for each target whose work was run."""
    targets = [target for row in _RATIOS for target in at_least(run, *row)]
    written = figures(run, "write/motion", _records_per_second)
    goal = f">= {_SMALL_RECORDS:,} a second"
    targets += judge(
        "write small records", goal, written, partial(le, _SMALL_RECORDS), "{:,.0f}".format
    )
    sizes = run.get(MOTION_SIZES, {})
    smaller = {"": sizes[RECORDING] / sizes[STORE]} if {RECORDING, STORE} <= sizes.keys() else {}
    work, goal = "size of a store of the motion sensor", f">= {_SMALLER:g} times smaller than VRS"
    return targets + judge(work, goal, smaller, partial(le, _SMALLER))


PAGES = (
    Page(
        "benchmarks-vrs.md",
        "vrs/page.md",
        (
            "all records",
            "raw frames",
            f"frames of {PRESETS['zfast']}",
            "write raw frames",
            "size of a store",
        ),
        {
            "records": raced("records/", with_ratio(_microseconds, WHEEL)),
            "frames": raced("frames/", with_ratio(speed, WHEEL)),
            "frame": raced("frame/", with_ratio(_microseconds, WHEEL)),
            "write": raced("write/", with_ratio(_written, WHEEL)),
            "motion_sizes": _motion_sizes,
            "frame_sizes": _frame_sizes,
        },
        targets_of,
    ),
)
