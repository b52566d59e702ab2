"""Cases: whole arrays, parts of them, opening and appending; memory and damage."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import numpy as np
from race.races import Benchmark, Case, remove, require, require_equal, size_of
from race.timing import BARE, NTHREADS, OURS, Loop, cycling, loop_of, timed_loop

import bloscpack as bp
from peers.arrays import Arrays
from peers.changes import race_changes
from peers.contenders import Contender
from peers.damage import damage_files
from peers.data import (
    LZ4,
    LZ4_SMALL,
    ROW_NBYTES,
    SETTINGS,
    SMALL,
    SPECS,
    ZSTD,
    ZSTD_SMALL,
    Spec,
)
from peers.formats import Ours, chunk_places
from peers.memory import measure_memory

_SEED = 7
_NROWS = 4096  # distinct rows, so that no cache of decoded data can hold them
_NCHECKED = 200
_PER_CALL = 32
_BLOCK_ROWS, _BLOCK_COLUMNS = 16, slice(200, 700)
_STEP = 16
_NITERATED = 2  # chunks
_NCHUNKS = 1000
_NAPPENDED = 16  # chunks before
_TINY_NITEMS = 4  # float32 in a chunk of the file of very many


def race_whole(races: Arrays) -> None:
    """Read and write whole arrays, and find their sizes."""
    for spec in SPECS:
        _race_read(races, spec)
    readers = [one for one in races.contenders if not one.works or "read" in one.works]
    races.found["sizes"] = {
        str(spec): {one.name: size_of(races.path_of(one, spec)) for one in readers}
        for spec in SPECS
    }
    if races.has(BARE):
        for spec in SPECS:
            ours = sum(size for _, size in chunk_places(races.path_of(Ours(), spec)))
            require(races.found["sizes"][str(spec)][BARE] == ours, BARE, "the size of our chunks")
    for spec in (LZ4, ZSTD, LZ4_SMALL):
        _race_write(races, spec, in_memory=True)
    if races.on_disk:
        for spec in (LZ4, ZSTD):
            _race_write(races, spec, in_memory=False)
    if NTHREADS > 1:
        for spec in (LZ4, ZSTD):
            _race_threads(races, spec)


def _race_read(races: Arrays, spec: Spec) -> None:
    """Open a file, read all into a new array, close it."""
    array = races.array
    case = Case(f"read/{spec}", f"whole read, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = races.path_of(contender, spec)
        require_equal(contender.read(path), array, contender.name, "the array")
        return {contender.name: loop_of(lambda: contender.read(path))}

    original = races.loop_of_original("load", array, path=races.path_of(Ours(), spec))
    races.race(case, prepare, original, is_plain=spec.chunk_rows == SMALL)


def _race_write(races: Arrays, spec: Spec, *, in_memory: bool) -> None:
    """Write all to a new file."""
    array = races.array
    where = "in memory" if in_memory else "to the disk"
    folder = races.memory_folder if in_memory and races.on_disk else races.folder
    name = f"write/{spec}" if in_memory else f"write/disk, {spec}"
    case = Case(name, f"whole write {where}, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = folder / f"write, {contender.name}"
        loop = timed_loop(lambda: contender.write(path, array, spec), lambda: remove(path))
        loop(1)
        require_equal(contender.read(path), array, contender.name, "the array")
        return {contender.name: loop}

    original = races.loop_of_original(
        "save",
        array,
        array=races.folder / "array.npy",
        path=folder / "write, the original",
        chunk_nbytes=spec.chunk_nbytes,
        codec=spec.codec,
        clevel=spec.clevel,
    )
    races.race(case, prepare, original, is_plain=spec.chunk_rows == SMALL)
    _clean(folder, "write, *")


def _race_threads(races: Arrays, spec: Spec) -> None:
    """Read all with one thread and with all."""
    array = races.array
    case = Case(f"threads/{spec}", f"whole read by threads, {spec}", array.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        if not contender.is_parallel:
            raise NotImplementedError("it reads with one thread")
        loops, path = {}, races.path_of(contender, spec)
        for nthreads in (1, NTHREADS):
            read = partial(contender.read, path, nthreads)
            require_equal(read(), array, contender.name, "the array")
            loops[threads_name(contender.name, nthreads)] = loop_of(read)
        return loops

    races.race(case, prepare, is_plain=True)


def threads_name(name: str, nthreads: int) -> str:
    """Return the label of a contender with a number of threads."""
    return f"{name}, {nthreads} thread{'s' * (nthreads > 1)}"


def race_parts(races: Arrays) -> None:
    """Read rows, blocks and strides of files with large and small chunks."""
    blocks = [
        (slice(row, row + _BLOCK_ROWS), _BLOCK_COLUMNS) for row in _random_rows(races, _BLOCK_ROWS)
    ]
    stride = slice(None, None, _STEP)
    for spec in (ZSTD, ZSTD_SMALL):
        title = f"random row of {ROW_NBYTES} bytes"
        _race_indexing(races, "row", title, spec, _random_rows(races))
        _race_first_touch(races, spec)
        _race_indexing(races, "block", f"random block of {_BLOCK_ROWS} x 500", spec, blocks)
        _race_indexing(races, "stride", f"a[::{_STEP}]", spec, [stride])
    _race_iteration(races, ZSTD)


def _random_rows(races: Arrays, margin: int = 0) -> list[int]:
    """Return many distinct rows in random order, the same for every call."""
    rng = np.random.default_rng(_SEED)
    return [*map(int, rng.permutation(len(races.array) - margin)[:_NROWS])]


def _require_parts(get: Callable[[Any], Any], array: Any, parts: list[Any], who: str) -> None:
    for part in parts:
        require_equal(get(part), array[part], who, f"a[{part}]")


def _race_indexing(races: Arrays, key: str, title: str, spec: Spec, parts: list[Any]) -> None:
    """Read parts by a handle that has read a row of every chunk before."""
    array, per_call = races.array, min(len(parts), _PER_CALL)
    case = Case(f"{key}/{spec}", f"{title}, {spec}", array[parts[0]].nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        handle = races.closing.enter_context(contender.open(races.path_of(contender, spec)))
        for row in range(0, len(array), spec.chunk_rows):
            handle[row]
        _require_parts(handle.__getitem__, array, parts[:_NCHECKED], contender.name)
        return {contender.name: loop_of(cycling(handle.__getitem__, parts, per_call))}

    races.race(case, prepare, None, per_call, is_plain=key != "row", is_part=key != "stride")


def _race_first_touch(races: Arrays, spec: Spec) -> None:
    """Read a row of chunks that a new handle has not touched."""
    array = races.array
    rng = np.random.default_rng(_SEED)
    nchunks = len(array) // spec.chunk_rows  # the last, shorter one left out
    starts = np.sort(rng.permutation(nchunks)[:_PER_CALL]) * spec.chunk_rows
    rows = [*map(int, rng.permutation(starts + rng.integers(0, spec.chunk_rows, len(starts))))]
    case = Case(f"first/{spec}", f"first touch of a chunk, one row, {spec}", ROW_NBYTES)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = races.path_of(contender, spec)
        with contender.open(path) as handle:
            _require_parts(handle.__getitem__, array, rows, contender.name)

        def loop(count: int) -> float:
            seconds = 0.0
            for _ in range(count):
                with contender.open(path) as handle:
                    seconds += timed_loop(lambda: [handle[row] for row in rows])(1)
            return seconds

        return {contender.name: loop}

    races.race(case, prepare, None, len(rows), is_part=True)


def _race_iteration(races: Arrays, spec: Spec) -> None:
    """Iterate over the rows of a few chunks."""
    nrows = _NITERATED * spec.chunk_rows
    array = races.array[:nrows]
    case = Case(f"iterate/{spec}", f"a row of `for row in a`, {spec}", ROW_NBYTES)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = races.path_of(contender, spec, nrows)

        def iterate() -> int:
            with contender.open(path) as handle:
                return sum(1 for _ in handle)

        with contender.open(path) as handle:
            require_equal(list(handle), array, contender.name, "a row")
        require(iterate() == len(array), contender.name, "the number of rows")
        return {contender.name: loop_of(iterate)}

    races.race(case, prepare, None, len(array), is_plain=True)


def race_files(races: Arrays) -> None:
    """Open files, and append to them."""
    _race_open(races)
    _race_append(races, races.folder, "")
    if races.on_disk:
        _race_append(races, races.memory_folder, " in memory")


def _race_open(races: Arrays) -> None:
    """Open a file of 1,000 chunks of 64 KB and close it; ours also of a million chunks, or rows."""
    nrows = min(_NCHUNKS * ZSTD_SMALL.chunk_rows, len(races.array))
    nchunks = -(-nrows // ZSTD_SMALL.chunk_rows)
    case = Case("open", f"open a file of {nchunks:,} chunks", 0)

    def opening(contender: Contender, path: Path) -> Loop:
        def call() -> None:
            with contender.open(path):
                pass

        return loop_of(call)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = races.path_of(contender, ZSTD_SMALL, nrows)
        loops = {contender.name: opening(contender, path)}
        if contender.name == OURS:
            loops[tiny_name(races.setting.ntiny)] = opening(contender, _write_tiny(races))
            loops[grown_name(races.setting.ntiny)] = opening(contender, _write_grown(races))
        return loops

    races.race(case, prepare, is_plain=True, is_part=True)


def _write_tiny(races: Arrays) -> Path:
    """Return our file of very many chunks of 16 bytes."""
    ntiny = races.setting.ntiny
    path = races.folder / "tiny"
    values = np.arange(ntiny * _TINY_NITEMS, dtype=np.float32).reshape(ntiny, _TINY_NITEMS)
    bp.save(path, values, chunks=1, codec="lz4", clevel=0)
    with bp.open(path) as array:
        require(array.nchunks == ntiny, OURS, "the number of chunks")
        require_equal(array[-1], values[-1], OURS, "the last row")
    return path


def tiny_name(ntiny: int) -> str:
    """Return the label of opening the file of very many chunks."""
    return f"{OURS}, {ntiny:,} chunks"


def _write_grown(races: Arrays) -> Path:
    """Return our file of as many rows, appended in very many commits."""
    path = races.memory_folder / "grown"
    values = np.arange(races.setting.ntiny, dtype=np.float32)
    first, *others = np.split(values, 10 * races.setting.ncommits)
    bp.save(path, first)
    for rows in others:
        with bp.open(path, "a") as array:
            array.append(rows)
    with bp.open(path) as array:
        require_equal(array[...], values, OURS, "the grown file")
    return path


def grown_name(nrows: int) -> str:
    """Return the label of opening the file that grew by very many commits."""
    return f"{OURS}, {nrows:,} rows appended in parts"


def _race_append(races: Arrays, folder: Path, where: str) -> None:
    """Open a file, append 1 MiB, close it."""
    nrows = min(_NAPPENDED * ZSTD.chunk_rows, len(races.array) - ZSTD.chunk_rows)
    rows = races.array[nrows : nrows + ZSTD.chunk_rows]
    wanted = races.array[: nrows + ZSTD.chunk_rows]
    case = Case(f"append{where}", f"open, append 1 MiB, close{where}, {ZSTD}", rows.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        if not contender.can_grow:
            raise NotImplementedError("it cannot append")
        pristine = races.path_of(contender, ZSTD, nrows)
        path = folder / f"append, {contender.name}"

        def renew() -> None:
            remove(path)
            (copytree if pristine.is_dir() else copyfile)(pristine, path)

        def append() -> None:
            with contender.appender(path) as append_rows:
                append_rows(rows)

        renew()
        append()
        require_equal(contender.read(path), wanted, contender.name, "the grown array")
        return {contender.name: timed_loop(append, renew)}

    races.race(case, prepare, is_plain=True)
    _clean(folder, "append, *")


def _clean(folder: Path, pattern: str) -> None:
    """Remove files and folders of a pattern."""
    for entry in folder.glob(pattern):
        remove(entry)


BENCHMARK = Benchmark(
    Arrays,
    {
        "whole": race_whole,
        "parts": race_parts,
        "files": race_files,
        "changes": race_changes,
        "memory": measure_memory,
        "damage": damage_files,
    },
    SETTINGS,
    always=(OURS, BARE),
)
