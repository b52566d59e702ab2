"""Batched reads of many stored pieces: sorted, joined, read by position, decoded on threads.

The caller gives the position of each piece and a function that decodes it. This module decides
the order of the reads, the number of calls and the number of threads, for every kind of source.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ..exceptions import TruncatedError
from ..parallel.scratch import Scratch
from ..parallel.threads import resolve_nthreads, run_indexed
from ..types import BytesLike
from .coalescing import LOCAL, most_per_run, plan_runs
from .file import FileSource
from .protocol import ByteSource
from .remote.prefetch import prefetched_pieces

# Decoded bytes per thread, as those of a Blosc chunk, unless the number of threads is given. A
# second thread costs 0.2 to 0.5 ms of processor time, for its start and for waiting, with every
# codec (bench/threads.py). 8 MiB take 2 ms, so that is about a tenth of the time of two threads.
LEAST_NBYTES = 8 << 20


class Piece(NamedTuple):
    """Stored bytes and the function that decodes them."""

    source: ByteSource
    # Extent in `source`.
    offset: int
    nbytes: int
    # Called with a view of the bytes, which is valid only during the call; stores the decoded
    # result itself. Called in any order and from any thread.
    decode: Callable[[memoryview], None]
    # Buffer of `nbytes` bytes for a piece that needs no decoding: the bytes are read directly into
    # it, and `decode` is called with this view.
    into: memoryview | None = None


_Call = tuple[list[Piece], int, int]
"""Pieces that one call reads, and the offset and size in bytes of what it reads."""


def fetch(pieces: Sequence[Piece], *, nthreads: int | None, nbytes: float) -> None:
    """Read and decode all `pieces`.

    Parameters
    ----------
    pieces : sequence of Piece
        In any order; the overlap of pieces is read once.
    nthreads : int or None
        Threads to decode with; see `threads.resolve_nthreads`. By default, at most one per
        `LEAST_NBYTES`.
    nbytes : float
        Cost of decoding, as the decoded size of a Blosc chunk that takes equally long.

    Raises
    ------
    TruncatedError
        A source ends before a piece does.
    Exception
        The error of `decode`; if several fail, that of the first piece in the file.
    """
    nthreads = resolve_nthreads(nthreads, int(nbytes), least=LEAST_NBYTES)
    for group in prefetched_pieces(pieces):
        calls = list(_plan(group, nthreads))
        run_indexed(_reader(calls), range(len(calls)), nthreads)


def planned_nbytes(pieces: Sequence[Piece]) -> int:
    """Return how many bytes `fetch` reads from local files for these pieces, on one thread."""
    return sum(nbytes for _, _, nbytes in _plan(pieces, 1))


def _reader(calls: list[_Call]) -> Callable[[int], None]:
    return lambda index: _read_pieces(*calls[index])


def _plan(pieces: Sequence[Piece], nthreads: int) -> Iterator[_Call]:
    """Yield the pieces in file order, divided into those that one call reads."""
    if len(pieces) == 1:  # a single frame, where planning would show
        yield [*pieces], pieces[0].offset, pieces[0].nbytes
        return
    by_source: dict[int, list[Piece]] = {}
    for piece in pieces:
        by_source.setdefault(id(piece.source), []).append(piece)
    most = None if nthreads == 1 else most_per_run(len(pieces), nthreads)
    for found in by_source.values():
        found.sort(key=itemgetter(1))
        for is_direct, grouped in groupby(found, lambda piece: piece.into is not None):
            group = list(grouped)
            starts = [piece.offset for piece in group]
            stops = [piece.offset + piece.nbytes for piece in group]
            # A direct piece has a buffer of its own, so it takes a call of its own.
            for low, high, start, stop in plan_runs(starts, stops, LOCAL, 1 if is_direct else most):
                yield group[low:high], start, stop - start


def _read_pieces(pieces: list[Piece], start: int, nbytes: int) -> None:
    first = pieces[0]
    source, into = first.source, first.into
    if into is not None:
        found = source.read_into(start, into)
        if found < len(into):
            raise _cut_off(first, found)
        first.decode(into)
        return
    if not isinstance(source, FileSource):  # `read_into` may copy the bytes once more
        _decode(pieces, start, source.read_at(start, nbytes))
        return
    if nbytes > LOCAL.max_nbytes:  # a size from a damaged file may exceed the source
        nbytes = max(0, min(nbytes, source.size() - start))
    with Scratch(nbytes) as view, view[: source.read_into(start, view)] as stored:
        _decode(pieces, start, stored)


def _cut_off(piece: Piece, found: int) -> TruncatedError:
    return TruncatedError(
        f"{piece.nbytes} bytes expected at offset {piece.offset}; found {found}",
        offset=piece.offset,
    ).at(path=piece.source.name)


def _decode(pieces: list[Piece], start: int, stored: BytesLike) -> None:
    with memoryview(stored) as view:
        for piece in pieces:
            _, offset, nbytes, decode, _ = piece
            first = offset - start
            if first + nbytes > len(view):
                raise _cut_off(piece, max(0, len(view) - first))
            with view[first : first + nbytes] as data:
                decode(data)
