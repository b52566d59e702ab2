"""Speed of a loader on a source of clips, and what limits it.

One thread of this process reads batches first: that is the cost of decoding. Then a loader with
workers returns batches for some seconds. The share of the workers' time that decoding takes follows
from both. Bytes are counted from the plan of the reads, so that every kind of source is covered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, repeat
from time import perf_counter
from typing import Any

import numpy as np

from ..frames.protocol import StoredClip, frame_indices
from ..frames.sampler import ClipSampler
from ..parallel.imports import importing
from ..parallel.processes import default_start_method
from ..parallel.threads import available_cpus
from ..storage.batch import Piece, planned_nbytes
from .batches import FrameBatches
from .training.itemreader import ItemReader, Plan

# Batches whose reads are counted.
_NCOUNTED = 8
_LIMITED_BY_DECODING = 0.7
_WASTEFUL = 1.5


@dataclass(frozen=True, slots=True)
class Settings:
    """Items, batches and workers to measure."""

    batch_size: int
    length: int | None  # frames of an item; None for whole clips
    stride: int
    workers: int  # 0 for this process
    method: str | None  # how workers are started; by default that of the system
    seconds: float  # for which the loader runs


@dataclass(frozen=True, slots=True)
class LoaderSpeed:
    """Result of `measure`."""

    loader: str  # "torch" or "threads"
    method: str | None
    nclips: int
    nsamples: int  # that were loaded
    start_seconds: float  # until the first batch
    samples_per_second: float
    nbytes_per_second: float  # decoded
    decoding_ms: float  # of a sample, on one thread
    decoding_share: float  # of the time of all workers
    read_amplification: float | None  # bytes read / stored bytes of the frames
    hazards: list[str]
    advice: list[str]


def measure(source: Any, settings: Settings) -> LoaderSpeed:
    """Load batches of a source by path or URL; ValueError if it has no clips with frames."""
    options: Any = {"length": settings.length, "stride": settings.stride}
    reader = ItemReader(source, nthreads=1, **options)
    ids = [id_ for id_, clip in reader.source.items() if len(clip)]
    if not ids:
        raise ValueError(f"{reader.source.name}: no clip has frames")
    # Small sources fill a batch, too.
    ids *= -(-settings.batch_size // len(ids))
    options["clips"] = ids
    reader = ItemReader(source, nthreads=1, **options)
    seconds, nbytes, amplification = _measure_decoding(reader, settings)
    uses_torch = settings.workers > 0 and find_spec("torch") is not None
    method = None
    if uses_torch:
        method = settings.method or default_start_method()
        batches = _torch_loader(source, options, settings, method)
    else:
        batches = FrameBatches(
            source, settings.batch_size, threads=max(1, settings.workers), **options
        )
    start, elapsed, nsamples = _run(batches, settings.seconds)
    speed = nsamples / elapsed
    nworkers = max(1, settings.workers)
    share = min(1.0, seconds * speed / nworkers)
    loader = "torch" if uses_torch else "threads"
    return LoaderSpeed(
        loader=loader,
        method=method,
        nclips=len(set(ids)),
        nsamples=nsamples,
        start_seconds=start,
        samples_per_second=speed,
        nbytes_per_second=speed * nbytes,
        decoding_ms=seconds * 1e3,
        decoding_share=share,
        read_amplification=amplification,
        hazards=_hazards(method),
        advice=_advice(loader, share, nworkers, amplification, available_cpus()),
    )


def _measure_decoding(reader: ItemReader, settings: Settings) -> tuple[float, float, float | None]:
    """Return the seconds and decoded bytes of a sample on one thread, and the amplification."""
    sampler = ClipSampler(reader, batch_size=settings.batch_size)
    epochs: Iterator[Sequence[int]] = chain.from_iterable(repeat(sampler))
    read = needed = 0.0
    can_count = True
    wholes: dict[str, float] = {}
    for _ in range(min(_NCOUNTED, len(sampler))):
        counted = _count(reader.plan(next(epochs)), wholes)
        can_count = can_count and counted is not None
        if counted is not None:
            read, needed = read + counted[0], needed + counted[1]
    reader.plan(next(epochs)).read()  # warms the caches
    elapsed, nsamples, nbytes = 0.0, 0, 0
    while elapsed < settings.seconds / 2:
        plan = reader.plan(next(epochs))
        start = perf_counter()
        frames = plan.read()
        elapsed += perf_counter() - start
        nsamples += len(plan.items)
        nbytes += sum(each.nbytes for each in frames)
    amplification = read / needed if can_count and needed else None
    return elapsed / nsamples, nbytes / nsamples, amplification


def _count(plan: Plan, wholes: dict[str, float]) -> tuple[float, float] | None:
    """Return the bytes that a batch reads, and the stored bytes of its frames.

    `wholes` has the stored bytes of clips that were counted before. None if the source does not
    know where its frames are, or frames of a clip differ in shape.
    """
    if not all(hasattr(clip, "pieces") for clip in plan.clips):
        return None
    pieces: list[Piece] = []
    needed = 0.0
    try:
        for clip, (_, selection) in zip(plan.clips, plan.requests, strict=True):
            indices = frame_indices(selection, len(clip)).indices
            pieces += _pieces(clip, indices)
            if clip.id not in wholes:
                everything = _pieces(clip, np.arange(len(clip)))
                wholes[clip.id] = sum({each.offset: each.nbytes for each in everything}.values())
            needed += wholes[clip.id] * len(np.unique(indices)) / len(clip)
    except (ValueError, MemoryError):
        return None
    return planned_nbytes(pieces), needed


def _pieces(clip: Any, indices: Any) -> list[Piece]:
    stored: StoredClip = clip
    # Its pages exist only once they are written.
    frames = np.empty((len(indices), *stored.frame_shape(indices)), stored.dtype)
    return list(stored.pieces(indices, frames))


def _torch_loader(source: Any, options: dict[str, Any], settings: Settings, method: str) -> Any:
    with importing:
        from .torch import FrameDataset, FrameLoader

    return FrameLoader(
        FrameDataset(source, **options),
        settings.batch_size,
        num_workers=settings.workers,
        multiprocessing_context=method,
        persistent_workers=True,
    )


def _run(batches: Any, seconds: float) -> tuple[float, float, int]:
    """Return the seconds until the first batch, those of the rest, and its samples."""
    begin = perf_counter()
    running = iter(batches)
    next(running)
    first = perf_counter()
    nsamples, elapsed = 0, 0.0
    while elapsed < seconds or not nsamples:
        batch = next(running, None)
        if batch is None:
            running = iter(batches)
            continue
        nsamples += len(batch["id"])
        elapsed = perf_counter() - first
    return first - begin, elapsed, nsamples


def _hazards(method: str | None) -> list[str]:
    """Return what a way to start workers demands of the program."""
    if method == "fork":
        text = "start the loader before CUDA and before threads of other libraries, or pass "
        return [f"fork: {text}multiprocessing_context='forkserver'"]
    if method is not None:
        text = "keep the program's work behind `if __name__ == '__main__':`"
        return [f"{method}: {text}; transforms and functions must pickle"]
    return []


def _advice(
    loader: str, share: float, nworkers: int, amplification: float | None, ncpus: int
) -> list[str]:
    workers = "workers" if loader == "torch" else "threads"
    advice = []
    if nworkers > ncpus:
        advice.append(f"{nworkers} {workers} share {ncpus} processors: use {ncpus}")
    elif share >= _LIMITED_BY_DECODING and nworkers < ncpus:
        advice.append(f"decoding limits the loader: use up to {ncpus} {workers}")
    elif share >= _LIMITED_BY_DECODING:
        advice.append(
            "decoding limits the loader, on all processors: use a preset that decodes faster, "
            "smaller frames, or fewer frames per item (blpk tune)"
        )
    else:
        advice.append(
            f"decoding takes {share:.0%} of the {workers}' time, the rest is waiting and handing "
            "over: use larger batches"
        )
    if amplification is not None and amplification > _WASTEFUL:
        advice.append(
            f"reads fetch {amplification:.1f} times the bytes of the frames: use a smaller stride "
            "or longer items"
        )
    return advice
