"""The figures that are aimed at, and whether a run met them."""

from collections.abc import Iterator
from typing import Any

from racepage import Target, cases_of

from remote.contender import CLIP, OPEN, OURS, ROW, STORE, ZARR
from remote.work import COUNTS

_NREQUESTS = {
    OURS: {OPEN: 1, ROW: 1, CLIP: 1},
    STORE: {OPEN: 2, CLIP: 1},
}
"""Requests of ours: to open, and how many more for what is read then."""
_NEXT_TO_ZARR = 1.0


def targets_of(run: dict[str, Any]) -> list[Target]:
    """Return a line for each target whose work was run."""
    return [*_requests(run.get(COUNTS, {})), *_next_to_zarr(run)]


def _requests(counts: dict[str, Any]) -> Iterator[Target]:
    for server, by_work in counts.items():
        for name, wanted in _NREQUESTS.items():
            for work, count in wanted.items():
                found = by_work[work]["found"].get(name)
                if found is None:
                    continue
                title = by_work[work]["title"]
                target = f"{count} request{'s' * (count > 1)}" + " more" * (work != OPEN)
                yield Target.judged(
                    f"{name}, {title}, {server}", target, f"{found[0]:,}", found[0] == count
                )


def _next_to_zarr(run: dict[str, Any]) -> Iterator[Target]:
    for case in cases_of(run, "dask/"):
        seconds, base = case.median(OURS), case.median(ZARR)
        if seconds is not None and base is not None:
            ratio = base / seconds
            target = f">= {_NEXT_TO_ZARR:g} times {ZARR}"
            is_met = ratio >= _NEXT_TO_ZARR
            yield Target.judged(f"Dask, {case.title}", target, f"{ratio:.2f}", is_met)
