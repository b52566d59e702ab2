"""The index of an open frame store: a chain of segments, found from the end of the file.

The last intact segment is valid, together with those it leads to. Bytes after it are an unfinished
append. A damaged segment is replaced by the segments that were merged into it: they precede it and
lead to the same number of clips.

Opening a store reads only the clips section of each segment; the others are read on first use.

Each clip has an ordinal that never changes: how many clips were appended and removed before it. So
a merged segment and those it stands for agree on the ordinals of their clips, and two chains with
the same number of ordinals describe the same state.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...exceptions import CodecError, FileChangedError, FormatError
from ...notice import notice
from ...storage.file import Holes
from ...storage.protocol import ByteSource
from ...types import AnyArray, BytesLike, IntArray
from .format import (
    DIGEST_SIZE,
    RAW_ALIGNMENT,
    SEGMENT_MAGIC,
    TAIL_SIZE,
    Changes,
    Chunks,
    Clips,
    Codec,
    Content,
    FrameFormat,
    Metas,
    Tail,
    hash_of,
    pack_id,
    raw_padding,
    unpack_id,
    unpack_section,
)

# Enough for the index of nearly every small store, in one read.
TAIL_NBYTES = 1 << 16
# Segments of fewer clips find ids with a dict, as there may be hundreds of these segments.
_FEW_CLIPS = 64
# Limit on a segment of many clips, so that none takes long to read.
MAX_CLIPS = 1 << 20
MAX_CHUNKS = 1 << 24
MAX_METAS_NBYTES = 1 << 28
# Limit on a search, in multiples of the file size: segments overlap, so bytes are read repeatedly.
_MAX_SEARCH = 8
_BLOCK_NBYTES = 1 << 20

SECTION_NAMES = ("clips", "chunks", "metadata")


class ClipRow(NamedTuple):
    """Row of a clip in the index."""

    offset: int  # absolute offset of its first chunk
    nframes: int  # number of frames
    format: FrameFormat


class ClipChunks(NamedTuple):
    """Chunks of a clip: where they are and how they are stored."""

    offsets: IntArray  # absolute offsets
    cbytes: IntArray  # stored sizes, without the digests
    filters: bytes
    digests: IntArray  # absolute offsets of the digests
    # Absolute offsets of the first byte and after the last one, including the digests.
    start: int
    end: int


class Segment:
    """Segment of the index; its sections of chunks and metadata are read on first use.

    `content` is that of a segment which is not in the file.
    """

    __slots__ = (
        "_chunks", "_content", "_first_chunks", "_formats", "_metas", "_source", "clips", "tail"
    )  # fmt: skip

    def __init__(
        self, source: ByteSource, tail: Tail, clips: Clips, content: Content | None = None
    ) -> None:
        self.tail = tail
        self.clips = clips
        self._source = source
        self._content = content
        self._first_chunks = clips.first_chunks()
        if self._first_chunks[-1] != tail.nchunks:
            raise FormatError(
                f"index: the clips have {self._first_chunks[-1]} chunks, not {tail.nchunks}",
                offset=tail.offset,
            )
        self._formats: dict[int, FrameFormat] = {}
        self._chunks: Chunks | None = None
        self._metas: Metas | None = None

    @classmethod
    def read(cls, source: ByteSource, tail: Tail) -> "Segment":
        """Read the clips of a segment."""
        return cls(source, tail, Clips.unpack(read_section(source, tail, 0), tail))

    @property
    def ordinals(self) -> IntArray:
        """Ordinals of the clips, ascending."""
        if (changes := self.clips.changes) is not None:
            return changes.ordinals
        return np.arange(self.tail.first_clip, self.tail.total)

    @property
    def places(self) -> IntArray:
        """Ordinals whose places the clips have."""
        return self.ordinals if self.clips.changes is None else self.clips.changes.places

    @property
    def removed(self) -> list[int]:
        """Ordinals of clips that the segment removes, here or in earlier segments."""
        return [] if self.clips.changes is None else self.clips.changes.removed.tolist()

    def ordinal_of(self, number: int) -> int:
        """Return the ordinal of a clip of the segment, without making all of them."""
        changes = self.clips.changes
        return self.tail.first_clip + number if changes is None else int(changes.ordinals[number])

    def number_of(self, ordinal: int) -> int:
        """Return the number of a clip in the segment, or -1 if it is not there."""
        number = ordinal - self.tail.first_clip
        if (changes := self.clips.changes) is not None:
            number = int(np.searchsorted(changes.ordinals, ordinal))
            is_there = number < self.tail.nclips and changes.ordinals[number] == ordinal
            return number if is_there else -1
        return number if number < self.tail.nclips else -1

    def row(self, number: int) -> ClipRow:
        """Return the row of a clip."""
        clips = self.clips
        which = int(clips.formats[number])
        form = self._formats.get(which)
        if form is None:
            form = self._formats[which] = FrameFormat.unpack(clips.rows[which])
        return ClipRow(int(clips.offsets[number]), int(clips.nframes[number]), form)

    def chunks(self) -> Chunks:
        """Return the section of chunks."""
        if self._chunks is None:
            self._chunks = Chunks(self._section(1))
        return self._chunks

    def metas(self) -> Metas:
        """Return the section of metadata."""
        if self._metas is None:
            self._metas = Metas(self._section(2), self.tail.nclips)
        return self._metas

    def chunk_range(self, number: int) -> tuple[int, int]:
        """Return the first and last (exclusive) chunk of a clip, as ordinals in the segment."""
        return int(self._first_chunks[number]), int(self._first_chunks[number + 1])

    def nchunks(self, live: AnyArray | slice) -> int:
        """Return the number of chunks of some clips."""
        return int(np.diff(self._first_chunks)[live].sum())

    def content(self) -> Content:
        """Return all sections, decoded."""
        return self._content or Content(self.clips, self._section(1), self._section(2))

    def _section(self, number: int) -> BytesLike:
        if self._content is not None:
            return self._content[number]  # type: ignore[return-value]  # not that of clips
        return read_section(self._source, self.tail, number)


def _ordinals_of(segments: Iterable[Segment], removed: Collection[int] = ()) -> dict[bytes, int]:
    """Return the ordinals of the clips in small segments, by id."""
    return {
        segment.clips.id_bytes(number): ordinal
        for segment in segments
        if segment.tail.nclips < _FEW_CLIPS
        for number, ordinal in enumerate(segment.ordinals.tolist())
        if ordinal not in removed
    }


def read_section(source: ByteSource, tail: Tail, number: int) -> BytesLike:
    """Read a section, compare its digest and decode it."""
    section = tail.sections[number]
    offset = tail.section_offset(number)
    try:
        stored = source.read_at(offset, section.stored)
        return unpack_section(stored, section, SECTION_NAMES[number])
    except FormatError as err:
        err.offset = offset
        raise


# Ordinals of an index before they are needed, and the number of clips that were gone then.
_UNKNOWN: tuple[int, Sequence[int]] = -1, ()


class Index:
    """Clips of a store as of a certain last segment, which ends at `end`.

    `size` is that of the file when it was opened.
    """

    def __init__(self, finder: "Finder", segments: list[Segment]) -> None:
        self._finder = finder
        self.size = finder.size
        # Chunks of raw clips whose digests were compared, by the ordinal of the clip. They are kept
        # here because a store keeps the index longer than its clips.
        self._verified: dict[int, bytearray] = {}
        self.set(tuple(segments))

    def set(self, segments: tuple[Segment, ...], gone: Iterable[int] = ()) -> None:
        """Set the segments; `gone` are ordinals of clips that are removed, but not in the file."""
        pending, removed = set(gone), {n for each in segments for n in each.removed}
        few = _ordinals_of(segments, removed)
        # Python raises KeyboardInterrupt at calls, so that all are replaced, or none.
        # `removed` are those removed in the file.
        self.segments, self.gone, self.removed, self.few = segments, pending, removed, few
        self._ordinals = _UNKNOWN

    @property
    def total(self) -> int:
        """Number of ordinals."""
        return self.segments[-1].tail.total

    @property
    def ordinals(self) -> Sequence[int]:
        """Ordinals of the clips, in the order of the store."""
        ngone, (of, found) = len(self.gone), self._ordinals
        if of != ngone:
            found = range(self.total)
            if ngone or any(each.clips.changes for each in self.segments):
                numbers = np.concatenate([each.ordinals for each in self.segments])
                places = np.concatenate([each.places for each in self.segments])
                live = self._are_live(numbers)
                found = numbers[live][np.argsort(places[live], kind="stable")].tolist()
            self._ordinals = ngone, found
        return found

    @property
    def nclips(self) -> int:
        """Number of clips."""
        return len(self.ordinals)

    def is_removed(self, ordinal: int) -> bool:
        """Return whether a clip was removed."""
        return ordinal in self.gone or ordinal in self.removed

    def _are_live(self, ordinals: IntArray) -> AnyArray:
        """Return which clips were not removed."""
        return np.isin(ordinals, [*self.removed, *self.gone], invert=True)

    def live(self, segment: Segment) -> AnyArray | slice:
        """Return which clips of a segment were not removed, as an index of its columns."""
        if not self.removed and not self.gone:
            return slice(None)
        return self._are_live(segment.ordinals)

    @property
    def nframes(self) -> int:
        """Number of frames in all clips."""
        return sum(
            int(each.clips.nframes[self.live(each)].sum(dtype=np.int64)) for each in self.segments
        )

    @property
    def dead(self) -> int:
        """Bytes of the chunks of clips that were removed."""
        changes = [each.clips.changes for each in self.segments]
        return max((each.dead for each in changes if each is not None), default=0)

    @property
    def end(self) -> int:
        """Absolute offset after the last segment."""
        return self.segments[-1].tail.end

    def update(
        self, added: Sequence[Segment], replaced: int = 0, removes: Collection[int] = ()
    ) -> None:
        """Add segments at the end, replacing the last `replaced` ones, and remove clips."""
        segments = (*self.segments[: len(self.segments) - replaced], *added)
        if replaced or any(each.removed for each in added):
            self.set(segments, self.gone.union(removes))
            return
        if added:
            few = self.few | _ordinals_of(added)
            self.segments, self.few, self._ordinals = segments, few, _UNKNOWN
        self.gone.update(removes)  # without a copy, as there may be many

    def find(self, id_: str) -> int:
        """Return the ordinal of a clip, or -1 if no clip has this id."""
        data = pack_id(id_)
        ordinal = self.few.get(data, -1)
        if ordinal >= 0 and not self.is_removed(ordinal):
            return ordinal
        hash_ = hash_of(data)
        for segment in reversed(self.segments):
            if segment.tail.nclips >= _FEW_CLIPS:
                for number in segment.clips.find(data, hash_):
                    ordinal = segment.ordinal_of(number)
                    if not self.is_removed(ordinal):
                        return ordinal
        return -1

    def hashes(self) -> IntArray:
        """Return the hash of each id, as uint64, unordered."""
        if not self.removed and not self.gone:
            return np.concatenate([segment.clips.hashes for segment in self.segments])
        parts = []
        for segment in self.segments:
            live = self._are_live(segment.ordinals[segment.clips.order])
            parts.append(segment.clips.hashes[live])
        return np.concatenate(parts)

    def ids_with(self, hash_: int) -> list[str]:
        """Return the ids with this hash, nearly always one."""
        found = []
        for segment in self.segments:
            clips = segment.clips
            start, stop = (
                int(np.searchsorted(clips.hashes, np.uint64(hash_), side))
                for side in ("left", "right")
            )
            for number in clips.order[start:stop].tolist():
                if not self.is_removed(segment.ordinal_of(number)):
                    found.append(unpack_id(clips.id_bytes(number)))
        return found

    def _locate(self, ordinal: int) -> tuple[Segment, int]:
        """Return the segment of a clip, and its number there."""
        for segment in reversed(self.segments):
            if segment.tail.first_clip <= ordinal:
                number = segment.number_of(ordinal)
                if number >= 0:
                    return segment, number
                break
        raise FileChangedError("the clip was removed; read what replaced it from the store again")

    def id(self, ordinal: int) -> str:
        """Return the id of a clip."""
        return unpack_id(self.id_bytes(ordinal))

    def id_bytes(self, ordinal: int) -> bytes:
        """Return the stored bytes of the id of a clip."""
        segment, number = self._locate(ordinal)
        return segment.clips.id_bytes(number)

    def format_bytes(self, ordinal: int) -> bytes:
        """Return the stored bytes of the format of a clip."""
        segment, number = self._locate(ordinal)
        return segment.clips.rows[int(segment.clips.formats[number])]

    def offset_of(self, ordinal: int) -> int:
        """Return the offset of the first chunk of a clip, even if its format is not supported."""
        segment, number = self._locate(ordinal)
        return int(segment.clips.offsets[number])

    def nframes_of(self, ordinal: int) -> int:
        """Return the number of frames of a clip."""
        segment, number = self._locate(ordinal)
        return int(segment.clips.nframes[number])

    def place_of(self, ordinal: int) -> int:
        """Return the ordinal whose place a clip has."""
        segment, number = self._locate(ordinal)
        return int(segment.places[number])

    def row(self, ordinal: int) -> ClipRow:
        """Return the row of a clip."""
        segment, number = self._locate(ordinal)
        return segment.row(number)

    def verified_of(self, ordinal: int, nchunks: int) -> bytearray:
        """Return a byte per chunk of a raw clip: 1 if its digest was compared."""
        return self._verified.setdefault(ordinal, bytearray(nchunks))

    def is_raw(self, ordinal: int) -> bool:
        """Return whether the frames of a clip are raw."""
        return self.format_bytes(ordinal)[0] == Codec.RAW

    def chunks_of(self, ordinal: int) -> ClipChunks:
        """Return the chunks of a clip, even if its format is not supported.

        Raises
        ------
        FormatError
            They end after the start of their index, or raw frames are not aligned.
        """
        while True:
            segment, number = self._locate(ordinal)
            try:
                chunks = segment.chunks()
                break
            except (FormatError, CodecError) as err:
                self._replace(segment, err)
        start, stop = segment.chunk_range(number)
        cbytes = chunks.cbytes(start, stop)
        ends = np.cumsum(cbytes)
        numbers = np.arange(len(cbytes))
        offset = int(segment.clips.offsets[number])
        end = offset + (int(ends[-1]) + DIGEST_SIZE * len(ends) if len(ends) else 0)
        if len(ends) and end > segment.tail.offset:
            raise FormatError(
                f"index: the chunks of clip {self.id(ordinal)!r:.80} "
                "end after the start of their index",
                offset=offset,
            )
        if self.is_raw(ordinal):
            if len(ends) and raw_padding(offset):
                raise FormatError(
                    f"index: the raw frames of clip {self.id(ordinal)!r:.80} start at {offset}, "
                    f"not at a multiple of {RAW_ALIGNMENT}",
                    offset=offset,
                )
            digests = end + DIGEST_SIZE * (numbers - len(ends))
            offsets = offset + ends - cbytes
        else:
            digests = offset + ends + DIGEST_SIZE * numbers
            offsets = digests - cbytes
        filters = chunks.filters(start, stop)
        return ClipChunks(offsets, cbytes, filters, digests, offset, end)

    def meta(self, ordinal: int) -> bytes:
        """Return the metadata of a clip as JSON."""
        while True:
            segment, number = self._locate(ordinal)
            try:
                return segment.metas().text(number)
            except (FormatError, CodecError) as err:
                self._replace(segment, err)

    def content(self, segment: Segment) -> Content:
        """Return all sections of a segment; replace the segment and raise if it is damaged."""
        try:
            return segment.content()
        except (FormatError, CodecError) as err:
            self._replace(segment, err)
            raise

    def _replace(self, segment: Segment, err: FormatError | CodecError) -> None:
        """Replace a damaged segment by the segments before it in the file.

        Raise `err` without any.
        """
        found = self._finder.stand_in(segment.tail)
        if found is None:
            raise err
        notice("%s: %s; the segments before it are used", self._finder.name, err.args[0])
        following = [each for each in self.segments if each.tail.first_clip >= segment.tail.total]
        later = [each for each in following if each is not segment]
        self.set((*found, *later), self.gone)


class Finder:
    """Finds intact segments in the first `size` bytes of a file, searching from the end."""

    def __init__(self, source: ByteSource, size: int) -> None:
        self._source = source
        self.size = size
        self._start = max(0, size - TAIL_NBYTES)
        self._window = memoryview(source.read_at(self._start, size - self._start))
        self._bad: set[int] = set()
        self._left = _MAX_SEARCH * size + TAIL_NBYTES
        self.name = source.name or "memory"

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return bytes of the file, from memory if they are near the end."""
        if offset >= self._start:
            return self._window[offset - self._start : offset - self._start + nbytes]
        return self._source.read_at(offset, nbytes)

    def find(self) -> Index:
        """Return the index of the last intact chain."""
        chain = self._chain(self._tail(self.size))
        if chain is None:
            for tail in self._tails_before(self.size):
                chain = self._chain(tail)
                if chain is not None:
                    self._log_ignored_bytes(chain[-1].tail.end)
                    break
        if chain is None:
            raise FormatError(
                "no index is whole, so that no clip can be found; "
                "'blpk frames verify' lists what is there"
            )
        return Index(self, chain)

    def find_at(self, end: int) -> Index | None:
        """Return the index as of the segment that ends at `end`, or None."""
        chain = self._chain(self._tail(end))
        return None if chain is None else Index(self, chain)

    def _log_ignored_bytes(self, end: int) -> None:
        notice(
            "%s: the last %d bytes are not a whole clip and are ignored "
            "(an append that was not finished)",
            self.name,
            self.size - end,
        )

    def stand_in(self, tail: Tail) -> list[Segment] | None:
        """Return a chain with the same number of clips before a damaged segment, or None."""
        self._bad.add(tail.end)
        return self._chain_of(tail.offset, tail.total)

    def _tail(self, end: int) -> Tail | None:
        """Return the tail of the segment that ends at `end`, or None if it is damaged."""
        if end < TAIL_SIZE or end in self._bad:
            return None
        view = self.read_at(end - TAIL_SIZE, TAIL_SIZE)
        if view[: len(SEGMENT_MAGIC)] != SEGMENT_MAGIC:
            return None
        try:
            return Tail.unpack(view, end)
        except FormatError:
            return None

    def _segment(self, tail: Tail) -> Segment | None:
        """Return a segment, or None if its clips are damaged."""
        if tail.end in self._bad:
            return None
        self._spend(tail.sections[0].stored)
        try:
            return Segment.read(_Near(self), tail)
        except (FormatError, CodecError):
            self._bad.add(tail.end)
            return None

    def _chain(self, last: Tail | None) -> list[Segment] | None:
        """Return the segments that end with `last`; None if one is damaged or missing."""
        segment = None if last is None else self._segment(last)
        if segment is None:
            return None
        chain = [segment]
        while chain:
            tail = chain[-1].tail
            if not tail.first_clip:
                return chain[::-1]
            before = self._segment_of(self._tail(tail.previous), tail.first_clip)
            before = before or self._segment_before(tail.previous, tail.first_clip)
            if before is None:
                # A chain through this segment is incomplete unless a replacement is found.
                self._bad.add(tail.end)
                chain.pop()
            else:
                chain.append(before)
        return None

    def _chain_of(self, before: int, total: int) -> list[Segment] | None:
        """Return a chain of `total` ordinals that ends at `before` or earlier."""
        while (segment := self._segment_before(before, total)) is not None:
            chain = self._chain(segment.tail)
            if chain is not None:
                return chain
        return None

    def _segment_of(self, tail: Tail | None, total: int) -> Segment | None:
        return self._segment(tail) if tail is not None and tail.total == total else None

    def _segment_before(self, end: int, total: int) -> Segment | None:
        """Return the last intact segment up to `end` whose chain has `total` ordinals.

        A segment whose chain has fewer ends the search: those before it have even fewer.
        """
        for tail in self._tails_before(end):
            if tail.total < total:
                return None
            segment = self._segment_of(tail, total)
            if segment is not None:
                return segment
        return None

    def _tails_before(self, end: int) -> Iterator[Tail]:
        """Yield intact tails that end at `end` or earlier, the last first."""
        stop, holes = end, Holes(self._source)
        while stop >= TAIL_SIZE:
            stop = holes.data_before(stop)
            start = max(0, stop - _BLOCK_NBYTES)
            # A magic may cross the border of two blocks.
            block = bytes(self.read_at(start, min(end, stop + len(SEGMENT_MAGIC) - 1) - start))
            self._spend(len(block))
            place = block.rfind(SEGMENT_MAGIC)
            while place >= 0:
                tail_end = start + place + TAIL_SIZE
                tail = self._tail(tail_end) if tail_end <= end else None
                if tail is not None:
                    yield tail
                place = block.rfind(SEGMENT_MAGIC, 0, place + len(SEGMENT_MAGIC) - 1)
            stop = start

    def _spend(self, nbytes: int) -> None:
        """Count bytes read, so that no file can make a search run for long."""
        self._left -= nbytes
        if self._left < 0:
            raise FormatError("the index is damaged in too many places; no clip can be found")


