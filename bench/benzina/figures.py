"""Page docs/benchmarks-benzina.md: its tables and targets."""

from functools import partial

from race.page import (
    Lines,
    Page,
    Run,
    Target,
    at_least,
    at_most,
    cases_of,
    raced,
    ratio_of,
    unit,
    with_ratio,
)
from race.races import Case

from benzina.cases import SIZES
from benzina.contenders import BARE, BYTES, OURS, PILLOW

_LOADING, _PACKING = 0.85, 0.9
_TIMES = 3.0
_PARSING = 8e-6  # seconds


def _per_second(case: Case, seconds: float) -> str:
    return f"{1 / seconds:,.0f}" if seconds < 0.01 else f"{1 / seconds:,.1f}"


def _sizes(run: Run) -> Lines:
    lines: Lines = [("form", "bytes a picture", "PSNR")]
    count = run["setting"]["npictures"]
    for name, found in run.get(SIZES, {}).items():
        decibels = f"{found['psnr']:.2f} dB" if "psnr" in found else "-"
        lines.append((name, f"{found['nbytes'] / count:,.0f}", decibels))
    return lines


def targets_of(run: Run) -> list[Target]:
    """Return a line for each target whose work was run."""
    loading, targets = cases_of(run, "load/"), []
    for case in loading:
        targets += at_least(run, f"loader, {case.title}", case.key, OURS, BARE, _LOADING)
    for case in cases_of(run, "index/tables"):
        times, goal = (
            partial(ratio_of, ours=BYTES, other=OURS),
            f"<= {_TIMES:g} times numpy.fromfile",
        )
        targets += at_most(run, f"open with {case.title}", case.key, times, _TIMES, goal)
    targets += at_most(
        run,
        "parse a sample",
        "sample/parse",
        lambda case: case.median(OURS),
        _PARSING,
        f"<= {_PARSING * 1e6:g} us",
        lambda seconds: f"{seconds * 1e6:.2f} us",
    )
    for case in cases_of(run, "pack"):
        targets += at_least(run, f"packing, {case.title}", case.key, OURS, BARE, _PACKING)
    for case in loading:
        if (ratio := ratio_of(case, OURS, PILLOW)) is not None:
            work = f"loader next to {PILLOW}, {case.title}"
            targets.append(Target(work, "none", f"{ratio:.2f}", "-"))
    return targets


PAGES = (
    Page(
        "benchmarks-benzina.md",
        "benzina/page.md",
        ("loader, 2", "open with", "parse a", "packing", f"loader next to {PILLOW}, 2"),
        {
            "load": raced("load/", with_ratio(_per_second, BARE)),
            "index": raced("index/", with_ratio(unit(1e3, ".2f"), BYTES, is_longer=True)),
            "sample": raced("sample/", with_ratio(unit(1e6, ",.2f"), OURS)),
            "pack": raced("pack", with_ratio(_per_second, BARE)),
            "sizes": _sizes,
        },
        targets_of,
    ),
)
