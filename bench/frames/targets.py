"""The figures that are aimed at, and whether a run met them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from racepage import Target, cases_of

from frames.clips import BARE, STORES
from frames.codecs import PNG_CV2, PNG_PILLOW
from frames.contender import (
    BARE_JPEG,
    FFV1,
    GULP_SOURCE,
    GULPIO2,
    GULPIO2_STACKED,
    ONE_THREAD,
    PNG,
    STORE_FAST,
    STORE_JPEG,
    STORE_SMALL,
)
from frames.ingesting import OURS_GULP, OURS_STORE
from frames.opening import OURS

_OTHERS = ("depth, uint16", "mask, uint8", "mask, bool")
_OURS_CODED = ("bloscpack, fast", "bloscpack, small")

# Who, and how many times GulpIO2's frames a second, on all processors or on one thread.
_CLIPS = (
    ("Gulp directory", GULP_SOURCE, 2.0),
    ("store of the same JPEG bytes", STORE_JPEG, 2.1),
    ("store, lossless, fast", STORE_FAST, 8.0),
    ("store, lossless, fast, 1 thread", STORE_FAST + ONE_THREAD, 4.5),
    ("store, lossless, small", STORE_SMALL, 4.0),
    ("store, lossless, small, 1 thread", STORE_SMALL + ONE_THREAD, 2.0),
)
_SIZES = (
    (STORE_SMALL, "animation", 0.8),
    (STORE_SMALL, "static camera", 0.5),
    (STORE_SMALL, "moving camera", 1.0),
    (STORE_FAST, "animation", 1.0),
    (STORE_FAST, "static camera", 1.0),
)
_DECODING = (
    ("bloscpack, small", PNG_CV2, 6.0),
    ("bloscpack, small", FFV1, 30.0),
    ("bloscpack, fast", PNG_CV2, 13.0),
)
_SINGLE = 30e-6  # seconds
_OPEN, _RESIDENT = 0.020, 64e6  # seconds, bytes


def targets_of(run: dict[str, Any]) -> list[Target]:
    """Return a line for each target whose work was run."""
    return [
        *_clips(run),
        *_sizes(run),
        *_decoding(run),
        *_singles(run),
        *_other_pixels(run),
        *_opening(run),
        *_ingest(run),
        *_loading(run),
    ]


def _line(
    work: str,
    target: str,
    found: dict[str, float],
    is_met: Callable[[float], bool],
    show: Callable[[float], str] = "{:.2f}".format,
) -> Iterator[Target]:
    """Yield the line of what was found, by clip; none if nothing was."""
    if not found:
        return
    nmet = sum(map(is_met, found.values()))
    met = {0: "no", len(found): "yes"}.get(nmet, f"{nmet} of {len(found)}")
    shown = ", ".join(f"{clip} {show(value)}".strip() for clip, value in found.items())
    yield Target(work, target, shown, met)


def _ratios(run: dict[str, Any], start: str, ours: str, other: str) -> dict[str, float]:
    """Return how many times as fast as another we are, by clip."""
    found = {}
    for case in cases_of(run, start):
        seconds, base = case.median(ours), case.median(other)
        if seconds is not None and base is not None:
            found[case.key.partition("/")[2]] = base / seconds
    return found


def _clips(run: dict[str, Any]) -> Iterator[Target]:
    for word, name, times in _CLIPS:
        found = _ratios(run, "clip/", name, GULPIO2)
        target = f">= {times:g} times {GULPIO2}"
        lines = _line(f"clips, {word}", target, found, lambda value, times=times: value >= times)
        stacked = _ratios(run, "clip/", name, GULPIO2_STACKED).values()
        for line in lines:
            also = {"of arrays": stacked}
            if name in (GULP_SOURCE, STORE_JPEG):
                also["bare decoding"] = _ratios(run, "clip/", BARE_JPEG, GULPIO2).values()
            texts = [
                f"{what}: {', '.join(f'{value:.2f}' for value in values)}"
                for what, values in also.items()
                if values
            ]
            yield replace(line, found=f"{line.found} ({'; '.join(texts)})") if texts else line


def _sizes(run: dict[str, Any]) -> Iterator[Target]:
    coded = run.get("coded", {})
    for name, clip, share in _SIZES:
        sizes = run.get("sizes", {}).get(clip, {})
        if name not in sizes or PNG not in sizes:
            continue
        found = sizes[name] / sizes[PNG]
        text = f"{found:.3f}"
        if pillow := coded.get(clip, {}).get(PNG_PILLOW):
            text += f" ({sizes[name] / pillow:.3f} of Pillow's)"
        met = "yes" if found <= share else "no"
        yield Target(f"size of {name}, {clip}", f"<= {share:g} of PNG", text, met)


def _decoding(run: dict[str, Any]) -> Iterator[Target]:
    for name, other, times in _DECODING:
        found = _ratios(run, "decode/", name, other)
        for clip in _OTHERS:
            found.pop(clip, None)
        target = f">= {times:g} times {other}"
        work = f"decoding on one thread, {name}"
        yield from _line(work, target, found, lambda value, times=times: value >= times)


def _singles(run: dict[str, Any]) -> Iterator[Target]:
    for name in STORES:
        found = {}
        for case in cases_of(run, "single/"):
            ours, bare = case.median(name), case.median(BARE + name)
            if ours is not None and bare is not None:
                found[case.key.partition("/")[2]] = ours - bare
        yield from _line(
            f"single frame, {name}",
            f"within {_SINGLE * 1e6:g} us of bare decoding",
            found,
            lambda value: value <= _SINGLE,
            lambda value: f"{value * 1e6:+.1f} us",
        )


def _other_pixels(run: dict[str, Any]) -> Iterator[Target]:
    for clip in _OTHERS:
        sizes = run.get("coded", {}).get(clip, {})
        (case, *_) = cases_of(run, f"decode/{clip}") or (None,)
        if case is None:
            continue
        pngs = [name for name in (PNG_CV2, PNG_PILLOW) if name in sizes]
        size = min(sizes[name] for name in pngs)
        seconds = min(case.median(name) or 0.0 for name in pngs)
        for name in _OURS_CODED:
            share, times = sizes[name] / size, seconds / (case.median(name) or 1.0)
            met = "yes" if share < 1 < times else "no"
            text = f"{share:.2f} of the size, {times:.1f} times as fast"
            yield Target(f"{clip}, {name}", "smaller and faster than PNG", text, met)


def _opening(run: dict[str, Any]) -> Iterator[Target]:
    ours = run.get("opening", {}).get(OURS)
    if ours is None:
        return
    work = f"open a store of {100 * run['setting']['nindexed']:,} frames"
    theirs = run["opening"].get(GULPIO2)
    seconds, resident = ours["seconds"], ours["resident"]
    for target, text, key, is_met in (
        (f"<= {_OPEN * 1e3:g} ms", "{:.1f} ms", "seconds", seconds <= _OPEN),
        (f"<= {_RESIDENT / 1e6:g} MB in all", "{:.1f} MB", "resident", resident <= _RESIDENT),
    ):
        scale = 1e3 if key == "seconds" else 1e-6
        found = text.format(ours[key] * scale)
        if theirs is not None:
            found += f" ({GULPIO2}: {text.format(theirs[key] * scale)})"
        yield Target.judged(work, target, found, is_met)


def _ingest(run: dict[str, Any]) -> Iterator[Target]:
    for name in (OURS_STORE, OURS_GULP):
        found = _ratios(run, "ingest", name, GULPIO2)
        target = f">= 3 times {GULPIO2}"
        yield from _line(f"ingest of JPEG images, {name}", target, found, lambda value: value >= 3)


def _loading(run: dict[str, Any]) -> Iterator[Target]:
    loading = run.get("loading", {})
    for name in (STORE_JPEG, STORE_FAST, STORE_SMALL):
        found = {
            method: median(one[GULPIO2]) / median(one[name])
            for method, one in loading.items()
            if isinstance(one, dict) and GULPIO2 in one and name in one
        }
        target = f">= 2 times the same over {GULPIO2}"
        yield from _line(f"DataLoader, {name}", target, found, lambda value: value >= 2)
    if loading:
        stuck = {method: one for method, one in loading.items() if isinstance(one, str)}
        text = "; ".join(f"{method}: {one}" for method, one in stuck.items())
        text = text or f"all finish: {', '.join(loading)}"
        yield Target("DataLoader, ways to start workers", "no hang", text, "no" if stuck else "yes")
