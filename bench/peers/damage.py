"""Damage: bits flipped one at a time, and files that end too early.

Readers of damaged files may crash, hang or take all memory, so each works in a process of its own.
After a trial that ends it, another process continues with the next trial.
"""

import os
import random
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import numpy as np
from race.races import remove, require
from race.timing import NTHREADS
from race.worker import HangError, Worker, WorkerError

import bloscpack as bp
from peers.arrays import Arrays
from peers.contenders import Contender, DataExtent
from peers.data import ZSTD
from peers.formats import Ours

OUTCOMES = ("right", "raised", "wrong", "crashed", "hung")
REGIONS = ("data", "header")
_FLIP_CHUNKS = 4
_CUT_CHUNKS = 16
_CUT = 0.6
_MEMORY = 8 << 30  # bytes of address space
_TIMEOUT = 20  # seconds a read may take


@dataclass(frozen=True, slots=True)
class Trial:
    """One bit of one file."""

    path: Path
    offset: int  # of the byte
    bit: int
    region: str  # one of `REGIONS`


def damage_files(races: Arrays) -> None:
    """Count the effects of damage."""
    races.found["flips"] = _flip_bits(races)
    races.found["truncation"] = _cut_files(races)


def _flip_bits(races: Arrays) -> dict[str, dict[str, dict[str, int]]]:
    """Return the number of reads after one flip, by contender, region and outcome."""
    count = races.setting.nflips
    races.say(f"bit flips, {count} a region")
    folder = races.folder / "flips"
    folder.mkdir()
    array = folder / "array.npy"
    np.save(array, races.array[: _FLIP_CHUNKS * ZSTD.chunk_rows])
    with ThreadPoolExecutor(NTHREADS) as pool:
        counts = pool.map(
            lambda who: flip_one(who, folder / who.name, array, count), races.formats()
        )
        return {who.name: found for who, found in zip(races.formats(), counts, strict=True)}


def flip_one(
    contender: Contender, path: Path, array: Path, count: int, start: Callable[..., Any] = Worker
) -> dict[str, dict[str, int]]:
    """Return the outcomes of reads after one flip, by region; `start` starts a process."""
    contender.write(path, np.load(array), ZSTD)
    counts = {region: dict.fromkeys(OUTCOMES, 0) for region in REGIONS}
    worker = start("peers", contender.name, _TIMEOUT)
    try:
        undamaged = worker.report(read_whole, path=path, array=array)
        require(undamaged == "right", contender.name, "the undamaged file")
        for trial in _choose_trials(contender, path, count):
            with _flipped(trial):
                try:
                    outcome = worker.report(read_whole, path=path, array=array)
                except WorkerError as err:
                    outcome = "hung" if isinstance(err, HangError) else "crashed"
                    worker.close()
                    worker = start("peers", contender.name, _TIMEOUT)
            counts[trial.region][outcome] += 1
    finally:
        worker.close()
    return counts


def _choose_trials(contender: Contender, path: Path, count: int) -> list[Trial]:
    """Return `count` bits of the stored chunks and `count` of everything else, at random."""
    chosen = random.Random(7)
    data = contender.data_extents(path)
    trials = []
    for region, extents in zip(REGIONS, (data, _rest(path, data)), strict=True):
        weights = [extent.stop - extent.start for extent in extents]
        for extent in chosen.choices(extents, weights, k=count):
            offset = chosen.randrange(extent.start, extent.stop)
            trials.append(Trial(extent.path, offset, chosen.randrange(8), region))
    return trials


