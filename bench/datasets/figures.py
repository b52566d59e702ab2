"""Page docs/benchmarks-datasets.md: its tables and targets."""

from operator import ge

from race.page import (
    Lines,
    Page,
    Run,
    Target,
    at_least,
    at_most,
    cases_of,
    judge,
    raced,
    with_ratio,
)
from race.races import Case

from datasets.contenders import HDF5, OURS, PLAIN, PLAIN_ZARR, RAW, SCAN, ZARR


def _milliseconds(case: Case, seconds: float) -> str:
    return f"{1e3 * seconds:.1f}" if seconds >= 0.01 else f"{1e3 * seconds:.2f}"


def _sizes(run: Run) -> Lines:
    found = run.get("appended", {})
    names = dict.fromkeys(name for sizes in found.values() for name in sizes)
    lines: Lines = [("contender", *(f"{size}, 4 days, MB" for size in found))] if found else []
    return lines + [
        (name, *(f"{sizes[name] / 1e6:.2f}" for sizes in found.values())) for name in names
    ]


def _scans(run: Run) -> Lines:
    found = run.get(SCAN, {})
    lines: Lines = [("contender", "requests", "MB")] if found else []
    return lines + [(name, f"{n:,}", f"{nbytes / 1e6:.3f}") for name, (n, nbytes) in found.items()]


def _statistics(run: Run) -> Lines:
    found = run.get("statistics", {})
    lines: Lines = [("array", "zstd-3, MB/s", "more processor time")] if found else []
    return lines + [
        (name, f"{nbytes / plain / 1e6:,.0f}", f"{both / plain - 1:.1%}")
        for name, (nbytes, plain, both) in found.items()
    ]


def targets_of(run: Run) -> list[Target]:
    """Return a line for each target whose work was run."""
    targets: list[Target] = []
    for case in cases_of(run, "append/"):
        for other, times in ((ZARR, 3.0), (RAW, 1.5)):
            targets += at_least(run, case.title, case.key, OURS, other, times)
    for part, limit in (("point", 0.37), ("map", 0.49)):

        def share(case: Case, ours: str = PLAIN) -> float | None:
            ours_seconds, theirs = case.median(ours), case.median(HDF5)
            return None if ours_seconds is None or theirs is None else ours_seconds / theirs

        for where in ("disk", "S3"):
            for how in ("open, ", ""):
                goal = f"<= {limit:g} of the time of {HDF5}"
                start = f"read/{where}, {how}{part}"
                targets += at_most(run, start.removeprefix("read/"), start, share, limit, goal)
    if scans := run.get(SCAN):
        share_of_zarr = {"": scans[PLAIN][1] / scans[PLAIN_ZARR][1]}
        goal = "<= 0.05 of the bytes that zarr reads"
        targets += judge("scan of 1 % of the chunks", goal, share_of_zarr, lambda x: x <= 0.05)
    costs = {name: both / plain - 1 for name, (_, plain, both) in run.get("statistics", {}).items()}
    goal = "<= 2 % of compressing by zstd-3"
    return targets + judge("statistics", goal, costs, lambda x: ge(0.02, x), "{:.1%}".format)


PAGES = (
    Page(
        "benchmarks-datasets.md",
        "datasets/page.md",
        ("append 5 x 24 x 180 x 360", "disk, open, ", "scan"),
        {
            "append": raced("append/", with_ratio(_milliseconds, OURS, is_longer=True)),
            "size": _sizes,
            "disk": raced("read/disk", with_ratio(_milliseconds, HDF5, is_longer=True)),
            "S3": raced("read/S3", with_ratio(_milliseconds, HDF5, is_longer=True)),
            "scan": _scans,
            "statistics": _statistics,
        },
        targets_of,
    ),
)
