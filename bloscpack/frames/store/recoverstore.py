"""Recover a damaged store: write a new store with all of its undamaged clips.

The index need not be intact. The search for segments runs from the end of the file. A segment
follows the clips it describes, so the search continues before those. If a segment is damaged, the
segments that were merged into it are found instead. Chunks are copied in stored form.
"""

from array import array
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from xxhash import xxh3_64_digest

from ...damage.report import Damage, Report, damage_of, message_of
from ...exceptions import BloscpackError, FileChangedError, FormatError, UnsupportedError
from ...format.header import MAX_HEADER_SIZE
from ...storage import disk
from ...storage.file import FileSource, Holes
from ...storage.journal import replacing
from ...storage.protocol import ByteSink, ByteSource
from ...storage.sink import open_sink
from ...types import Path, Progress
from .clipverifier import (
    ClipVerifier,
    Place,
    id_text,
    place_of,
    split_overlapping,
    stored_chunks,
)
from .directory import Directory, pack_index
from .format import (
    FLAG_PART,
    RAW_ALIGNMENT,
    SEGMENT_MAGIC,
    TAIL_SIZE,
    Chunks,
    Clips,
    Content,
    Metas,
    Tail,
    raw_padding,
    store_header,
)
from .frameencoding import DEFAULT
from .front import Front, pack_front
from .index import (
    MAX_CHUNKS,
    MAX_CLIPS,
    MAX_METAS_NBYTES,
    Finder,
    Group,
    Index,
    has_unknown,
)
from .segment import Segment
from .verify import standard_front, whole_segment

# Bytes per read when searching for segments.
_FIRST_BLOCK_NBYTES = 1 << 12
_BLOCK_NBYTES = 1 << 20
# Limit on bytes read for damaged segments, in multiples of the file size: they may overlap.
_MAX_VAIN = 4


@dataclass(frozen=True, slots=True)
class FoundClip:
    """Clip of the damaged store."""

    index: Index  # index of the segment that describes it
    place: Place  # its location

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return len(self.index.chunks_of(self.place.ordinal).cbytes)

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes; 0 if its format is not supported here."""
        try:
            row = self.index.row(self.place.ordinal)
        except (BloscpackError, ImportError):
            return 0
        return row.nframes * row.format.nbytes


def recover_store(
    source: ByteSource,
    dst: Any,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write a new store with every undamaged clip of a damaged one, which is only read.

    The new store appears complete or not at all. `progress` is called with (bytes done, bytes in
    total), stored bytes. In the report, `damage` lists what is missing and why; `saved` counts the
    chunks that were copied. FormatError if no clip is intact, FileChangedError if the file changed
    during the recovery; `dst` is unchanged then.
    """
    salvage = Salvage(source)
    verifier = ClipVerifier(source, nthreads, lambda nbytes: None)
    for clip in salvage.clips:
        verifier.verify(clip.index, clip.place.ordinal)
    verifier.finish()
    whole = [clip for clip in salvage.clips if clip.place.ordinal not in verifier.bad]
    if not whole and (salvage.nclips or not salvage.has_index):
        raise FormatError("no whole clip was found: nothing can be saved")
    head, damage = _front_bytes(source)
    with open_sink(dst) as sink:
        nchunks = _write(sink, source, head, whole, progress)
    damage += [*salvage.missing(), *verifier.damage]
    return Report(
        source.name,
        sum(clip.nchunks for clip in salvage.clips),
        sum(clip.nbytes for clip in salvage.clips),
        sorted(damage, key=lambda each: each.offset or 0),
        "damaged" if salvage.is_damaged else "valid",
        [f"{len(whole)} of {salvage.nclips} clips saved", *salvage.notices, *verifier.notices],
        nchunks,
    )


