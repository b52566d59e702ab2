"""Pages docs/benchmarks-frames.md and docs/benchmarks-loading.md: their tables and targets."""

from dataclasses import replace
from functools import partial
from operator import ge, le

from race.page import (
    Cell,
    Lines,
    Page,
    Run,
    Target,
    at_least,
    at_most,
    cases_of,
    figures,
    grid,
    judge,
    raced,
    ratio_of,
    timings,
    unit,
    with_ratio,
)
from race.races import Case

from frames import contenders as who
from frames.cases import BARE, JPEG_420
from frames.codecs import FAST, PNG_CV2, PNG_PILLOW, SMALL
from frames.ingesting import OURS_GULP, OURS_STORE
from frames.opening import OURS

VIDEO = who.STORE_VIDEO + who.ONE_THREAD
_OTHERS = ("depth, uint16", "mask, uint8", "mask, bool")
# Label, contender, and how many times GulpIO2's frames per second it is to read.
_CLIPS = (
    ("Gulp directory", who.GULP_SOURCE, 2.0),
    ("store of the same JPEG bytes", who.STORE_JPEG, 2.1),
    ("store, lossless, fast, all processors", who.STORE_FAST, 10.0),
    ("store, lossless, fast, 1 thread", who.STORE_FAST + who.ONE_THREAD, 4.5),
    ("store, lossless, small", who.STORE_SMALL, 4.0),
    ("store, lossless, small, 1 thread", who.STORE_SMALL + who.ONE_THREAD, 2.0),
)
# Store, clip, and the largest share of the bytes of PNG.
_SIZES = (
    (who.STORE_SMALL, "animation", 0.8),
    (who.STORE_SMALL, "static camera", 0.5),
    (who.STORE_SMALL, "moving camera", 1.0),
    (who.STORE_FAST, "animation", 1.0),
    (who.STORE_FAST, "static camera", 1.0),
)
_DECODING = ((SMALL, PNG_CV2, 6.0), (SMALL, who.FFV1, 30.0), (FAST, PNG_CV2, 13.0))
_SINGLE = 30e-6  # seconds
# Processor time: work, races, contender, other, and the largest share of the other's.
_PROCESSOR = (
    ("clips", "clip/", who.STORE_RAW, who.MEMMAP, 1.3),
    ("single frame", "single/", who.STORE_RAW, who.MEMMAP, 1.3),
    ("batch", "batch/", who.STORE_RAW, who.MEMMAP, 1.3),
    ("clips", "clip/", VIDEO, who.TORCHCODEC, 0.9),
    ("clips", "clip/", VIDEO, who.PYAV, 0.6),
    ("single frame", "single/", VIDEO, who.TORCHCODEC, 1.0),
)
# The largest share of the bytes of an mp4 file, and of JPEG of the same PSNR.
_VIDEO_SIZES = ((who.TORCHCODEC, "the mp4 files", 1.03), (JPEG_420, JPEG_420, 0.22))
_INGEST = ((OURS_STORE, 3.0), (OURS_GULP, 3.0))
# Loaders: contender, other, and how many times its frames per second.
_LOADERS = (
    *((name, who.GULPIO2, 2.0) for name in who.STORES),
    (who.STORE_FAST, who.MEMMAP, 1.5),
    (who.STORE_JPEG, who.LITDATA_JPEG, 1.3),
    (who.STORE_JPEG, who.LANCE_JPEG, 1.3),
)
_EPISODES = ((who.STORE_JPEG, who.LANCE_JPEG, 1.3), (who.STORE_FAST, who.HDF5_RAW, 1.3))
_OPEN, _RESIDENT = 0.020, 64e6  # seconds, bytes


def _with_processor(base: str | None) -> Cell:
    """Return a cell of the median with its ratio to another's, and the processor time."""
    shown = with_ratio(unit(1e6), base)

    def cell(case: Case, name: str) -> str:
        seconds = case.processor.get(name)
        return shown(case, name) + (f", {seconds * 1e6:.1f}" if seconds is not None else "")

    return cell


def _size_lines(key: str, base: str, run: Run) -> Lines:
    def size(found: dict[str, float], name: str) -> str:
        share = f" ({found[name] / found[base]:.3f})" if base in found else ""
        return f"{found[name]:,.0f}{share}"

    return grid("bytes a frame", run.get(key, {}), size)


def _episode_lines(run: Run) -> Lines:
    """Return windows per second and, for each kind of episodes, bytes per image."""
    rate = with_ratio(lambda case, seconds: f"{1 / seconds:,.1f}", who.LANCE_JPEG)
    cases = cases_of(run, "episodes/")
    head, *lines = timings(cases, rate)
    sizes = [run["episodes"][case.title] for case in cases]
    return [
        (*head, *(f"{case.title}, bytes an image" for case in cases)),
        *((*line, *(f"{found[line[0]]:,.0f}" for found in sizes)) for line in lines),
    ]


