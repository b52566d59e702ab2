"""A directory of the index: many clips in parts, of which one is read when a clip of it is needed.

A merged segment of many clips is written as several segments, the parts, and a directory, which has
no clips of its own. Its section of clips are pages of sorted hashes, each with the part that has
the id. Its section of metadata is a table: where the parts are, and where each page begins in the
order of the hashes. The table alone is read when the store is opened. It has a digest of each part
and of each page, so that these are verified when they are read.

A part is a segment like any other. Damage to one loses its clips, unless earlier segments stand for
them. docs/formats/frames.md, "Directory", describes every field.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from struct import Struct
from typing import TypeVar

import numpy as np
from xxhash import xxh3_64_digest

from ...exceptions import CodecError, FormatError
from ...storage.protocol import ByteSource
from ...types import BytesLike, IntArray
from .format import (
    CHUNK_SIZE,
    CLIP_SIZE,
    DIGEST_SIZE,
    FLAG_CHANGED,
    FLAG_DIRECTORY,
    FLAG_PART,
    TAIL_SIZE,
    Changes,
    Clips,
    Content,
    How,
    Metas,
    Section,
    Tail,
    pack_segment,
)
from .segment import Extent, Segment, read_section

# Numbers of parts, clips, chunks, bytes of metadata, and removed clips; `Changes.dead`; the first
# ordinal, the offset of the first part, and the end of the segment before it.
_TABLE = Struct("<9Q")
_PART_SIZE = 8 + 8 + DIGEST_SIZE  # its end, ordinals up to and including it, digest of its tail
_PAGE_SIZE = 8 + DIGEST_SIZE  # first hash, digest
# Hashes of a page, and bytes of each, with the number of its part.
PAGE_CLIPS = 1024
_ENTRY_SIZE = 8 + 4
# Limits on a part: clips, and decoded bytes unless it has one clip. It is read as a whole.
PART_CLIPS = 1024
PART_NBYTES = 1 << 19

_Read = TypeVar("_Read")


class Directory:
    """Directory, with those of its parts and pages that have been read."""

    def __init__(self, source: ByteSource, tail: Tail, table: BytesLike) -> None:
        self.tail = tail
        self._source = source
        self._parts: dict[int, Segment] = {}
        self._pages: dict[int, tuple[IntArray, IntArray]] = {}
        # Messages of damaged parts and pages, by offset, so that each is read once.
        self._damaged: dict[int, str] = {}
        if len(table) < _TABLE.size:
            raise FormatError("index: the table of a directory is cut", offset=tail.offset)
        nparts, nclips, nchunks, metas_nbytes, nremoved, self.dead, first, start, previous = (
            _TABLE.unpack_from(table)
        )
        npages = -(-nclips // PAGE_CLIPS)
        size = _TABLE.size + _PART_SIZE * nparts + _PAGE_SIZE * npages + 8 * nremoved
        fits = len(table) == size and tail.sections[0].stored == _ENTRY_SIZE * nclips
        if not fits or not nparts:
            raise FormatError("index: a directory has a wrong size", offset=tail.offset)
        self.extent = Extent(first, tail.total, start, previous, nclips, nchunks, metas_nbytes)
        columns, at = [], _TABLE.size
        for count in (nparts, nparts, nparts, npages, npages, nremoved):
            columns.append(np.frombuffer(table, "<u8", count, at))
            at += 8 * count
        self._ends, self._totals, self._tails, self._hashes, self._digests, removed = columns
        self._starts = np.concatenate((np.array([start], "<u8"), self._ends[:-1]))
        self._firsts = np.concatenate((np.array([first], "<u8"), self._totals[:-1]))
        self._bounds: list[int] | None = None
        self.removed: list[int] = removed.tolist()
        own = tail.total - first
        if not (
            self._ends[-1] == tail.offset == tail.previous
            and (self._starts < self._ends).all()
            and self._totals[-1] == tail.total
            and (self._firsts < self._totals).all()
            and (self._hashes[:-1] <= self._hashes[1:]).all()
            and (previous == 0) == (first == 0)
            and previous <= start
            and (nclips <= own if tail.has_changes else nclips == own)
            and (removed[:-1] < removed[1:]).all()
            and (not nremoved or (tail.has_changes and removed[-1] < tail.total))
            and self.dead <= tail.offset
        ):
            raise FormatError(
                "index: a field of a directory is out of its range", offset=tail.offset
            )

    @classmethod
    def read(cls, source: ByteSource, tail: Tail) -> "Directory":
        """Read the table of a directory."""
        return cls(source, tail, read_section(source, tail, 2))

    @property
    def ordinals(self) -> IntArray:
        """Ordinals of the clips, if the parts have no changes."""
        return np.arange(self.extent.first, self.extent.total)

    @property
    def places(self) -> IntArray:
        """Ordinals whose places the clips have, if the parts have no changes."""
        return self.ordinals

    def parts(self) -> Iterator[Segment]:
        """Yield the parts, in order; FormatError if one is damaged."""
        yield from map(self._part, range(len(self._ends)))

    def whole_parts(self, lost: list[FormatError]) -> Iterator[Segment]:
        """Yield the parts that are not damaged; the errors of the others are added to `lost`."""
        for number in range(len(self._ends)):
            try:
                yield self._part(number)
            except FormatError as err:
                lost.append(err)

    def check_pages(self, lost: list[FormatError]) -> None:
        """Add the errors of damaged pages to `lost`."""
        for number in range(len(self._digests)):
            try:
                self._page(number)
            except FormatError as err:
                lost.append(err)

    def locate(self, ordinal: int) -> tuple[Segment, int]:
        """Return the part of a clip, and its number there, or -1 if it has none."""
        if self._bounds is None:
            self._bounds = self._totals.tolist()  # bisecting a list takes a tenth of the time
        return self._part(bisect_right(self._bounds, ordinal)).locate(ordinal)

    def with_hash(self, hash_: int) -> Iterator[tuple[Segment, int]]:
        """Yield the part of each clip whose id has this hash, and its number there."""
        wanted = np.uint64(hash_)
        first = max(0, int(np.searchsorted(self._hashes, wanted)) - 1)
        stop = int(np.searchsorted(self._hashes, wanted, "right"))
        seen: set[int] = set()
        # The last page first: those before it have the hash only if several ids share it.
        for page in range(stop - 1, first - 1, -1):
            hashes, numbers = self._page(page)
            start, end = (int(np.searchsorted(hashes, wanted, side)) for side in ("left", "right"))
            for number in numbers[start:end].tolist():
                if number not in seen:
                    seen.add(number)
                    yield from self._part(number).with_hash(hash_)

    def hashes(self) -> IntArray:
        """Return the hash of the id of each clip, ascending."""
        return np.concatenate([self._page(page)[0] for page in range(len(self._digests))])

    def _part(self, number: int) -> Segment:
        if (part := self._parts.get(number)) is not None:
            return part
        start, end = int(self._starts[number]), int(self._ends[number])
        first, total = int(self._firsts[number]), int(self._totals[number])

        def read() -> Segment:
            data = self._source.read_at(start, end - start)
            tail = Tail.unpack(data[-TAIL_SIZE:], end)
            found = tail.offset, tail.first_clip, tail.total, bool(tail.flags & FLAG_PART)
            digest = self._tails[number].tobytes()
            if found != (start, first, total, True) or data[-DIGEST_SIZE:] != digest:
                raise FormatError("it is not the one that its directory lists")
            return Segment.read(_Part(self._source.name, start, data), tail)

        return self._once(self._parts, number, f"clips {first} to {total - 1}", start, read)

    def _page(self, number: int) -> tuple[IntArray, IntArray]:
        """Return the hashes of a page, and the number of the part of each."""
        if (page := self._pages.get(number)) is not None:
            return page
        at = PAGE_CLIPS * number
        count = min(PAGE_CLIPS, self.extent.nclips - at)
        offset = self.tail.offset + _ENTRY_SIZE * at

        def read() -> tuple[IntArray, IntArray]:
            data = self._source.read_at(offset, _ENTRY_SIZE * count)
            if xxh3_64_digest(data) != self._digests[number].tobytes():
                raise FormatError("its digest is not the one stored")
            hashes = np.frombuffer(data, "<u8", count)
            numbers = np.frombuffer(data, "<u4", count, 8 * count)
            is_sorted = (hashes[:-1] <= hashes[1:]).all() and hashes[0] == self._hashes[number]
            if not is_sorted or numbers.max() >= len(self._ends):
                raise FormatError("a hash or the number of a part is out of its range")
            return hashes, numbers

        return self._once(self._pages, number, f"page {number} of ids", offset, read)

    def _once(
        self,
        known: dict[int, _Read],
        number: int,
        what: str,
        offset: int,
        read: Callable[[], _Read],
    ) -> _Read:
        """Read a part or a page, and keep it; FormatError, each time, if it is damaged."""
        if offset not in self._damaged:
            try:
                found = known[number] = read()
            except (FormatError, CodecError) as err:
                text = err.args[0].removeprefix("index: ")
                self._damaged[offset] = f"index: {what}: {text}"
            else:
                return found
        raise FormatError(self._damaged[offset], offset=offset)


class _Part(ByteSource):
    """Bytes of a part, at their offsets in the file."""

    def __init__(self, name: str | None, start: int, data: BytesLike) -> None:
        self.name = name
        self._start = start
        self._data = data

    def size(self) -> int:
        """Return the end of the part."""
        return self._start + len(self._data)

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return bytes of the part."""
        return self._data[offset - self._start : offset - self._start + nbytes]


