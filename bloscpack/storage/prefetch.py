"""Fetching what will be read before it is, where every read is a request.

Nothing is done for files and memory: reading them costs no more than a copy.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard, TypeVar

from .protocol import ByteSource
from .remote import Extent, Prefetch, RemoteSource

# Stored bytes of a group; two are in memory at a time.
MAX_GROUP_NBYTES = 32 << 20
# Of the first group where somebody may stop soon.
_FIRST_NBYTES = 1 << 20

Item = TypeVar("Item")


def is_remote(source: ByteSource) -> TypeGuard[RemoteSource]:
    """Return whether every read of `source` may be a request."""
    return isinstance(source, RemoteSource)


def prefetched(
    source: ByteSource,
    items: Sequence[Item],
    extent_of: Callable[[Item], Extent | None],
    *,
    ramps: bool = False,
) -> Iterator[Sequence[Item]]:
    """Yield `items` in groups, in their order, what each needs at hand until the next is asked for.

    Parameters
    ----------
    source : ByteSource
        Where the items lie. If that is not remote all of them are one group.
    items : sequence
        What will be read.
    extent_of : callable
        Gives offset and size of an item, None if that is not known: it is read alone.
    ramps : bool, default False
        Begin with small groups, for whoever may stop early.

    Notes
    -----
    The next group is fetched meanwhile, so two are in memory.
    """
    if not is_remote(source):
        yield items
        return
    current: tuple[Sequence[Item], Prefetch] | None = None
    following: tuple[Sequence[Item], Prefetch] | None = None
    try:
        for group, extents in _groups(items, extent_of, ramps):
            following = group, source.prefetch(extents)
            if current is not None:
                current[1].wait()
                yield current[0]
                current[1].end()
            current, following = following, None
        if current is not None:
            current[1].wait()
            yield current[0]
    finally:
        for each in (current, following):
            if each is not None:
                each[1].end()


def _groups(
    items: Sequence[Item], extent_of: Callable[[Item], Extent | None], ramps: bool
) -> Iterator[tuple[list[Item], list[Extent]]]:
    limit = _FIRST_NBYTES if ramps else MAX_GROUP_NBYTES
    group: list[Item] = []
    extents: list[Extent] = []
    nbytes = 0
    for item in items:
        extent = extent_of(item)
        if group and nbytes + (extent[1] if extent else 0) > limit:
            yield group, extents
            group, extents, nbytes = [], [], 0
            limit = min(2 * limit, MAX_GROUP_NBYTES)
        group.append(item)
        if extent is not None:
            extents.append(extent)
            nbytes += extent[1]
    if group:
        yield group, extents
