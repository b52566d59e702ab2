"""The figures of a run as tables."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from races import Case

from frames.codecs import PNG_CV2
from frames.contender import GULPIO2, PNG

Lines = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Table:
    """A title, how to read it, and lines of cells, the head first."""

    title: str
    about: str
    lines: Lines


def cases_of(run: dict[str, Any], start: str = "") -> list[Case]:
    """Return the races of a run whose keys begin so."""
    return [Case(**entry) for entry in run["cases"] if entry["key"].startswith(start)]


def all_tables(run: dict[str, Any]) -> list[Table]:
    """Return every table of a run but that of the targets."""
    tables = [
        Table(
            "Clips: many frames with a stride",
            "Microseconds a frame; in brackets how many times as fast as GulpIO2.",
            _timings(cases_of(run, "clip/"), GULPIO2),
        ),
        Table(
            "A single frame at random",
            "Microseconds. `bare decoding` is that of the same chunks from memory, to new memory, "
            "without a checksum.",
            _timings(cases_of(run, "single/"), None),
        ),
        Table(
            "Sizes of the files",
            "Bytes a frame, with everything that is in the files; in brackets the share of PNG.",
            _sizes(run.get("sizes", {}), PNG),
        ),
        Table(
            "Decoding alone",
            "Microseconds a frame on one thread, from memory to memory; in brackets how many times "
            "as fast as PNG by OpenCV, which leaves channels as blue, green, red.",
            _timings(cases_of(run, "decode/"), PNG_CV2),
        ),
        Table(
            "Encoding alone",
            "Microseconds a frame on one thread; in brackets how many times as fast as PNG. The "
            "filters of ours are chosen before, in 1 to 10 ms a clip.",
            _timings(cases_of(run, "encode/"), PNG_CV2),
        ),
        Table(
            "Sizes of the codecs alone",
            "Bytes a frame; in brackets the share of PNG.",
            _sizes(run.get("coded", {}), PNG_CV2),
        ),
        Table(
            "Opening",
            f"{100 * run['setting']['nindexed']:,} frames in {run['setting']['nindexed']:,} clips; "
            "medians of fresh processes.",
            _opening(run.get("opening", {})),
        ),
        Table(
            "Ingest of JPEG images",
            "Microseconds an image, two processes; in brackets how many times as fast as GulpIO2.",
            _timings(cases_of(run, "ingest"), GULPIO2),
        ),
        Table(
            "Loading by torch's DataLoader",
            "Microseconds a frame, two workers; in brackets how many times as fast as GulpIO2.",
            _loading(run.get("loading", {})),
        ),
    ]
    return [table for table in tables if len(table.lines) > 1]


def _timings(cases: list[Case], base: str | None) -> Lines:
    names = dict.fromkeys(name for case in cases for name in case.seconds)
    lines: Lines = [("contender", *(case.title for case in cases))]
    for name in names:
        lines.append((name, *(_timing(case, name, base) for case in cases)))
    for name in dict.fromkeys(name for case in cases for name in case.skipped):
        if name in (GULPIO2, PNG):
            lines.append((name, *("not there" for _ in cases)))
    return lines


def _timing(case: Case, name: str, base: str | None) -> str:
    found = case.median(name)
    if found is None:
        return "-"
    return _with_ratio(found * 1e6, None if base is None else case.median(base))


def _with_ratio(microseconds: float, base: float | None) -> str:
    text = f"{microseconds:.1f}"
    return text if base is None else f"{text} ({base / microseconds * 1e6:.2f})"


def _sizes(sizes: dict[str, dict[str, float]], base: str) -> Lines:
    lines: Lines = [("bytes a frame", *sizes)]
    for name in _names(sizes.values()):
        lines.append((name, *(_size(found, name, base) for found in sizes.values())))
    return lines


def _size(found: dict[str, float], name: str, base: str) -> str:
    if name not in found:
        return "-"
    share = f" ({found[name] / found[base]:.3f})" if base in found else ""
    return f"{found[name]:,.0f}{share}"


def _names(found: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for one in found for name in one))


_OPENING: dict[str, tuple[str, Callable[[float], str]]] = {
    "seconds": ("open, ms", lambda value: f"{value * 1e3:.1f}"),
    "first": ("then the first frame, ms", lambda value: f"{value * 1e3:.1f}"),
    "grown": ("memory it takes, MB", lambda value: f"{value / 1e6:.1f}"),
    "resident": ("memory of the process, MB", lambda value: f"{value / 1e6:.1f}"),
}


def _opening(found: dict[str, dict[str, float]]) -> Lines:
    lines: Lines = [("contender", *(head for head, _ in _OPENING.values()))]
    for name, one in found.items():
        lines.append((name, *(show(one[what]) for what, (_, show) in _OPENING.items())))
    return lines


def _loading(found: dict[str, dict[str, list[float]] | str]) -> Lines:
    lines: Lines = [("contender", *found)]
    for name in _names(one for one in found.values() if isinstance(one, dict)):
        lines.append((name, *(_loaded(one, name) for one in found.values())))
    return lines


def _loaded(found: dict[str, list[float]] | str, name: str) -> str:
    if isinstance(found, str):
        return found
    if name not in found:
        return "-"
    base = median(found[GULPIO2]) if GULPIO2 in found else None
    return _with_ratio(median(found[name]) * 1e6, base)