def _qualities(run: Run) -> Lines:
    return grid("pixels", run.get("psnr", {}), lambda found, name: f"{found[name]:.2f}")


def _memory(run: Run) -> Lines:
    def memory(found: dict[str, dict[str, int]], name: str) -> str:
        main, worker = (found[name][which] / 1e6 for which in ("main", "worker"))
        return f"{main:.0f}, {worker:.0f}" if worker else f"{main:.0f}"

    return grid("contender", run.get("memory", {}), memory)


# Heads, and factors from seconds to milliseconds or from bytes to megabytes.
_OPENING = {
    "seconds": ("open, ms", 1e3),
    "first": ("then the first frame, ms", 1e3),
    "grown": ("memory it takes, MB", 1e-6),
    "resident": ("memory of the process, MB", 1e-6),
}


def _opening_lines(run: Run) -> Lines:
    lines: Lines = [("contender", *(head for head, _ in _OPENING.values()))]
    for name, one in run.get("opening", {}).items():
        cells = (f"{one[what] * factor:.1f}" for what, (_, factor) in _OPENING.items())
        lines.append((name, *cells))
    return lines


def targets_of(run: Run) -> list[Target]:
    """Return a line for each target of reading whose work was run."""
    targets = [target for row in _CLIPS for target in _clip(run, *row)]
    targets += [target for row in _SIZES for target in _size(run, *row)]
    for name in who.STORES:
        goal = f"within {_SINGLE * 1e6:g} us of bare decoding"
        show = lambda seconds: f"{seconds * 1e6:+.1f} us"  # noqa: E731 - a format
        more = partial(_more_than_bare, name)
        targets += at_most(run, f"single frame, {name}", "single/", more, _SINGLE, goal, show)
    for what, start, name, other, limit in _PROCESSOR:
        goal = f"<= {limit:g} of the processor time of {other}"
        share = partial(_processor_share, name, other)
        targets += at_most(run, f"{what}, {name}", start, share, limit, goal)
    for other, files, limit in _VIDEO_SIZES:
        found = {
            clip: sizes[who.STORE_VIDEO] / sizes[other]
            for clip, sizes in run.get("sizes", {}).items()
            if {who.STORE_VIDEO, other} <= sizes.keys()
        }
        work, goal = f"size of {who.STORE_VIDEO}", f"<= {limit:g} of {files}"
        targets += judge(work, goal, found, partial(ge, limit), "{:.3f}".format)
    return targets


def _loading_targets(run: Run) -> list[Target]:
    """Return a line for each target of codecs, opening, ingest and loading whose work was run."""
    targets: list[Target] = []
    for name, other, times in _DECODING:
        ratios = figures(run, "decode/", partial(ratio_of, ours=name, other=other))
        found = {clip: ratio for clip, ratio in ratios.items() if clip not in _OTHERS}
        work, goal = f"decoding on one thread, {name}", f">= {times:g} times {other}"
        targets += judge(work, goal, found, partial(le, times))
    targets += [*_other_pixels(run), *_opening(run)]
    for name, times in _INGEST:
        targets += at_least(
            run, f"ingest of JPEG images, {name}", "ingest", name, who.GULPIO2, times
        )
    for name, other, times in _LOADERS:
        work, goal = f"DataLoader, {name}", f"the same over {other}"
        targets += at_least(run, work, "loading/", name, other, times, goal)
    for name, other, times in _EPISODES:
        found = figures(run, "episodes/", partial(ratio_of, ours=name, other=other))
        sizes = run.get("episodes", {})
        is_met = {
            label: times <= ratio and sizes[label][name] <= sizes[label][other]
            for label, ratio in found.items()
        }
        shares = (f"{sizes[label][name] / sizes[label][other]:.3f}" for label in found)
        for target in judge(
            f"episodes, {name}",
            f">= {times:g} times {other}, at equal bytes or fewer",
            found,
            partial(le, times),
        ):
            text = f"{target.found} (bytes: {', '.join(shares)})"
            targets.append(Target.judged(target.work, target.target, text, all(is_met.values())))
    return targets + _stuck(run)


def _clip(run: Run, word: str, name: str, times: float) -> list[Target]:
    """Compare with GulpIO2; in brackets with arrays made of its lists, and bare decoding."""
    beside = {"of arrays": (name, who.GULPIO2_STACKED)}
    if name in (who.GULP_SOURCE, who.STORE_JPEG):
        beside["bare decoding"] = (who.BARE_JPEG, who.GULPIO2)
    texts = []
    for what, (ours, other) in beside.items():
        found = figures(run, "clip/", partial(ratio_of, ours=ours, other=other))
        texts += [f"{what}: {', '.join(map('{:.2f}'.format, found.values()))}"] if found else []
    targets = at_least(run, f"clips, {word}", "clip/", name, who.GULPIO2, times)
    return [
        replace(one, found=f"{one.found} ({'; '.join(texts)})") if texts else one for one in targets
    ]