def compact_store(path: Path, *, progress: Progress | None = None) -> None:
    """Write a store again with its clips alone, and put it in the place of the old one.

    FormatError if the store is damaged, LockedError if a writer has it open; it is unchanged then.
    """
    # The lock keeps writers away, but lets the new file replace this one.
    with replacing(disk.target_of(path)), closing(FileSource(path)) as source:
        index = Finder(source, source.size()).find()
        head, damage = _front_bytes(source)
        damage += map(damage_of, index.leave_out())
        if damage or has_unknown(source, index.end, source.size(), index.total):
            raise FormatError("the store is damaged; recover writes a new one of its whole clips")
        clips = [FoundClip(index, place_of(index, ordinal)) for ordinal in index.ordinals]
        with open_sink(path) as sink:
            _write(sink, source, head, clips, progress)


def _front_bytes(source: ByteSource) -> tuple[bytes, list[Damage]]:
    """Return the front of the new store, with the old metadata if undamaged, and the damage."""
    damage = []
    try:
        front = Front(source)
    except BloscpackError as err:
        damage.append(damage_of(err, None, 0, MAX_HEADER_SIZE))
        front = standard_front(source)
    offset = front.header.size
    try:
        front.metadata  # noqa: B018 - decoded on access
        section = bytes(source.read_at(offset, front.end - offset))
        return store_header().pack() + section, damage
    except BloscpackError as err:
        what = f"{message_of(err)}: the attributes of the store are lost"
        damage.append(Damage(what, None, offset))
    return pack_front(DEFAULT.stored(), {}), damage


