"""Prefetching of remote objects, where every read would be a request.

For files and memory nothing is prefetched, as a read costs no more than a copy.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from .. import disk
from ..coalescing import REMOTE
from ..protocol import ByteSource, Extent, Prefetch

# Stored bytes that are in memory or on their way at a time. As connections share the bandwidth, all
# of these arrive at about the same time; what is fetched next, while they are used.
_MAX_NBYTES = 64 << 20
# Largest group of stored bytes: one request if they are adjacent.
MAX_GROUP_NBYTES = REMOTE.max_nbytes
# Those that are under way when a further group is started.
_AHEAD_NBYTES = _MAX_NBYTES - MAX_GROUP_NBYTES
# Size of the first group of several, and by how much each one is larger than the one before.
_FIRST_NBYTES = 1 << 20
_STEP_NBYTES = 2 << 20

Item = TypeVar("Item")
Piece = TypeVar("Piece", bound=tuple[Any, ...])
Place = tuple[ByteSource, int, int]
"""Source, offset and size in bytes."""
Group = tuple[Sequence[Item], list[Prefetch], int]
"""Items, what fetches their bytes, and how many these are."""


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
        The caller may stop early: begin with a small group, and fetch little ahead.

    Notes
    -----
    The next groups are fetched in the background, so that up to 64 MiB are in memory; with `ramps`
    not much more than the caller has taken.
    """
    if not source.has_latency:
        yield items
        return

    def place_of(item: Item) -> Place | None:
        extent = extent_of(item)
        return None if extent is None else (source, *extent)

    ahead = 2 * _FIRST_NBYTES if ramps else _AHEAD_NBYTES
    yield from _ahead(_groups(items, place_of, ramps=ramps), ahead)


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
    yield from _ahead(_groups(ordered, itemgetter(0, 1, 2), ramps=False), _AHEAD_NBYTES)


@contextmanager
def at_hand(places: Iterable[Place]) -> Iterator[None]:
    """Prefetch remote places, (source, offset, size) each, and hold them in memory in the block.

    For reads that depend on each other. Nothing is fetched if the total exceeds 64 MiB.
    """
    remote = [place for place in places if place[0].has_latency]
    if not remote or sum(place[2] for place in remote) > _MAX_NBYTES:
        yield
        return
    prefetches = _start(remote)
    try:
        _wait(prefetches)
        yield
    finally:
        _end(prefetches)


def _ahead(groups: Iterator[Group[Item]], limit: int) -> Iterator[Sequence[Item]]:
    """Yield the items of each group when it has arrived, while the next groups are fetched.

    Groups are under way while they have at most `limit` bytes, and one more; `limit` grows by what
    was taken.
    """
    under_way: deque[Group[Item]] = deque()
    nbytes, is_last = 0, False
    try:
        while True:
            while not is_last and (len(under_way) < 2 or nbytes <= limit):
                group = next(groups, None)
                if group is None:
                    is_last = True
                else:
                    under_way.append(group)
                    nbytes += group[2]
            if not under_way:
                return
            items, prefetches, size = under_way[0]
            _wait(prefetches)
            yield items
            _end(prefetches)
            under_way.popleft()
            nbytes -= size
            limit = min(limit + size, _AHEAD_NBYTES)
    finally:
        for _, prefetches, _ in under_way:
            _end(prefetches)


def _wait(prefetches: list[Prefetch]) -> None:
    for prefetch in prefetches:
        prefetch.wait()


def _end(prefetches: list[Prefetch]) -> None:
    for prefetch in prefetches:
        prefetch.end()


def _groups(
    items: Iterable[Item], place_of: Callable[[Item], Place | None], *, ramps: bool
) -> Iterator[Group[Item]]:
    """Yield groups, whose bytes are requested at that moment.

    Each of the first groups is larger than the one before: as connections share the bandwidth,
    groups of one size would all arrive at the same time, and nothing be used before. Without
    `ramps`, items that fit in one group form one.
    """
    placed: Iterator[tuple[Item, Place | None]] = ((item, place_of(item)) for item in items)
    limit = _FIRST_NBYTES
    if not ramps:
        head, nbytes = [], 0
        for each in placed:
            head.append(each)
            nbytes += _size(each[1])
            if nbytes > MAX_GROUP_NBYTES:
                break
        else:
            limit = MAX_GROUP_NBYTES
        placed = chain(head, placed)
    group: list[Item] = []
    places: list[Place] = []
    nbytes = 0
    for item, place in placed:
        if group and nbytes + _size(place) > limit:
            yield group, _start(places), nbytes
            group, places, nbytes = [], [], 0
            limit = min(limit + _STEP_NBYTES, MAX_GROUP_NBYTES)
        group.append(item)
        if place is not None:
            places.append(place)
            nbytes += _size(place)
    if group:
        yield group, _start(places), nbytes


def _size(place: Place | None) -> int:
    return 0 if place is None else place[2]


def _start(places: Iterable[Place]) -> list[Prefetch]:
    by_source: dict[int, tuple[ByteSource, list[Extent]]] = {}
    for source, offset, nbytes in places:
        if source.has_latency:
            by_source.setdefault(id(source), (source, []))[1].append((offset, nbytes))
    return [source.prefetch(extents) for source, extents in by_source.values()]
