"""Page docs/benchmarks-peers.md: its tables and targets."""

from collections.abc import Iterator
from functools import partial

from race.page import (
    Lines,
    Page,
    Run,
    Target,
    at_least,
    at_most,
    cases_of,
    duration,
    grid,
    ratio_of,
    timings,
)
from race.races import Case
from race.timing import BARE, ORIGINAL, OURS

from peers.cases import grown_name, threads_name, tiny_name
from peers.changes import CHANGED, COMPACTED
from peers.contenders import BARE_OWN_BLOCKS
from peers.data import LZ4, ZSTD, ZSTD_SMALL, Spec

# Tables, and how the keys of their races begin.
_RACES = {
    "whole": ("read/", "write/"),
    "rows": ("row/", "first/"),
    "changes": ("commits", "change/", "changed/"),
    "parts": ("block/", "stride/", "iterate/", "open", "append"),
}
_SMALL_MEMORY = 16 << 20  # bytes that do not depend on the chunks
# Peers compress as we do; files that are not compressed are another kind.
_NO_PEERS = (OURS, BARE, BARE_OWN_BLOCKS, "numpy.save")
_REGIONS = ("data", "header")
_CUT = {"right": "read right", "raised": "refused", "wrong": "wrong, no error"}


def _timings(starts: tuple[str, ...], run: Run) -> Lines:
    return timings([case for case in cases_of(run) if case.key.startswith(starts)], _cell)


def _threads_lines(run: Run) -> Lines:
    """Return a column for each race and number of threads."""
    columns: dict[str, dict[str, str]] = {}
    for case in cases_of(run, "threads/"):
        spec = case.key.removeprefix("threads/")
        for label in case.seconds:
            name, count = label.rsplit(", ", 1)
            columns.setdefault(f"{spec}, {count}", {})[name] = _cell(case, label)
    return grid("contender", columns, lambda found, name: found[name])


def _sizes_and_memory(run: Run) -> Lines:
    """Return stored bytes with their share of ours, and memory, of which not all have a figure."""
    columns = {
        f"bytes, {spec}": {
            name: f"{nbytes:,} ({nbytes / found[OURS]:.3f})" for name, nbytes in found.items()
        }
        for spec, found in run.get("sizes", {}).items()
    }
    for what in ("read", "write") if "memory" in run else ():
        columns[f"memory, {what}"] = {
            name: grown if isinstance(grown, str) else f"{grown / 2**20:.1f}"
            for name, grown in run["memory"][what].items()
        }
    return grid("contender", columns, lambda found, name: found[name])


def _cell(case: Case, name: str) -> str:
    """Return the median and, for others than us, how many times ours it is."""
    median = case.median(name)
    if median is None:
        return case.skipped.get(name, "-")
    text = duration(median)
    if name.startswith(OURS) and name != ORIGINAL:
        return f"{text}, {case.nbytes / median / 1e6:.0f} MB/s" if case.nbytes else text
    ours = case.median(OURS)
    return text if ours is None else f"{text} ({median / ours:.2f})"


def _damage_lines(run: Run) -> Lines:
    flips = run.get("flips", {})
    outcomes = [*next(iter(flips.values()))["data"]] if flips else []
    columns = [(where, what) for where in _REGIONS for what in outcomes]
    heads = (f"{what}, {where}" for where, what in columns)
    lines: Lines = [("contender", *heads, "60 %, whole", "chunks whole", *_CUT.values())]
    for name, found in flips.items():
        cut = run["truncation"][name]
        cells = [str(found[where][what]) for where, what in columns]
        cells += [cut["read"], f"{cut['nwhole']} of {cut['nchunks']}"]
        cells += [str(cut.get("chunks", {}).get(what, "-")) for what in _CUT]
        lines.append((name, *cells))
    return lines


# Races, other contenders, and the largest share of the other's time.
_SHARES = (
    (f"row/{ZSTD}", "blosc2", 0.2),
    (f"row/{ZSTD_SMALL}", "h5py", 0.4),
    (f"first/{ZSTD}", BARE, 0.6),
    ("open", "h5py", 0.25),
)


def targets_of(run: Run) -> list[Target]:
    """Return a line for each target whose work was run."""
    targets: list[Target] = []
    for key, word, limit in (("read", "whole read", 0.90), ("write", "whole write", 0.85)):
        for spec in (LZ4, ZSTD):
            for case in cases_of(run, f"{key}/{spec}"):
                targets += _whole(case, f"{word}, {spec}", limit)
    for spec in (LZ4, ZSTD):
        for case in cases_of(run, f"threads/{spec}"):
            targets += _threads(case, spec, run["nthreads"])
    targets += _sizes(run)
    for key, other, limit in _SHARES:
        for case in cases_of(run, key):
            share = partial(ratio_of, ours=other, other=OURS)
            whole = ", the whole chunk" if key.startswith("first/") else ""
            goal = f"<= {limit:g} of the time of {other}{whole}"
            targets += at_most(run, case.title, key, share, limit, goal)
    ntiny = run["setting"]["ntiny"]
    goal = "<= 3 times that of the smaller file"
    for work, name in (
        (f"open a file of {ntiny:,} chunks", tiny_name(ntiny)),
        (f"open a file of {ntiny:,} rows appended in parts", grown_name(ntiny)),
    ):
        times = partial(ratio_of, ours=OURS, other=name)
        targets += at_most(run, work, "open", times, 3, goal)
    targets += _changes(run)
    return [*targets, *_memory(run), *_flips(run), *_truncation(run)]


