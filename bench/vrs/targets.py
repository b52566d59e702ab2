"""The figures that are aimed at, and whether a run met them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from racepage import Target
from races import Case

from vrs.contender import MCAP, OURS, OURS_ARRAYS, WHEEL
from vrs.work import MOTION_SIZES, PRESETS, RECORDING, STORE

_SMALL_RECORDS = 100_000  # a second
_SMALLER = 3.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as another we are to be in a race.

    Attributes
    ----------
    work : str
        In words.
    key : str
        The race.
    ours, other : str
        The contenders.
    times : float
        The target.
    """

    work: str
    key: str
    ours: str
    other: str
    times: float


_RATIOS = (
    Ratio("all records with metadata", "records/all", OURS, WHEEL, 0.7),
    Ratio("one field of all records as an array", "records/field", OURS, WHEEL, 10.0),
    Ratio("a record at random with metadata", "records/random", OURS, WHEEL, 0.5),
    Ratio("raw frames", "frames/none", OURS, WHEEL, 0.9),
    *(
        Ratio(f"frames of {PRESETS[preset]}, arrays", f"frames/{preset}", OURS_ARRAYS, WHEEL, 1.5)
        for preset in ("zfast", "zmedium")
    ),
    Ratio("write raw frames", "write/none", OURS, MCAP, 0.9),
)


def targets_of(run: dict[str, Any]) -> list[Target]:
    """Return a line for each target whose work was run."""
    cases = {entry["key"]: Case(**entry) for entry in run["cases"]}
    return [
        *(target for ratio in _RATIOS for target in _ratio(cases, ratio)),
        *_writing(cases),
        *_size(run),
    ]


def _ratio(cases: dict[str, Case], ratio: Ratio) -> Iterator[Target]:
    if ratio.key not in cases:
        return
    target = f">= {ratio.times:g} times {ratio.other}"
    case = cases[ratio.key]
    seconds, base = case.median(ratio.ours), case.median(ratio.other)
    if base is None:
        yield Target(ratio.work, target, f"{ratio.other} is not there", "-")
    elif seconds is not None:
        found = base / seconds
        yield Target.judged(ratio.work, target, f"{found:.2f}", found >= ratio.times)


def _writing(cases: dict[str, Case]) -> Iterator[Target]:
    seconds = cases["write/motion"].median(OURS) if "write/motion" in cases else None
    if seconds is not None:
        found = 1 / seconds
        met = "yes" if found >= _SMALL_RECORDS else "no"
        target = f">= {_SMALL_RECORDS:,} a second"
        yield Target("write small records", target, f"{found:,.0f}", met)


def _size(run: dict[str, Any]) -> Iterator[Target]:
    if MOTION_SIZES not in run:
        return
    sizes = run[MOTION_SIZES]
    work, target = "size of a store of the motion sensor", f">= {_SMALLER:g} times smaller than VRS"
    if STORE not in sizes or RECORDING not in sizes:
        yield Target(work, target, "the conversion is not there", "-")
        return
    found = sizes[RECORDING] / sizes[STORE]
    yield Target(work, target, f"{found:.2f}", "yes" if found >= _SMALLER else "no")