class _Near(ByteSource):
    """The file of a finder, read through the finder's buffer."""

    def __init__(self, finder: Finder) -> None:
        self.name = finder._source.name
        self._finder = finder

    def size(self) -> int:
        """Return the size of the file."""
        return self._finder._source.size()

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return bytes of the file."""
        return self._finder.read_at(offset, nbytes)


def has_magic(source: ByteSource, start: int, end: int) -> bool:
    """Return whether a magic is between two offsets of a file, with enough bytes for its tail.

    With fewer bytes, the segment was not written to its end.
    """
    stop = end - TAIL_SIZE + len(SEGMENT_MAGIC)
    holes = Holes(source)
    rest = b""
    position = start
    while position < stop:
        block = rest + source.read_at(position, min(_BLOCK_NBYTES, stop - position))
        if SEGMENT_MAGIC in block:
            return True
        rest = block[1 - len(SEGMENT_MAGIC) :]
        position += _BLOCK_NBYTES
        data = holes.data_from(position)
        if data > position:  # the magic starts with a byte that is not 0
            position, rest = data, b""
    return False


def merged(
    segments: Sequence[Segment],
    contents: Iterable[Content],
    dropped: Collection[int] = (),
    removed: Collection[int] = (),
    dead: int = 0,
) -> Content:
    """Merge the content of consecutive segments into one, without the `dropped` ordinals.

    `removed` are the ordinals that it removes, and `dead` as in `Changes`.
    """
    rows: dict[bytes, int] = {}
    # Each begins with an empty array, as there may be no segment.
    columns: list[list[IntArray]] = [[np.zeros(0, dtype)] for dtype in ("<u8", "<u4", "<u4", "<u8")]
    numbers, tables = [np.zeros((2, 0), np.int64)], [np.zeros((5, 0), "u1")]
    ids, texts = [], []
    for segment, (clips, chunks, metas) in zip(segments, contents, strict=True):
        live = np.isin(segment.ordinals, [*dropped], invert=True)
        formats = clips.formats[live]
        places = np.zeros(len(clips.rows), "<u4")
        for which in np.unique(formats).tolist():
            places[which] = rows.setdefault(clips.rows[which], len(rows))
        hashes = np.empty(len(clips.order), "<u8")
        hashes[clips.order] = clips.hashes
        parts = (clips.offsets[live], clips.nframes[live], places[formats], hashes[live])
        for column, part in zip(columns, parts, strict=True):
            column.append(part)
        reader = Metas(metas, len(live))
        for number in np.flatnonzero(live).tolist():
            ids.append(clips.id_bytes(number))
            texts.append(reader.text(number))
        numbers.append(np.stack((segment.ordinals, segment.places))[:, live])
        listed = np.repeat(live, np.diff(clips.first_chunks()))
        tables.append(np.frombuffer(chunks, "u1").reshape(5, -1)[:, listed])
    offsets, nframes, formats, hashes = map(np.concatenate, columns)
    changes = None
    has_fewer = len(ids) < sum(each.tail.nclips for each in segments)
    if removed or has_fewer or any(each.clips.changes for each in segments):
        gone = np.array(sorted(removed), np.int64)
        ordinals, ranks = np.concatenate(numbers, axis=1)
        changes = Changes(ordinals, ranks, gone, dead)
    clips = Clips.of(offsets, nframes, formats, ids, list(rows), hashes, changes)
    return Content(clips, np.concatenate(tables, axis=1).tobytes(), Metas.pack(texts))
