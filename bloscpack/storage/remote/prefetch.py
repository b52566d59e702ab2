"""Prefetching of remote objects, where every read would be a request.

For files and memory nothing is prefetched, as a read costs no more than a copy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from .. import disk
from ..protocol import ByteSource, Extent, Prefetch
from ..runs import REMOTE

# Largest group of stored bytes; two groups are in memory at a time.
MAX_GROUP_NBYTES = 32 << 20
# Size of the first group if the caller may stop early.
_FIRST_NBYTES = 1 << 20

Item = TypeVar("Item")
Piece = TypeVar("Piece", bound=tuple[Any, ...])
Place = tuple[ByteSource, int, int]
"""Source, offset and size in bytes."""


def prefetched(
    source: ByteSource,
    items: Sequence[Item],
    extent_of: Callable[[Item], Extent | None],
    *,
    ramps: bool = False,
) -> Iterator[Sequence[Item]]:
    """Yield `items` in groups, in order; the bytes of a group stay in memory until the next one.

    Parameters
    ----------
    source : ByteSource
        Source of the items. Without latency, all items form one group.
    items : sequence
        Items that will be read.
    extent_of : callable
        Returns the offset and size of an item; None if they are not known, and the item is read
        without prefetching.
    ramps : bool, default False
        Begin with small groups, for a caller that may stop early.

    Notes
    -----
    The next group is fetched in the background, so two groups are in memory.
    """
    if not source.has_latency:
        yield items
        return

    def place_of(item: Item) -> Place | None:
        extent = extent_of(item)
        return None if extent is None else (source, *extent)

    yield from _one_ahead(_groups(items, place_of, _FIRST_NBYTES if ramps else MAX_GROUP_NBYTES))


def copy_to(source: ByteSource, stream: Any, name: str) -> None:
    """Write all bytes of a source to a stream, by requests of 8 MiB from a remote one.

    Write errors get the `name` of the stream.
    """
    size = source.size()
    extents = [
        (offset, min(REMOTE.max_nbytes, size - offset))
        for offset in range(0, size, REMOTE.max_nbytes)
    ]
    for group in prefetched(source, extents, lambda extent: extent):
        for extent in group:
            data = source.read_at(*extent)
            with disk.naming(name):
                stream.write(data)
    with disk.naming(name):
        stream.flush()


def prefetched_pieces(pieces: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """Yield pieces of several sources in groups as `prefetched` does, sorted by file and offset.

    A piece is a tuple that begins with its source, offset and size. If no source has latency, all
    pieces form one group in the given order.
    """
    if not any(map(attrgetter("has_latency"), set(map(itemgetter(0), pieces)))):
        yield pieces
        return
    ordered = sorted(pieces, key=lambda piece: (str(piece[0].name), piece[1]))
    yield from _one_ahead(_groups(ordered, itemgetter(0, 1, 2), MAX_GROUP_NBYTES))


@contextmanager
def at_hand(places: Iterable[Place]) -> Iterator[None]:
    """Prefetch remote places, (source, offset, size) each, and hold them in memory in the block.

    For reads that depend on each other. Nothing is fetched if the total exceeds 64 MiB.
    """
    remote = [place for place in places if place[0].has_latency]
    if not remote or sum(place[2] for place in remote) > 2 * MAX_GROUP_NBYTES:
        yield
        return
    prefetches = _start(remote)
    try:
        _arrived((), prefetches)
        yield
    finally:
        _end(prefetches)


def _one_ahead(
    groups: Iterator[tuple[Sequence[Item], list[Prefetch]]],
) -> Iterator[Sequence[Item]]:
    """Yield the items of each group when it has arrived, while the next group is fetched."""
    under_way: list[tuple[Sequence[Item], list[Prefetch]]] = []
    try:
        for group in groups:
            under_way.append(group)
            if len(under_way) == 2:
                yield _arrived(*under_way[0])
                _end(under_way.pop(0)[1])
        if under_way:
            yield _arrived(*under_way[0])
    finally:
        for _, prefetches in under_way:
            _end(prefetches)


def _arrived(items: Sequence[Item], prefetches: list[Prefetch]) -> Sequence[Item]:
    for prefetch in prefetches:
        prefetch.wait()
    return items


def _end(prefetches: list[Prefetch]) -> None:
    for prefetch in prefetches:
        prefetch.end()


def _groups(
    items: Sequence[Item], place_of: Callable[[Item], Place | None], limit: int
) -> Iterator[tuple[Sequence[Item], list[Prefetch]]]:
    """Yield groups with their prefetches; `limit` bounds the first and doubles for each."""
    group: list[Item] = []
    places: list[Place] = []
    nbytes = 0
    for item in items:
        place = place_of(item)
        if group and nbytes + (place[2] if place else 0) > limit:
            yield group, _start(places)
            group, places, nbytes = [], [], 0
            limit = min(2 * limit, MAX_GROUP_NBYTES)
        group.append(item)
        if place is not None:
            places.append(place)
            nbytes += place[2]
    if group:
        yield group, _start(places)


def _start(places: Iterable[Place]) -> list[Prefetch]:
    by_source: dict[int, tuple[ByteSource, list[Extent]]] = {}
    for source, offset, nbytes in places:
        if source.has_latency:
            by_source.setdefault(id(source), (source, []))[1].append((offset, nbytes))
    return [source.prefetch(extents) for source, extents in by_source.values()]
