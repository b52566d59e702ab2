"""Damage: bits flipped one at a time, and files that end too early.

Readers of damaged files may crash, hang or take all memory, so each works in a process of its own.
After a trial that ends it, another process continues with the next trial. The process is this
module: ``flips CONTENDER FILE ARRAY TRIALS FIRST`` answers with a line for each trial from the
first on; ``cut CONTENDER FILE ARRAY`` with a line of JSON.
"""

import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from shutil import copyfile, copytree
from typing import TYPE_CHECKING, Any

import numpy as np
from race.races import assemble, remove
from race.timing import NTHREADS
from race.worker import run_module

import bloscpack as bp
from peers.contenders import TABLE, Contender, DataExtent
from peers.data import ZSTD
from peers.with_bloscpack import Ours

if TYPE_CHECKING:
    from peers.cases import Arrays

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

    file: str  # relative to the format's folder; empty for a single file
    offset: int  # of the byte
    bit: int
    region: str  # one of `REGIONS`


def damage_files(races: "Arrays") -> None:
    """Count the effects of damage."""
    races.found["flips"] = _flip_bits(races)
    races.found["truncation"] = _cut_files(races)


def _flip_bits(races: "Arrays") -> dict[str, dict[str, dict[str, int]]]:
    """Return the number of reads after one flip, by contender, region and outcome."""
    races.say(f"bit flips, {races.setting.nflips} a region")
    rows = races.array[: _FLIP_CHUNKS * ZSTD.chunk_rows]
    folder = races.folder / "flips"
    folder.mkdir()
    np.save(folder / "array.npy", rows)
    with ThreadPoolExecutor(NTHREADS) as pool:
        counts = pool.map(lambda who: _flip_one(races, folder, who), races.contenders)
        return {who.name: found for who, found in zip(races.contenders, counts, strict=True)}


def _flip_one(races: "Arrays", folder: Path, contender: Contender) -> dict[str, dict[str, int]]:
    path = folder / contender.name
    contender.write(path, np.load(folder / "array.npy"), ZSTD)
    trials = _choose_trials(contender, path, races.setting.nflips)
    listed = folder / f"{contender.name}.json"
    listed.write_text(json.dumps([asdict(trial) for trial in trials]), "utf-8")
    outcomes: list[str] = []
    while len(outcomes) < len(trials):
        code, answers = _work(
            "flips", contender.name, path, folder / "array.npy", listed, len(outcomes)
        )
        outcomes += answers
        if len(outcomes) < len(trials):
            if code == 0:
                raise RuntimeError(f"{contender.name}: the trials ended early")
            outcomes.append("hung" if code == -signal.SIGALRM else "crashed")
    counts = {region: dict.fromkeys(OUTCOMES, 0) for region in REGIONS}
    for trial, outcome in zip(trials, outcomes, strict=True):
        counts[trial.region][outcome] += 1
    return counts


def _work(action: str, *arguments: object) -> tuple[int, list[str]]:
    """Run the worker; return its exit code and the lines it answered."""
    done = run_module("peers.damage", action, *arguments)
    return done.returncode, done.stdout.splitlines()


def _choose_trials(contender: Contender, path: Path, count: int) -> list[Trial]:
    """Return `count` bits of the stored chunks and `count` of everything else, at random."""
    chosen = random.Random(7)
    data = contender.data_extents(path)
    trials = []
    for region, extents in zip(REGIONS, (data, _rest(path, data)), strict=True):
        weights = [extent.stop - extent.start for extent in extents]
        for extent in chosen.choices(extents, weights, k=count):
            offset = chosen.randrange(extent.start, extent.stop)
            file = "" if extent.path == path else str(extent.path.relative_to(path))
            trials.append(Trial(file, offset, chosen.randrange(8), region))
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


