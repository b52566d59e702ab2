"""The figures that are aimed at, and whether a run met them."""

from collections.abc import Iterator
from typing import Any

from racepage import Target
from races import Case

from benzina.contender import BARE, BARE_ONE, BYTES, OURS, PILLOW, TORCH

_LOADING, _PACKING = 0.85, 0.9
_TIMES = 3.0
_PARSING = 8e-6  # seconds
_BARE = (BARE, BARE_ONE)


def targets_of(run: dict[str, Any]) -> list[Target]:
    """Return a line for each target whose work was run."""
    cases = {entry["key"]: Case(**entry) for entry in run["cases"]}
    loading = [case for key, case in cases.items() if key.startswith("load/")]
    return [
        *(line for case in loading for line in _next_to_bare("loader", case, _LOADING)),
        *_index(cases),
        *_parsing(cases),
        *(line for line in _next_to_bare("packing", cases.get("pack"), _PACKING)),
        *(line for case in loading for line in _next_to_jpeg(case)),
    ]


def _next_to_bare(work: str, case: Case | None, times: float) -> Iterator[Target]:
    """Compare with the faster one of those that only decode or encode."""
    seconds = None if case is None else case.median(OURS)
    if case is None or seconds is None:
        return
    work, target = f"{work}, {case.title}", f">= {times:g} times PyAV alone"
    found = {one: base for one in _BARE if (base := case.median(one)) is not None}
    if not found:
        yield Target(work, target, "PyAV alone was not raced", "-")
        return
    best = min(found, key=lambda one: found[one])
    ratio = found[best] / seconds
    yield Target.judged(work, target, f"{ratio:.2f} ({best})", ratio >= times)


def _index(cases: dict[str, Case]) -> Iterator[Target]:
    case = cases.get("index/tables")
    if case is None:
        return
    seconds, base = case.median(OURS), case.median(BYTES)
    if seconds is not None and base is not None:
        ratio = seconds / base
        target = f"<= {_TIMES:g} times numpy.fromfile"
        yield Target.judged(f"open with {case.title}", target, f"{ratio:.2f}", ratio <= _TIMES)


def _parsing(cases: dict[str, Case]) -> Iterator[Target]:
    seconds = cases["sample/parse"].median(OURS) if "sample/parse" in cases else None
    if seconds is not None:
        found = f"{seconds * 1e6:.2f} us"
        target = f"<= {_PARSING * 1e6:g} us"
        yield Target.judged("parse a sample", target, found, seconds <= _PARSING)


def _next_to_jpeg(case: Case) -> Iterator[Target]:
    """Say how we do next to JPEG, of which nothing is expected."""
    seconds = case.median(OURS)
    for name in (PILLOW, TORCH):
        base = case.median(name)
        if seconds is not None and base is not None:
            work = f"loader next to {name}, {case.title}"
            yield Target(work, "none", f"{base / seconds:.2f}", "-")
