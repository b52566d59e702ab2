"""Batched reads of many stored pieces: sorted, coalesced, read by position, decoded on threads.

The caller gives the position of each piece and a function that decodes it. This module decides
the order of the reads, the number of calls and the number of threads, for every kind of source.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..exceptions import TruncatedError
from ..parallel.scratch import Scratch
from ..parallel.threads import resolve_nthreads, run_indexed
from ..types import BytesLike
from .file import FileSource
from .protocol import ByteSource
from .remote.prefetch import prefetched_pieces

# Largest read of one call: it stays in the cache of a core until it is decoded.
MAX_RUN_NBYTES = 1 << 18
# Largest gap that is read rather than skipped: a call costs about as much as 16 KiB of it, and
# with several threads also some waiting for the interpreter lock.
MAX_GAP_NBYTES = 1 << 15
# Runs for each thread, so that no thread waits long for the last one.
_RUNS_PER_THREAD = 4


class Piece(NamedTuple):
    """Stored bytes and the function that decodes them.

    Attributes
    ----------
    source : ByteSource
        Source of the bytes.
    offset, nbytes : int
        Extent in `source`.
    decode : callable
        Called with a view of the bytes, which is valid only during the call; stores the decoded
        result itself. Called in any order and from any thread.
    into : memoryview, optional
        Buffer of `nbytes` bytes for a piece that needs no decoding: the bytes are read directly
        into it, and `decode` is called with this view.
    """

    source: ByteSource
    offset: int
    nbytes: int
    decode: Callable[[memoryview], None]
    into: memoryview | None = None


def fetch(pieces: Sequence[Piece], *, nthreads: int | None, nbytes: int) -> None:
    """Read and decode all `pieces`.

    Parameters
    ----------
    pieces : sequence of Piece
        In any order; the overlap of pieces is read once.
    nthreads : int or None
        Threads to decode with; see `threads.resolve_nthreads`.
    nbytes : int
        Cost of decoding, as the decoded size of a Blosc chunk that takes equally long.

    Raises
    ------
    TruncatedError
        A source ends before a piece does.
    Exception
        The error of `decode`; if several fail, that of the first piece in the file.
    """
    nthreads = resolve_nthreads(nthreads, nbytes)
    for group in prefetched_pieces(pieces):
        runs = list(_coalesce(group, nthreads))
        run_indexed(_reader(runs), range(len(runs)), nthreads)


def _reader(runs: list[list[Piece]]) -> Callable[[int], None]:
    return lambda index: _read_run(runs[index])


def _coalesce(pieces: Sequence[Piece], nthreads: int) -> Iterator[list[Piece]]:
    """Yield the pieces in file order, in runs that one call reads."""
    ordinals: dict[int, int] = {}
    for piece in pieces:
        ordinals.setdefault(id(piece.source), len(ordinals))
    limit = len(pieces)
    if nthreads > 1:
        limit = max(1, limit // (nthreads * _RUNS_PER_THREAD))
    run: list[Piece] = []
    end = 0
    for piece in sorted(pieces, key=lambda each: (ordinals[id(each.source)], each.offset)):
        stop = piece.offset + piece.nbytes
        if run and not (
            piece.into is None
            and run[-1].into is None
            and piece.source is run[0].source
            and piece.offset <= end + MAX_GAP_NBYTES
            and (max(stop, end) - run[0].offset <= MAX_RUN_NBYTES or stop <= end)
            and len(run) < limit
        ):
            yield run
            run = []
        end = max(stop, end) if run else stop
        run.append(piece)
    if run:
        yield run


def _read_run(run: list[Piece]) -> None:
    source, start = run[0].source, run[0].offset
    nbytes = max(piece.offset + piece.nbytes for piece in run) - start
    if run[0].into is not None:
        _read_straight(run[0], run[0].into)
        return
    if not isinstance(source, FileSource):
        _decode_run(run, source.read_at(start, nbytes))
        return
    if nbytes > MAX_RUN_NBYTES:  # a size from a damaged file may exceed the source
        nbytes = max(0, min(nbytes, source.size() - start))
    with Scratch(nbytes) as view, view[: source.read_into(start, view)] as stored:
        _decode_run(run, stored)


def _read_straight(piece: Piece, view: memoryview) -> None:
    source = piece.source
    if isinstance(source, FileSource):
        found = source.read_into(piece.offset, view)
    else:
        stored = source.read_at(piece.offset, len(view))
        found = len(stored)
        view[:found] = stored
    if found < len(view):
        raise _cut_off(piece, found)
    piece.decode(view)


def _cut_off(piece: Piece, found: int) -> TruncatedError:
    return TruncatedError(
        f"{piece.nbytes} bytes expected at offset {piece.offset}; found {found}",
        offset=piece.offset,
    ).at(path=piece.source.name)


def _decode_run(run: list[Piece], stored: BytesLike) -> None:
    start = run[0].offset
    with memoryview(stored) as view:
        for piece in run:
            _, offset, nbytes, decode, _ = piece
            first = offset - start
            if first + nbytes > len(view):
                raise _cut_off(piece, max(0, len(view) - first))
            with view[first : first + nbytes] as data:
                decode(data)
