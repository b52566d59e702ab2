"""Files: opening one of many chunks, and appending."""

from collections.abc import Callable
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import numpy as np
from harness import OURS, Loop, loop_of
from races import Case, remove, require, timed_loop

import bloscpack as bp
from peers.contender import Contender
from peers.data import ZSTD, ZSTD_SMALL
from peers.race import Bench

_NCHUNKS = 1000
_NAPPENDED = 16  # chunks before
_TINY_NITEMS = 4  # float32 in a chunk of the file of very many


def race_files(bench: Bench) -> None:
    """Hold the races."""
    race_open(bench)
    race_append(bench, bench.folder, "")
    if bench.memory_folder is not None:
        race_append(bench, bench.memory_folder, " in memory")


def race_open(bench: Bench) -> None:
    """Open a file of 1,000 chunks of 64 KB and close it; ours also one of a million tiny chunks."""
    nrows = min(_NCHUNKS * ZSTD_SMALL.chunk_rows, len(bench.array))
    nchunks = -(-nrows // ZSTD_SMALL.chunk_rows)
    case = Case("open", f"open a file of {nchunks:,} chunks", 0)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = bench.path_of(contender, ZSTD_SMALL, nrows)
        loops = {contender.name: loop_of(lambda: open_and_close(contender, path))}
        if contender.name == OURS:
            tiny = write_tiny(bench)
            loops[tiny_name(bench.setting.ntiny)] = loop_of(lambda: open_and_close(contender, tiny))
        return loops

    bench.race(case, prepare, {}, is_plain=True, is_part=True)


def open_and_close(contender: Contender, path: Path) -> None:
    """Open and close."""
    with contender.open(path):
        pass


def write_tiny(bench: Bench) -> Path:
    """Return our file of very many chunks of 16 bytes."""
    ntiny = bench.setting.ntiny
    path = bench.folder / "tiny"
    values = np.arange(ntiny * _TINY_NITEMS, dtype=np.float32).reshape(ntiny, _TINY_NITEMS)
    bp.save(path, values, chunks=1, codec="lz4", clevel=0)
    with bp.open(path) as array:
        require(array.nchunks == ntiny, OURS, "the number of chunks")
        require(np.array_equal(array[-1], values[-1]), OURS, "the last row")
    return path


def tiny_name(ntiny: int) -> str:
    """Return how the opening of the file of very many chunks is called."""
    return f"{OURS}, {ntiny:,} chunks"


def race_append(bench: Bench, folder: Path, where: str) -> None:
    """Open a file, append 1 MiB, close it."""
    nrows = min(_NAPPENDED * ZSTD.chunk_rows, len(bench.array) - ZSTD.chunk_rows)
    rows = bench.array[nrows : nrows + ZSTD.chunk_rows]
    wanted = bench.array[: nrows + ZSTD.chunk_rows]
    case = Case(f"append{where}", f"open, append 1 MiB, close{where}, {ZSTD}", rows.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        if not contender.can_append:
            raise NotImplementedError("it cannot append")
        pristine = bench.path_of(contender, ZSTD, nrows)
        path = folder / f"append, {contender.name}"

        def append() -> None:
            with contender.appender(path) as append_rows:
                append_rows(rows)

        renew = _copier(pristine, path)
        renew()
        append()
        require(np.array_equal(contender.read(path), wanted), contender.name, "the grown array")
        return {contender.name: timed_loop(append, renew)}

    bench.race(case, prepare, {}, is_plain=True)
    for entry in folder.glob("append, *"):
        remove(entry)


def _copier(source: Path, target: Path) -> Callable[[], Any]:
    def copy() -> None:
        remove(target)
        (copytree if source.is_dir() else copyfile)(source, target)

    return copy