def _size(run: Run, name: str, clip: str, share: float) -> list[Target]:
    sizes, pillow = run.get("sizes", {}).get(clip, {}), run.get("coded", {}).get(clip, {})
    if not {name, who.PNG} <= sizes.keys():
        return []
    found = sizes[name] / sizes[who.PNG]
    text = f"{found:.3f}"
    if PNG_PILLOW in pillow:
        text += f" ({sizes[name] / pillow[PNG_PILLOW]:.3f} of Pillow's)"
    work = f"size of {name}, {clip}"
    return [Target.judged(work, f"<= {share:g} of PNG", text, found <= share)]


def _more_than_bare(name: str, case: Case) -> float | None:
    ours, bare = case.median(name), case.median(BARE + name)
    return None if ours is None or bare is None else ours - bare


def _processor_share(name: str, other: str, case: Case) -> float | None:
    ours, base = case.processor.get(name), case.processor.get(other)
    return ours / base if ours and base else None


def _other_pixels(run: Run) -> list[Target]:
    targets = []
    for clip in _OTHERS:
        sizes = run.get("coded", {}).get(clip, {})
        for case in cases_of(run, f"decode/{clip}"):
            pngs = [name for name in (PNG_CV2, PNG_PILLOW) if name in sizes]
            size = min(sizes[name] for name in pngs)
            seconds = min(case.median(name) or 0.0 for name in pngs)
            for name in (FAST, SMALL):
                share, times = sizes[name] / size, seconds / (case.median(name) or 1.0)
                text = f"{share:.2f} of the size, {times:.1f} times as fast"
                goal, is_met = "smaller and faster than PNG", share < 1 < times
                targets.append(Target.judged(f"{clip}, {name}", goal, text, is_met))
    return targets


def _opening(run: Run) -> list[Target]:
    opening, targets = run.get("opening", {}), []
    store = f"a store of {100 * run['setting']['nindexed']:,} frames"
    for work, goal, suffix, key, limit in (
        (f"open {store}", f"<= {_OPEN * 1e3:g} ms", "ms", "seconds", _OPEN),
        (f"memory with {store}", f"<= {_RESIDENT / 1e6:g} MB in all", "MB", "resident", _RESIDENT),
    ):
        factor = _OPENING[key][1]
        shown = {name: f"{one[key] * factor:.1f} {suffix}" for name, one in opening.items()}
        if OURS in opening:
            found = shown[OURS] + (
                f" ({who.GULPIO2}: {shown[who.GULPIO2]})" if who.GULPIO2 in shown else ""
            )
            targets.append(Target.judged(work, goal, found, opening[OURS][key] <= limit))
    return targets


def _stuck(run: Run) -> list[Target]:
    """Return the target that no loader hangs."""
    cases = {case.key.partition("/")[2]: case for case in cases_of(run, "loading/")}
    if not cases:
        return []
    stuck = [
        f"{method}, {name}: {why}"
        for method, case in cases.items()
        for name, why in case.skipped.items()
    ]
    text = "; ".join(stuck) or f"all finish: {', '.join(cases)}"
    return [Target.judged("DataLoader, ways to start workers", "no hang", text, not stuck)]


_BESIDE_PNG, _BESIDE_GULPIO2 = (with_ratio(unit(1e6), base) for base in (PNG_CV2, who.GULPIO2))
PAGES = (
    Page(
        "benchmarks-frames.md",
        "frames/page.md",
        (
            "clips, store, lossless, fast, all",
            "clips, store of the same JPEG",
            f"size of {who.STORE_SMALL}, animation",
            f"single frame, {who.STORE_FAST}",
            f"clips, {VIDEO}: <= 0.9",
        ),
        {
            "clip": raced("clip/", _with_processor(who.GULPIO2)),
            "single": raced("single/", _with_processor(None)),
            "sizes": partial(_size_lines, "sizes", who.PNG),
        },
        targets_of,
        ("clips", "notes"),
    ),
    Page(
        "benchmarks-loading.md",
        "frames/loading.md",
        (
            f"decoding on one thread, {FAST}",
            "open a store of",
            f"ingest of JPEG images, {OURS_STORE}",
            f"DataLoader, {who.STORE_FAST}: >= 2",
            "DataLoader, ways",
        ),
        {
            "decode": raced("decode/", _BESIDE_PNG),
            "encode": raced("encode/", _BESIDE_PNG),
            "coded": partial(_size_lines, "coded", PNG_CV2),
            "opening": _opening_lines,
            "psnr": _qualities,
            "ingest": raced("ingest", _BESIDE_GULPIO2),
            "batch": raced("batch/", _with_processor(who.MEMMAP)),
            "loading": raced("loading/", _with_processor(who.GULPIO2)),
            "episodes": _episode_lines,
            "memory": _memory,
        },
        _loading_targets,
        (),
    ),
)
