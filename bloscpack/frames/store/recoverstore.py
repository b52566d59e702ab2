"""Recover a damaged store: write a new store with all of its undamaged clips.

The index need not be intact. The search for segments runs from the end of the file. A segment
follows the clips it describes, so the search continues before those. If a segment is damaged, the
segments that were merged into it are found instead. Chunks are copied in stored form.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xxhash import xxh3_64_digest

from ...damage.report import Damage, Report, damage_of, message_of
from ...exceptions import BloscpackError, FileChangedError, FormatError, UnsupportedError
from ...format.header import MAX_HEADER_SIZE
from ...storage.file import Holes
from ...storage.protocol import ByteSink, ByteSource
from ...storage.sink import open_sink
from ...types import Progress
from .clipverifier import ClipVerifier, Place, id_text, place_of, stored_chunks
from .format import (
    SEGMENT_MAGIC,
    TAIL_SIZE,
    Chunks,
    Clips,
    Content,
    Metas,
    Tail,
    pack_segment,
    raw_padding,
    store_header,
)
from .frameencoding import DEFAULT
from .segments import MAX_CHUNKS, MAX_CLIPS, MAX_METAS_NBYTES, Finder, Index, Segment
from .storefront import Front, pack_front
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

    `clips` are in file order; their ids differ, and none overlap. `nclips` is the number that the
    store had, as far as it is known; `is_damaged` is whether segments are missing.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._holes = Holes(source)
        self._finder = Finder(source, source.size())
        self._ids: set[bytes] = set()
        self._vain = _MAX_VAIN * source.size() + _BLOCK_NBYTES
        self._lost: dict[int, Damage] = {}
        self.clips: list[FoundClip] = []
        self.nclips = 0
        self.has_index = self.is_damaged = False
        self.notices: list[str] = []
        self._search()
        self.clips.reverse()

    def missing(self) -> Iterator[Damage]:
        """Yield damage for the clips that no intact segment describes."""
        yield from self._lost.values()
        known = {clip.place.ordinal for clip in self.clips} | self._lost.keys()
        expected = 0
        for ordinal in (*sorted(known), self.nclips):
            if ordinal > expected:
                one = ordinal == expected + 1
                names = f"clip {expected}" if one else f"clips {expected} to {ordinal - 1}"
                yield Damage(f"{names} of {self.nclips}: no whole index locates them")
            expected = max(expected, ordinal + 1)

    def _search(self) -> None:
        size = end = self._source.size()
        while (segment := self._segment_before(end)) is not None:
            tail = segment.tail
            if not self.has_index and tail.end < size:
                self.notices.append(f"{size - tail.end} bytes after the last index were dropped")
            self.has_index = True
            self.nclips = max(self.nclips, tail.total)
            end = self._take(segment)

    def _take(self, segment: Segment) -> int:
        """Add the clips of a segment, and return the end of the data before them."""
        end, first = segment.tail.offset, segment.tail.first_clip
        index = Index(self._finder, [segment])
        for ordinal in reversed(range(first, segment.tail.total)):
            id_ = index.id_bytes(ordinal)
            try:
                place = place_of(index, ordinal)
            except BloscpackError as err:
                what = f"clip {id_text(index, ordinal)!r:.80}: {err}"
                self._lost[ordinal] = Damage(what, clip=id_text(index, ordinal))
                continue
            if place.end <= end and id_ not in self._ids:
                self._ids.add(id_)
                self.clips.append(FoundClip(index, place))
                end = place.start
        return end

    def _segment_before(self, end: int) -> Segment | None:
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

    def _segment_at(self, end: int) -> Segment | None:
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
            self.nclips = max(self.nclips, tail.total)
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
        tail, packed = pack_segment(
            Content(clips, chunks, Metas.pack(self._texts)),
            offset=offset,
            first_clip=self.first_clip,
            previous=self.previous,
            compress=True,
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
            raise FileChangedError("the file was changed while it was recovered; nothing was made")
        if is_raw:
            yield bytes(stored)
            digests.append(digest)
        else:
            yield b"".join((stored, digest))
    if digests:
        yield b"".join(digests)