def pack_index(
    content: Content, *, offset: int, first_clip: int, previous: int, total: int = 0
) -> tuple[Tail, bytes]:
    """Return a compressed segment for the offset `offset`, or parts and their directory.

    Arguments as for `pack_segment`; the tail is the last one.
    """
    clips = content.clips
    nclips, chunk_ends = len(clips.nframes), clips.first_chunks()
    metas = Metas(content.metas, nclips)
    cuts = _cuts(clips, chunk_ends, metas)
    if len(cuts) <= 2:
        return pack_segment(
            content,
            offset=offset,
            first_clip=first_clip,
            previous=previous,
            compress=True,
            total=total,
        )
    planes = np.frombuffer(content.chunks, "u1").reshape(CHUNK_SIZE, -1)
    hashes = clips.hashes_in_order()
    total = total if clips.changes else first_clip + nclips
    packed, tails = [], []
    position, first, before = offset, first_clip, previous
    for start, stop in pairwise(cuts):
        following = total if stop == nclips else first_clip + stop
        if clips.changes and stop < nclips:
            following = int(clips.changes.ordinals[stop])
        part = Content(
            _slice_of(clips, start, stop, hashes[start:stop]),
            planes[:, chunk_ends[start] : chunk_ends[stop]].tobytes(),
            metas.pack([metas.text(number) for number in range(start, stop)]),
        )
        tail, data = pack_segment(
            part,
            offset=position,
            first_clip=first,
            previous=before,
            compress=True,
            total=following,
            flags=FLAG_PART,
        )
        tails.append(tail)
        packed.append(data)
        position, first, before = tail.end, tail.total, tail.end
    tail, data = _pack_directory(content, cuts, tails, [each[-DIGEST_SIZE:] for each in packed])
    return tail, b"".join((*packed, data))