def _whole(case: Case, work: str, limit: float) -> Iterator[Target]:
    ours = case.median(OURS)
    bare = case.median(BARE)
    if ours is None:
        return
    if bare is not None:
        share = bare / ours
        text = f"{share:.2f}"
        if own := case.median(BARE_OWN_BLOCKS):
            text += f" ({own / ours:.2f} of C-Blosc with its own blocks)"
        yield Target.judged(work, f">= {limit:.2f} of bare C-Blosc", text, share >= limit)
    peers = {name: case.median(name) for name in case.seconds if name not in _NO_PEERS}
    if peers:
        name, seconds = min(peers.items(), key=lambda item: item[1] or 0)
        ahead = (seconds or 0) / ours
        yield Target.judged(work, "ahead of every peer", f"{ahead:.2f} times {name}", ahead > 1)


def _threads(case: Case, spec: Spec, nthreads: int) -> Iterator[Target]:
    def gain(name: str) -> float | None:
        return ratio_of(case, *(threads_name(name, count) for count in (nthreads, 1)))

    if (ours := gain(OURS)) is not None:
        bare = gain(BARE)
        text = f"{ours:.2f}" + (f" (bare C-Blosc: {bare:.2f})" if bare is not None else "")
        work = f"{nthreads} threads against 1, read, {spec}"
        yield Target.judged(work, f">= {0.9 * nthreads:.1f}", text, ours >= 0.9 * nthreads)


def _changes(run: Run) -> Iterator[Target]:
    """Yield the targets of files that change."""
    for other, limit in (("h5py, not compressed", 1.0), ("versioned-hdf5", 0.05)):
        share = partial(ratio_of, ours=other, other=OURS)
        goal = f"<= {limit:g} of the time of {other}"
        yield from at_most(run, "durable commits of changed items", "commits", share, limit, goal)
    for other, times in (("h5py, not compressed", 0.5), ("blosc2", 1), ("zarr", 5)):
        yield from at_least(run, "random rows changed", "change/", OURS, other, times)
    for key, limit in (("whole", 1 / 0.9), ("row", 1.1), ("open", 1.5)):
        share = partial(ratio_of, ours=COMPACTED, other=CHANGED)
        goal = f"<= {limit:.2g} of the time of the same file, compacted"
        work = f"{key} of a file that was changed {10 * run['setting']['ncommits']:,} times"
        yield from at_most(run, work, f"changed/{key}", share, limit, goal)
    sizes = run.get("changed sizes", {})
    if {OURS, "versioned-hdf5"} <= sizes.keys():
        share = sizes[OURS] / sizes["versioned-hdf5"]
        text, goal = f"{share:.3f}", "<= 0.3 of the file of versioned-hdf5"
        yield Target.judged("size after these commits", goal, text, share <= 0.3)


def _sizes(run: Run) -> Iterator[Target]:
    found = run.get("sizes", {}).get(str(ZSTD), {})
    if {BARE, BARE_OWN_BLOCKS} <= found.keys():
        more = found[BARE] / found[BARE_OWN_BLOCKS]
        text = f"{100 * (more - 1):+.1f} %"
        target = "<= +3 % of C-Blosc's own blocks"
        yield Target.judged(f"size of the chunks, {ZSTD}", target, text, more <= 1.03)


def _memory(run: Run) -> Iterator[Target]:
    memory = run.get("memory")
    if memory is None:
        return
    threads = run["nthreads"] * ZSTD.chunk_nbytes
    for action, work, target, limit in (
        (
            "read",
            "peak memory of a whole read",
            "the result + 2 chunks per thread + 16 MiB",
            memory["nbytes"] + 2 * threads + _SMALL_MEMORY,
        ),
        (
            "write",
            "peak memory of a write from a generator",
            "4 chunks per thread + 16 MiB",
            4 * threads + _SMALL_MEMORY,
        ),
    ):
        grown = memory[action].get(OURS)
        if isinstance(grown, int):
            text = f"{grown / 2**20:.1f} of {limit / 2**20:.1f} MiB"
            yield Target.judged(work, target, text, grown <= limit)


def _flips(run: Run) -> Iterator[Target]:
    for region in _REGIONS if "flips" in run else ():
        counts = run["flips"][OURS][region]
        silent = counts["wrong"] + counts["crashed"] + counts["hung"]
        text = f"{counts['wrong']} wrong of {sum(counts.values())}"
        if silent > counts["wrong"]:
            text += f", {counts['crashed']} crashes, {counts['hung']} hangs"
        work = f"bit flips in the {region}"
        yield Target.judged(work, "0 silently wrong results", text, silent == 0)


def _truncation(run: Run) -> Iterator[Target]:
    cut = run.get("truncation", {}).get(OURS)
    if cut is None:
        return
    for key, target in (
        ("recovered", "every whole chunk recovered"),
        ("filled", "readable in place with on_error"),
    ):
        count = cut.get(key)
        text = "not counted" if count is None else f"{count} of {cut['nwhole']} whole chunks"
        yield Target.judged("truncation to 60 %", target, text, count == cut["nwhole"])


PAGES = (
    Page(
        "benchmarks-peers.md",
        "peers/page.md",
        (
            f"whole read, {LZ4}: >=",
            f"whole read, {LZ4}: ahead",
            f"whole write, {LZ4}: >=",
            f"random row of 4000 bytes, {ZSTD}",
            "bit flips in the data",
        ),
        {
            **{table: partial(_timings, starts) for table, starts in _RACES.items()},
            "threads": _threads_lines,
            "sizes": _sizes_and_memory,
            "damage": _damage_lines,
        },
        targets_of,
    ),
)