class Salvage:
    """Clips that the intact segments of a store describe.

    `clips` are in the order of the store; their ids differ, and none overlap. `nclips` is the
    number that the store had, as far as it is known; `is_damaged` is whether segments are missing.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._holes = Holes(source)
        self._finder = Finder(source, source.size())
        self._ids: set[bytes] = set()
        # Ordinals that intact segments account for, as ranges; and those of removed clips.
        self._covered: list[tuple[int, int]] = []
        self._removed: set[int] = set()
        self._total = 0
        # Offset of the first part of the last directory, 0 if a part is missing; that of the last
        # part seen; and that of the first clip in all of them.
        self._first_part = self._last_part = self._first_place = 0
        self._vain = _MAX_VAIN * source.size() + _BLOCK_NBYTES
        self._lost: dict[int, Damage] = {}
        self.clips: list[FoundClip] = []
        self.has_index = self.is_damaged = False
        self.notices: list[str] = []
        self._search()
        apart, overlapping = split_overlapping(clip.place for clip in self.clips)
        for place, _ in overlapping:
            self._lost[place.ordinal] = Damage("a clip that overlaps another", None, place.start)
        kept = {place.ordinal for place in apart}
        self.clips = [clip for clip in self.clips if clip.place.ordinal in kept]
        self.clips.sort(key=lambda clip: clip.index.place_of(clip.place.ordinal))
        if self.notices or self._total > self._ncovered:
            what = "clips that were replaced or removed in lost parts of the index are saved again"
            self.notices.append(what)

    @property
    def nclips(self) -> int:
        """Number of clips of the store."""
        return len(self.clips) + len(self._lost) + self._total - self._ncovered

    @property
    def _ncovered(self) -> int:
        return sum(stop - start for start, stop in self._covered)

    def missing(self) -> Iterator[Damage]:
        """Yield damage for the clips that no intact segment describes."""
        yield from self._lost.values()
        expected = 0
        for start, stop in (*sorted(self._covered), (self._total, self._total)):
            if start > expected:
                one = start == expected + 1
                names = f"clip {expected}" if one else f"clips {expected} to {start - 1}"
                yield Damage(f"{names} of {self._total}: no whole index locates them")
            expected = max(expected, stop)

    def _search(self) -> None:
        size = end = self._source.size()
        while (segment := self._segment_before(end)) is not None:
            tail = segment.tail
            if not self.has_index and tail.end < size:
                self.notices.append(f"{size - tail.end} bytes after the last index were dropped")
            self.has_index = True
            self._total = max(self._total, tail.total)
            if isinstance(segment, Directory):
                self._removed.update(segment.removed)
                self._first_part = segment.extent.start
                self._last_part = self._first_place = end = tail.offset
            else:
                end = self._take(segment)

    def _take(self, segment: Segment) -> int:
        """Add the clips of a segment, and return the end of the data before them.

        Later segments were seen before: they know better what became of their ordinals.
        """
        end = segment.tail.offset
        self._removed.update(segment.removed)
        index = Index(self._finder, [segment])
        for ordinal in reversed(segment.ordinals.tolist()):
            is_covered = any(start <= ordinal < stop for start, stop in self._covered)
            is_known = ordinal in self._removed or is_covered
            try:
                place = place_of(index, ordinal)
            except BloscpackError as err:
                if not is_known:
                    what = f"clip {id_text(index, ordinal)!r:.80}: {err}"
                    self._lost[ordinal] = Damage(what, clip=id_text(index, ordinal))
                continue
            # Clips that were changed may be anywhere before the segment.
            is_apart = segment.clips.changes is not None or place.end <= end
            id_ = index.id_bytes(ordinal)
            if is_apart and not is_known and id_ not in self._ids:
                self._ids.add(id_)
                self.clips.append(FoundClip(index, place))
            elif not is_known:
                what = f"clip {id_text(index, ordinal)!r:.80}: its id or its chunks are another's"
                self._lost[ordinal] = Damage(what, clip=id_text(index, ordinal))
            if is_apart and (segment.clips.changes is None or end - place.end < RAW_ALIGNMENT):
                end = min(end, place.start)
        self._cover(segment.tail.first_clip, segment.tail.total)
        return self._before_part(segment.tail, end) if segment.tail.flags & FLAG_PART else end

    def _before_part(self, tail: Tail, start: int) -> int:
        """Return the end of what to search next: other parts are between a part and its clips.

        `start` is the offset of its first clip. If a part is missing, other segments stand for it.
        """
        if tail.end != self._last_part:
            self._first_part = 0
        self._last_part = tail.offset
        self._first_place = min(start, self._first_place)
        return self._first_place if tail.offset == self._first_part else tail.offset

    def _cover(self, start: int, stop: int) -> None:
        """Add a range of ordinals, joined with those that it touches."""
        apart = []
        for low, high in self._covered:
            if low <= stop and start <= high:
                start, stop = min(low, start), max(high, stop)
            else:
                apart.append((low, high))
        self._covered = [*apart, (start, stop)]

    def _segment_before(self, end: int) -> Group | None:
        """Return the last intact segment up to `end`; it nearly always ends there."""
        segment = self._segment_at(end)
        stop, step = end, _FIRST_BLOCK_NBYTES
        overlap = len(SEGMENT_MAGIC) - 1
        while segment is None and stop >= TAIL_SIZE:
            stop = self._holes.data_before(stop)
            start = max(0, stop - step)
            # A magic may cross the border of two blocks.
            block = bytes(self._source.read_at(start, min(end, stop + overlap) - start))
            place = block.rfind(SEGMENT_MAGIC)
            while place >= 0 and segment is None:
                tail_end = start + place + TAIL_SIZE
                segment = self._segment_at(tail_end) if tail_end < end else None
                place = block.rfind(SEGMENT_MAGIC, 0, place + overlap)
            stop, step = start, min(2 * step, _BLOCK_NBYTES)
        return segment

    def _segment_at(self, end: int) -> Group | None:
        """Return the segment that ends at `end` if it is intact."""
        if end < TAIL_SIZE:
            return None
        try:
            tail = Tail.unpack(self._source.read_at(end - TAIL_SIZE, TAIL_SIZE), end)
        except (FormatError, UnsupportedError):
            return None
        segment = whole_segment(self._source, tail) if self._vain >= 0 else None
        if segment is None:
            self._vain -= tail.nbytes + sum(section.decoded for section in tail.sections)
            self.is_damaged = True
            self._total = max(self._total, tail.total)
        return segment


class _NewIndex:
    """Index of the new store while it is written."""

    def __init__(self) -> None:
        self.first_clip = self.previous = 0
        self._clear()

    def _clear(self) -> None:
        self.offsets: list[int] = []
        self._nframes: list[int] = []
        self._formats: list[int] = []
        self._rows: dict[bytes, int] = {}
        self._ids: list[bytes] = []
        self._cbytes = array("I")
        self._filters = bytearray()
        self._texts: list[bytes] = []
        self._texts_nbytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the clips added so far should become a segment."""
        return (
            len(self.offsets) >= MAX_CLIPS
            or len(self._cbytes) >= MAX_CHUNKS
            or self._texts_nbytes >= MAX_METAS_NBYTES
        )

    def add(self, clip: FoundClip, offset: int) -> None:
        """Add a clip whose first chunk is now at `offset`."""
        index, ordinal = clip.index, clip.place.ordinal
        row = index.format_bytes(ordinal)
        chunks = index.chunks_of(ordinal)
        text = index.meta(ordinal)
        self.offsets.append(offset)
        self._nframes.append(index.nframes_of(ordinal))
        self._formats.append(self._rows.setdefault(row, len(self._rows)))
        self._ids.append(index.id_bytes(ordinal))
        self._cbytes.extend(chunks.cbytes.tolist())
        self._filters += chunks.filters
        self._texts.append(text)
        self._texts_nbytes += len(text)

    def pack(self, offset: int) -> bytes:
        """Return a segment for the offset `offset`, and start the next one."""
        clips = Clips.of(
            np.array(self.offsets, "<u8"),
            np.array(self._nframes, "<u4"),
            np.array(self._formats, "<u4"),
            self._ids,
            list(self._rows),
        )
        chunks = Chunks.pack(np.array(self._cbytes, "<u4"), self._filters)
        tail, packed = pack_index(
            Content(clips, chunks, Metas.pack(self._texts)),
            offset=offset,
            first_clip=self.first_clip,
            previous=self.previous,
        )
        self.first_clip, self.previous = tail.total, tail.end
        self._clear()
        return packed