def _cuts(clips: Clips, chunk_ends: IntArray, metas: Metas) -> list[int]:
    """Return the number of the first clip of each part, then the number of clips."""
    nclips = len(clips.nframes)
    ends = np.arange(nclips + 1) * (CLIP_SIZE + 8) + CHUNK_SIZE * chunk_ends
    ends[1:] += clips.id_ends.astype(np.int64) + metas.ends.astype(np.int64)
    cuts = [0]
    while cuts[-1] < nclips:
        start = cuts[-1]
        stop = int(np.searchsorted(ends, ends[start] + PART_NBYTES, "right")) - 1
        cuts.append(min(max(stop, start + 1), start + PART_CLIPS, nclips))
    return cuts


def _slice_of(clips: Clips, start: int, stop: int, hashes: IntArray) -> Clips:
    """Return some of the clips, with the formats that they have."""
    which, formats = np.unique(clips.formats[start:stop], return_inverse=True)
    changes = clips.changes
    if changes is not None:
        removed = changes.removed if not start else changes.removed[:0]
        changes = Changes(
            changes.ordinals[start:stop], changes.places[start:stop], removed, changes.dead
        )
    return Clips.of(
        clips.offsets[start:stop],
        clips.nframes[start:stop],
        formats,
        [clips.id_bytes(number) for number in range(start, stop)],
        [clips.rows[number] for number in which.tolist()],
        hashes,
        changes,
    )


def _pack_directory(
    content: Content, cuts: list[int], tails: list[Tail], digests: list[bytes]
) -> tuple[Tail, bytes]:
    """Return the directory of some parts, directly after them, and its tail."""
    clips, changes = content.clips, content.clips.changes
    numbers = np.searchsorted(cuts, clips.order, "right").astype("<u4") - np.uint32(1)
    pages = []
    for start in range(0, len(numbers), PAGE_CLIPS):
        here = slice(start, start + PAGE_CLIPS)
        pages.append(clips.hashes[here].tobytes() + numbers[here].tobytes())
    removed = np.zeros(0, "<u8") if changes is None else changes.removed
    first = tails[0]
    fields = (
        len(tails),
        len(numbers),
        sum(each.nchunks for each in tails),
        sum(each.sections[2].decoded for each in tails),
        len(removed),
        0 if changes is None else changes.dead,
        first.first_clip,
        first.offset,
        first.previous,
    )
    table = b"".join(
        (
            _TABLE.pack(*fields),
            np.array([each.end for each in tails], "<u8").tobytes(),
            np.array([each.total for each in tails], "<u8").tobytes(),
            *digests,
            clips.hashes[::PAGE_CLIPS].tobytes(),
            *map(xxh3_64_digest, pages),
            removed.astype("<u8").tobytes(),
        )
    )
    stored = b"".join(pages), b"", table
    sections = tuple(
        Section(len(each), len(each), xxh3_64_digest(each), How.RAW) for each in stored
    )
    flags = FLAG_DIRECTORY | (0 if changes is None else FLAG_CHANGED)
    nbytes = TAIL_SIZE + sum(map(len, stored))
    last = tails[-1]
    tail = Tail(0, 0, 0, last.total, last.end, nbytes, last.end, sections, 0, flags)
    return tail, b"".join((*stored, tail.pack()))


def written(source: ByteSource, tail: Tail, packed: bytes, clips: Clips) -> "Segment | Directory":
    """Return what `pack_index` made, to be read from `source`."""
    if not tail.flags & FLAG_DIRECTORY:
        return Segment(source, tail, clips)
    end = len(packed) - TAIL_SIZE
    return Directory(source, tail, packed[end - tail.sections[2].stored : end])
