"""The figures that are aimed at, and whether a run met them."""

from collections.abc import Iterator
from typing import Any

from harness import BARE, OURS
from racepage import Target, cases_of
from races import Case

from peers.data import LZ4, ZSTD, ZSTD_SMALL, Spec
from peers.files import tiny_name
from peers.race import BARE_OWN_BLOCKS
from peers.whole import OUR_CHUNKS, threads_name

_SMALL_MEMORY = 16 << 20  # bytes that do not depend on the chunks
# Those who compress, as we do: what is not compressed is another kind of thing.
_NO_PEERS = (OURS, BARE, BARE_OWN_BLOCKS, "numpy.save")


def targets_of(run: dict[str, Any]) -> list[Target]:
    """Return a line for each target whose work was run."""
    cases = {case.key: case for case in cases_of(run)}
    found: list[Target] = []
    for key, word, limit in (("read", "whole read", 0.90), ("write", "whole write", 0.85)):
        for spec in (LZ4, ZSTD):
            if case := cases.get(f"{key}/{spec}"):
                found += _whole(case, f"{word}, {spec}", limit)
    for spec in (LZ4, ZSTD):
        found += _threads(cases.get(f"threads/{spec}"), spec, run["nthreads"])
    found += _at_most(cases.get(f"row/{ZSTD}"), "blosc2", 0.2)
    found += _sizes(run)
    found += _at_most(cases.get(f"row/{ZSTD_SMALL}"), "h5py", 0.4)
    found += _at_most(cases.get(f"first/{ZSTD}"), BARE, 0.6)
    found += _at_most(cases.get("open"), "h5py", 0.25)
    found += _open_tiny(cases.get("open"), run["setting"]["ntiny"])
    found += [*_memory(run), *_flips(run), *_truncation(run)]
    return found


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


def _threads(case: Case | None, spec: Spec, nthreads: int) -> Iterator[Target]:
    if case is None:
        return
    one, more = (case.median(threads_name(OURS, count)) for count in (1, nthreads))
    if one is None or more is None:
        return
    gain, work = one / more, f"{nthreads} threads against 1, read, {spec}"
    text = f"{gain:.2f}"
    bare = [case.median(threads_name(BARE, count)) for count in (1, nthreads)]
    if bare[0] and bare[1]:
        text += f" (bare C-Blosc: {bare[0] / bare[1]:.2f})"
    yield Target.judged(work, f">= {0.9 * nthreads:.1f}", text, gain >= 0.9 * nthreads)


def _at_most(case: Case | None, name: str, limit: float) -> Iterator[Target]:
    """Compare our time with another's."""
    if case is None:
        return
    ours, other = case.median(OURS), case.median(name)
    if ours is None or other is None:
        return
    whole = ", the whole chunk" if case.key.startswith("first/") else ""
    share = ours / other
    target = f"<= {limit:g} of the time of {name}{whole}"
    yield Target.judged(case.title, target, f"{share:.2f}", share <= limit)


def _sizes(run: dict[str, Any]) -> Iterator[Target]:
    found = run.get("sizes", {}).get(str(ZSTD), {})
    if BARE_OWN_BLOCKS in found:
        more = found[OUR_CHUNKS] / found[BARE_OWN_BLOCKS]
        text = f"{100 * (more - 1):+.1f} %"
        target = "<= +3 % of C-Blosc's own blocks"
        yield Target.judged(f"size of the chunks, {ZSTD}", target, text, more <= 1.03)


def _open_tiny(case: Case | None, ntiny: int) -> Iterator[Target]:
    if case is None:
        return
    few, many = case.median(OURS), case.median(tiny_name(ntiny))
    if few is None or many is None:
        return
    work, times = f"open a file of {ntiny:,} chunks", many / few
    yield Target.judged(work, "<= 3 times that of the smaller file", f"{times:.2f}", times <= 3)


def _memory(run: dict[str, Any]) -> Iterator[Target]:
    memory = run.get("memory")
    if memory is None:
        return
    chunk, nthreads = ZSTD.chunk_nbytes, run["nthreads"]
    limits = {
        "read": (
            "peak memory of a whole read",
            "the result + 2 chunks per thread + 16 MiB",
            memory["nbytes"] + 2 * nthreads * chunk + _SMALL_MEMORY,
        ),
        "write": (
            "peak memory of a write from a generator",
            "4 chunks per thread + 16 MiB",
            4 * nthreads * chunk + _SMALL_MEMORY,
        ),
    }
    for action, (work, target, limit) in limits.items():
        grown = memory[action].get(OURS)
        if isinstance(grown, int):
            text = f"{grown / 2**20:.1f} of {limit / 2**20:.1f} MiB"
            yield Target.judged(work, target, text, grown <= limit)


def _flips(run: dict[str, Any]) -> Iterator[Target]:
    flips = run.get("flips")
    if flips is None:
        return
    for region in ("data", "header"):
        counts = flips[OURS][region]
        total = sum(counts.values())
        silent = counts["wrong"] + counts["crashed"] + counts["hung"]
        text = f"{counts['wrong']} wrong of {total}"
        if silent > counts["wrong"]:
            text += f", {counts['crashed']} crashes, {counts['hung']} hangs"
        yield Target.judged(
            f"bit flips in the {region}", "0 silently wrong results", text, silent == 0
        )


def _truncation(run: dict[str, Any]) -> Iterator[Target]:
    cut = run.get("truncation", {}).get(OURS)
    if cut is None:
        return
    for key, target in (
        ("recovered", "every whole chunk recovered"),
        ("filled", "readable in place with on_error"),
    ):
        count = cut.get(key)
        text = "not there yet" if count is None else f"{count} of {cut['nwhole']} whole chunks"
        yield Target.judged("truncation to 60 %", target, text, count == cut["nwhole"])
