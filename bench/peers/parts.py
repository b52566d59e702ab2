"""Parts of an array: rows and blocks at random, a stride, and one row after the other."""

from typing import Any

import numpy as np
from harness import BARE, Loop, loop_of
from races import Case, cycling, require, timed_loop

from peers.contender import Contender
from peers.data import ROW_NBYTES, ROW_NITEMS, ZSTD, ZSTD_SMALL, Spec
from peers.race import Bench

_SEED = 7
_NROWS = 4096  # distinct rows, so that no cache of decoded data can hold them
_PER_CALL = 32
_BLOCK_ROWS, _BLOCK_COLUMNS = 16, slice(200, 700)
_STEP = 16
_NITERATED = 2  # chunks


def race_parts(bench: Bench) -> None:
    """Hold the races."""
    for spec in (ZSTD, ZSTD_SMALL):
        race_rows(bench, spec)
        race_first_touch(bench, spec)
        race_blocks(bench, spec)
        race_stride(bench, spec)
    race_iteration(bench, ZSTD)


def random_rows(bench: Bench, margin: int = 0) -> list[int]:
    """Return many distinct rows in random order, the same for every call."""
    rng = np.random.default_rng(_SEED)
    return [*map(int, rng.permutation(len(bench.array) - margin)[:_NROWS])]


def race_rows(bench: Bench, spec: Spec) -> None:
    """Read single rows by a handle that has seen every chunk before."""
    array, rows = bench.array, random_rows(bench)
    case = Case(f"row/{spec}", f"random row of {ROW_NBYTES} bytes, {spec}", ROW_NBYTES)

    def prepare(contender: Contender) -> dict[str, Loop]:
        handle = open_warm(bench, contender, spec)
        for row in rows[:200]:
            require(np.array_equal(handle[row], array[row]), contender.name, f"row {row}")
        return {contender.name: loop_of(cycling(handle.__getitem__, rows, _PER_CALL))}

    others = {}
    if (decoder := bench.decoder(spec)) is not None:
        for row in rows[:200]:
            require(np.array_equal(decoder.decode_row(row), array[row]), BARE, f"row {row}")
        others[BARE] = loop_of(cycling(decoder.decode_row, rows, _PER_CALL))
    bench.race(case, prepare, others, _PER_CALL, is_part=True)


def open_warm(bench: Bench, contender: Contender, spec: Spec) -> Any:
    """Return an open handle that has read a row of every chunk; it is closed with the process."""
    entered = contender.open(bench.path_of(contender, spec))
    handle = entered.__enter__()
    bench.closing.push(entered.__exit__)
    for row in range(0, len(bench.array), spec.chunk_rows):
        handle[row]
    return handle


def race_first_touch(bench: Bench, spec: Spec) -> None:
    """Read a row of chunks that a new handle has not touched; C-Blosc decodes these chunks."""
    array = bench.array
    rng = np.random.default_rng(_SEED)
    nchunks = len(array) // spec.chunk_rows  # the last, shorter one left out
    starts = np.sort(rng.permutation(nchunks)[:_PER_CALL]) * spec.chunk_rows
    rows = [*map(int, rng.permutation(starts + rng.integers(0, spec.chunk_rows, len(starts))))]
    case = Case(f"first/{spec}", f"first touch of a chunk, one row, {spec}", ROW_NBYTES)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = bench.path_of(contender, spec)
        with contender.open(path) as handle:
            for row in rows:
                require(np.array_equal(handle[row], array[row]), contender.name, f"row {row}")

        def loop(count: int) -> float:
            seconds = 0.0
            for _ in range(count):
                with contender.open(path) as handle:
                    seconds += timed_loop(lambda: [handle[row] for row in rows])(1)
            return seconds

        return {contender.name: loop}

    others = {}
    if (decoder := bench.decoder(spec)) is not None:
        out = np.empty((spec.chunk_rows, ROW_NITEMS), array.dtype)

        def decode_all() -> None:
            for row in rows:
                decoder.decode_chunk(row // spec.chunk_rows, out)

        decode_all()
        start = rows[-1] // spec.chunk_rows * spec.chunk_rows
        require(np.array_equal(out, array[start : start + len(out)]), BARE, "a chunk")
        others[BARE] = loop_of(decode_all)
    bench.race(case, prepare, others, len(rows), is_part=True)


def race_blocks(bench: Bench, spec: Spec) -> None:
    """Read 16 rows x 500 columns, anywhere."""
    array = bench.array
    blocks = [
        (slice(row, row + _BLOCK_ROWS), _BLOCK_COLUMNS) for row in random_rows(bench, _BLOCK_ROWS)
    ]
    nbytes = array[blocks[0]].nbytes
    case = Case(f"block/{spec}", f"random block of {_BLOCK_ROWS} x 500, {spec}", nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        handle = open_warm(bench, contender, spec)
        for block in blocks[:100]:
            require(np.array_equal(handle[block], array[block]), contender.name, f"{block}")
        return {contender.name: loop_of(cycling(handle.__getitem__, blocks, _PER_CALL))}

    bench.race(case, prepare, {}, _PER_CALL, is_plain=True, is_part=True)


def race_stride(bench: Bench, spec: Spec) -> None:
    """Read every 16th row of all."""
    wanted = bench.array[::_STEP]
    case = Case(f"stride/{spec}", f"a[::{_STEP}], {spec}", wanted.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        handle = open_warm(bench, contender, spec)
        require(np.array_equal(handle[::_STEP], wanted), contender.name, f"a[::{_STEP}]")
        return {contender.name: loop_of(lambda: handle[::_STEP])}

    bench.race(case, prepare, {}, is_plain=True)


def race_iteration(bench: Bench, spec: Spec) -> None:
    """Iterate over the rows of a few chunks."""
    nrows = _NITERATED * spec.chunk_rows
    array = bench.array[:nrows]
    case = Case(f"iterate/{spec}", f"a row of `for row in a`, {spec}", ROW_NBYTES)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = bench.path_of(contender, spec, nrows)

        def iterate() -> int:
            with contender.open(path) as handle:
                return sum(1 for _ in handle)

        with contender.open(path) as handle:
            require(np.array_equal(list(handle), array), contender.name, "a row")
        require(iterate() == len(array), contender.name, "the number of rows")
        return {contender.name: loop_of(iterate)}

    bench.race(case, prepare, {}, len(array), is_plain=True)