def _cut_files(races: "Arrays") -> dict[str, dict[str, Any]]:
    """Return, by contender, the results of reading a file cut to its first 60 %.

    In a format of many files, those of the chunks are cut as one concatenated file would be.
    """
    races.say("truncation to 60 %")
    nrows = min(_CUT_CHUNKS * ZSTD.chunk_rows, len(races.array) // 4)
    array = races.folder / "cut.npy"
    np.save(array, races.array[:nrows])
    found = {}
    for contender in races.contenders:
        path = races.folder / f"cut, {contender.name}"
        nwhole = _cut(contender, races.path_of(contender, ZSTD, nrows), path)
        code, answers = _work("cut", contender.name, path, array)
        read = json.loads(answers[-1]) if code == 0 else {"read": f"crashed (exit code {code})"}
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


def main(arguments: list[str]) -> int:
    """Do the action; return the exit status."""
    # Output of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    action, name, path, array, *rest = arguments
    (contender,), _ = assemble(TABLE, [name])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def answer(line: str) -> None:
        print(line, file=answers, flush=True)

    if action == "flips":
        trials = json.loads(Path(rest[0]).read_text("utf-8"))
        flip(contender, Path(path), np.load(array), trials[int(rest[1]) :], answer)
    else:
        answer(json.dumps(read_cut(contender, Path(path), np.load(array))))
    return 0


def flip(
    contender: Contender,
    pristine: Path,
    wanted: np.ndarray,
    trials: list[dict[str, Any]],
    answer: Callable[[str], None],
) -> None:
    """Flip one bit after the other in a copy, read it, and answer with the outcome."""
    copy = pristine.with_name(pristine.name + ", flipped")
    remove(copy)
    (copytree if pristine.is_dir() else copyfile)(pristine, copy)

    def read() -> str:
        return judge(lambda: contender.read(copy), wanted)

    if read() != "right":
        raise RuntimeError(f"{contender.name}: the undamaged file does not read as it should")
    for trial in trials:
        file = copy / trial["file"] if trial["file"] else copy
        _flip_bit(file, trial["offset"], trial["bit"])
        answer(read())
        _flip_bit(file, trial["offset"], trial["bit"])
    remove(copy)


def _flip_bit(file: Path, offset: int, bit: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(offset)
        (byte,) = stream.read(1)
        stream.seek(offset)
        stream.write(bytes([byte ^ 1 << bit]))


def judge(read: Callable[[], Any], wanted: np.ndarray) -> str:
    """Return the outcome of a read; the process ends by SIGALRM if that takes too long."""
    signal.alarm(_TIMEOUT)
    try:
        return "right" if is_same(np.asarray(read()), wanted) else "wrong"
    except BaseException:  # a panic in a Rust library is not an Exception
        return "raised"
    finally:
        signal.alarm(0)


def is_same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether dtype, shape and every bit are the same."""
    return (
        found.dtype == wanted.dtype
        and found.shape == wanted.shape
        and bool(np.array_equal(found.view(np.uint32), wanted.view(np.uint32)))
    )


def read_cut(contender: Contender, path: Path, wanted: np.ndarray) -> dict[str, Any]:
    """Return the outcome of a whole read, and of reads of single chunks, of a cut file."""
    chunks = {"right": 0, "wrong": 0, "raised": 0}
    found = {"read": judge(lambda: contender.read(path), wanted), "chunks": chunks}

    def read_rows(rows: slice) -> np.ndarray:
        with contender.open(path) as handle:
            return handle[rows]

    for rows in _chunks_of(wanted):
        chunks[judge(partial(read_rows, rows), wanted[rows])] += 1
    if isinstance(contender, Ours):
        target = path.with_name("recovered")
        filled = bp.load(path, on_error="fill", fill_value=np.nan)
        found["filled"] = _count(filled, wanted)
        bp.recover(path, target)
        found["recovered"] = _count(bp.load(target), wanted)
        remove(target)
    return found


def _chunks_of(array: np.ndarray) -> Iterator[slice]:
    for start in range(0, len(array), ZSTD.chunk_rows):
        yield slice(start, min(start + ZSTD.chunk_rows, len(array)))


def _count(found: np.ndarray, wanted: np.ndarray) -> int:
    """Return how many chunks from the start are right."""
    are_right = (is_same(found[rows], wanted[rows]) for rows in _chunks_of(wanted))
    return sum(1 for _ in takewhile(bool, are_right))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