def _rest(path: Path, data: list[DataExtent]) -> list[DataExtent]:
    """Return the bytes of a file, or of a folder's files, that are not in `data`."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    rest = []
    for file in files:
        at = 0
        for extent in sorted(extent for extent in data if extent.path == file):
            rest.append(DataExtent(file, at, extent.start))
            at = extent.stop
        rest.append(DataExtent(file, at, file.stat().st_size))
    return [extent for extent in rest if extent.stop > extent.start]


@contextmanager
def _flipped(trial: Trial) -> Iterator[None]:
    """Flip a bit for the duration of the block."""
    _flip(trial)
    yield
    _flip(trial)


def _flip(trial: Trial) -> None:
    with trial.path.open("r+b") as stream:
        stream.seek(trial.offset)
        (byte,) = stream.read(1)
        stream.seek(trial.offset)
        stream.write(bytes([byte ^ 1 << trial.bit]))


def _cut_files(races: Arrays) -> dict[str, dict[str, Any]]:
    """Return, by contender, the results of reading a file cut to its first 60 %.

    In a format of many files, those of the chunks are cut as one concatenated file would be.
    """
    races.say("truncation to 60 %")
    nrows = min(_CUT_CHUNKS * ZSTD.chunk_rows, len(races.array) // 4)
    array = races.folder / "cut.npy"
    np.save(array, races.array[:nrows])
    found = {}
    for contender in races.formats():
        path = races.folder / f"cut, {contender.name}"
        nwhole = _cut(contender, races.path_of(contender, ZSTD, nrows), path)
        with closing(Worker("peers", contender.name)) as worker:
            try:
                read = worker.report(read_cut, path=path, array=array)
            except WorkerError:
                read = {"read": "crashed"}
        found[contender.name] = {"nchunks": -(-nrows // ZSTD.chunk_rows), "nwhole": nwhole, **read}
        remove(path)
    return found


def _cut(contender: Contender, source: Path, target: Path) -> int:
    """Copy 60 % of `source`; return how many chunks are complete, as far as one can see."""
    chunks = contender.data_extents(source)
    if source.is_file():
        copyfile(source, target)
        stop = int(source.stat().st_size * _CUT)
        os.truncate(target, stop)
        return sum(chunk.stop <= stop for chunk in chunks)
    copytree(source, target)
    left = int(sum(chunk.stop for chunk in chunks) * _CUT)
    nwhole = 0
    for chunk in chunks:
        file = target / chunk.path.relative_to(source)
        if left <= 0:
            file.unlink()
        elif chunk.stop > left:
            os.truncate(file, left)
        else:
            nwhole += 1
        left -= chunk.stop
    return nwhole


def read_whole(contender: Contender, path: str, array: str) -> str:
    """Return the outcome of a whole read."""
    _limit()
    return judge(lambda: contender.read(Path(path)), np.load(array))


def read_cut(contender: Contender, path: str, array: str) -> dict[str, Any]:
    """Return the outcome of a whole read, and of reads of single chunks, of a cut file."""
    _limit()
    cut, wanted = Path(path), np.load(array)
    chunks = {"right": 0, "wrong": 0, "raised": 0}
    found: dict[str, Any] = {"read": judge(lambda: contender.read(cut), wanted), "chunks": chunks}

    def read_rows(rows: slice) -> np.ndarray:
        with contender.open(cut) as handle:
            return handle[rows]

    for rows in _chunks_of(wanted):
        chunks[judge(partial(read_rows, rows), wanted[rows])] += 1
    if isinstance(contender, Ours):
        target = cut.with_name("recovered")
        filled = bp.load(cut, on_error="fill", fill_value=np.nan)
        found["filled"] = _count(filled, wanted)
        bp.recover(cut, target)
        found["recovered"] = _count(bp.load(target), wanted)
        remove(target)
    return found


def _limit() -> None:
    """Limit the memory of this process, and let it leave no core file."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def judge(read: Callable[[], Any], wanted: np.ndarray) -> str:
    """Return the outcome of a read."""
    try:
        return "right" if is_same(np.asarray(read()), wanted) else "wrong"
    except BaseException:  # a panic in a Rust library is not an Exception
        return "raised"


def is_same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether dtype, shape and every bit are the same."""
    return (
        found.dtype == wanted.dtype
        and found.shape == wanted.shape
        and bool(np.array_equal(found.view(np.uint32), wanted.view(np.uint32)))
    )


def _chunks_of(array: np.ndarray) -> Iterator[slice]:
    for start in range(0, len(array), ZSTD.chunk_rows):
        yield slice(start, min(start + ZSTD.chunk_rows, len(array)))


def _count(found: np.ndarray, wanted: np.ndarray) -> int:
    """Return how many chunks from the start are right."""
    are_right = (is_same(found[rows], wanted[rows]) for rows in _chunks_of(wanted))
    return sum(1 for _ in takewhile(bool, are_right))
