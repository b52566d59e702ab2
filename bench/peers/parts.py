"""Parts of an array: rows and blocks at random, a stride, and one row after the other."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from race.races import Case, require, require_equal
from race.timing import BARE, Loop, cycling, loop_of, timed_loop

from peers.bare import BareDecoder
from peers.contenders import Contender
from peers.data import ROW_NBYTES, ROW_NITEMS, ZSTD, ZSTD_SMALL, Spec

if TYPE_CHECKING:
    from peers.cases import Arrays

_SEED = 7
_NROWS = 4096  # distinct rows, so that no cache of decoded data can hold them
_NCHECKED = 200
_PER_CALL = 32
_BLOCK_ROWS, _BLOCK_COLUMNS = 16, slice(200, 700)
_STEP = 16
_NITERATED = 2  # chunks


def race_parts(races: "Arrays") -> None:
    """Read rows, blocks and strides of files with large and small chunks."""
    blocks = [
        (slice(row, row + _BLOCK_ROWS), _BLOCK_COLUMNS) for row in _random_rows(races, _BLOCK_ROWS)
    ]
    stride = slice(None, None, _STEP)
    for spec in (ZSTD, ZSTD_SMALL):
        title = f"random row of {ROW_NBYTES} bytes"
        _race_indexing(races, "row", title, spec, _random_rows(races), races.decoder(spec))
        _race_first_touch(races, spec)
        _race_indexing(races, "block", f"random block of {_BLOCK_ROWS} x 500", spec, blocks)
        _race_indexing(races, "stride", f"a[::{_STEP}]", spec, [stride])
    _race_iteration(races, ZSTD)


def _random_rows(races: "Arrays", margin: int = 0) -> list[int]:
    """Return many distinct rows in random order, the same for every call."""
    rng = np.random.default_rng(_SEED)
    return [*map(int, rng.permutation(len(races.array) - margin)[:_NROWS])]


def _require_parts(get: Callable[[Any], Any], array: Any, parts: list[Any], who: str) -> None:
    for part in parts:
        require_equal(get(part), array[part], who, f"a[{part}]")


def _race_indexing(
    races: "Arrays",
    key: str,
    title: str,
    spec: Spec,
    parts: list[Any],
    decoder: BareDecoder | None = None,
) -> None:
    """Read parts by a handle that has seen every chunk before; C-Blosc decodes single rows."""
    array, per_call = races.array, min(len(parts), _PER_CALL)
    case = Case(f"{key}/{spec}", f"{title}, {spec}", array[parts[0]].nbytes)

    def loops_of(name: str, get: Callable[[Any], Any]) -> dict[str, Loop]:
        _require_parts(get, array, parts[:_NCHECKED], name)
        return {name: loop_of(cycling(get, parts, per_call))}

    def prepare(contender: Contender) -> dict[str, Loop]:
        return loops_of(contender.name, _open_warm(races, contender, spec).__getitem__)

    others = {} if decoder is None else loops_of(BARE, decoder.decode_row)
    is_part = key != "stride"
    races.race(case, prepare, others, per_call, is_plain=key != "row", is_part=is_part)


def _open_warm(races: "Arrays", contender: Contender, spec: Spec) -> Any:
    """Return an open handle that has read a row of every chunk; it is closed with the run."""
    handle = races.closing.enter_context(contender.open(races.path_of(contender, spec)))
    for row in range(0, len(races.array), spec.chunk_rows):
        handle[row]
    return handle


def _race_first_touch(races: "Arrays", spec: Spec) -> None:
    """Read a row of chunks that a new handle has not touched; C-Blosc decodes these chunks."""
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

    others = {}
    if (decoder := races.decoder(spec)) is not None:
        out = np.empty((spec.chunk_rows, ROW_NITEMS), array.dtype)

        def decode_all() -> None:
            for row in rows:
                decoder.decode_chunk(row // spec.chunk_rows, out)

        decode_all()
        start = rows[-1] // spec.chunk_rows * spec.chunk_rows
        require_equal(out, array[start : start + len(out)], BARE, "a chunk")
        others[BARE] = loop_of(decode_all)
    races.race(case, prepare, others, len(rows), is_part=True)


def _race_iteration(races: "Arrays", spec: Spec) -> None:
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

    races.race(case, prepare, {}, len(array), is_plain=True)