def _write(
    sink: ByteSink,
    source: ByteSource,
    front: bytes,
    clips: list[FoundClip],
    progress: Progress | None,
) -> int:
    """Write the new store, and return its number of chunks."""
    sink.write(front)
    position, nchunks, done = len(front), 0, 0
    total = sum(clip.place.end - clip.place.start for clip in clips)
    index = _NewIndex()
    for clip in clips:
        if clip.nchunks and clip.index.is_raw(clip.place.ordinal):
            padding = bytes(raw_padding(position))
            sink.write(padding)
            position += len(padding)
        index.add(clip, position)
        nchunks += clip.nchunks
        for part in _checked_parts(source, clip):
            sink.write(part)
            position += len(part)
            done += len(part)
            if progress is not None:
                progress(done, total)
        if index.is_full:
            packed = index.pack(position)
            sink.write(packed)
            position += len(packed)
    if index.offsets or not clips:  # a store without clips has a segment, too
        sink.write(index.pack(position))
    return nchunks


def _checked_parts(source: ByteSource, clip: FoundClip) -> Iterator[bytes]:
    """Yield the chunks of a clip with their digests, which are compared once more.

    The digests of raw frames follow all of them.
    """
    is_raw = clip.index.is_raw(clip.place.ordinal)
    digests = []
    for stored, digest, _ in stored_chunks(source, clip.index.chunks_of(clip.place.ordinal)):
        if xxh3_64_digest(stored) != digest:
            raise FileChangedError("a chunk was changed or is damaged; nothing was made")
        if is_raw:
            yield bytes(stored)
            digests.append(digest)
        else:
            yield b"".join((stored, digest))
    if digests:
        yield b"".join(digests)
