"""The index of an open frame store: a chain of segments, found from the end of the file.

The last intact segment is valid, together with those it leads to. Bytes after it are an unfinished
append. A damaged segment is replaced by the segments that were merged into it: they precede it and
lead to the same number of clips.

Opening a store reads only the clips section of each segment, and of many clips only the table of
their directory; the rest is read on first use.

Each clip has an ordinal that never changes: how many clips were appended and removed before it. So
a merged segment and those it stands for agree on the ordinals of their clips, and two chains with
the same number of ordinals describe the same state.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...exceptions import CodecError, FileChangedError, FormatError, UnsupportedError
from ...notice import notice
from ...storage.file import Holes
from ...storage.protocol import ByteSource
from ...types import AnyArray, BytesLike, IntArray
from .directory import Directory
from .format import (
    DIGEST_SIZE,
    FLAG_DIRECTORY,
    FLAG_PART,
    RAW_ALIGNMENT,
    SEGMENT_MAGIC,
    TAIL_SIZE,
    Changes,
    Clips,
    Codec,
    Content,
    Metas,
    Tail,
    hash_of,
    pack_id,
    raw_padding,
    unpack_id,
)
from .segment import ClipRow, Segment

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


class ClipChunks(NamedTuple):
    """Chunks of a clip: where they are and how they are stored."""

    offsets: IntArray  # absolute offsets
    cbytes: IntArray  # stored sizes, without the digests
    filters: bytes
    digests: IntArray  # absolute offsets of the digests
    # Absolute offsets of the first byte and after the last one, including the digests.
    start: int
    end: int


Group = Segment | Directory
"""Member of a chain: a segment of clips, or a directory with its parts."""


def _is_few(group: Group) -> bool:
    """Return whether the ids of a segment are found with a dict."""
    return isinstance(group, Segment) and group.tail.nclips < _FEW_CLIPS


def _ordinals_of(segments: Iterable[Group], removed: Collection[int] = ()) -> dict[bytes, int]:
    """Return the ordinals of the clips in small segments, by id."""
    return {
        segment.clips.id_bytes(number): ordinal
        for segment in segments
        if isinstance(segment, Segment) and _is_few(segment)
        for number, ordinal in enumerate(segment.ordinals.tolist())
        if ordinal not in removed
    }


# Ordinals of an index before they are needed, and the number of clips that were gone then.
_UNKNOWN: tuple[int, Sequence[int]] = -1, ()


class Index:
    """Clips of a store as of a certain last segment, which ends at `end`.

    `size` is that of the file when it was opened.
    """

    def __init__(self, finder: "Finder", segments: Sequence[Group]) -> None:
        self._finder = finder
        self.size = finder.size
        self._leaves_out = False  # the clips of damaged parts, see `leave_out`
        # Chunks of raw clips whose digests were compared, by the ordinal of the clip. They are kept
        # here because a store keeps the index longer than its clips.
        self._verified: dict[int, bytearray] = {}
        self.set(tuple(segments))

    def set(self, segments: tuple[Group, ...], gone: Iterable[int] = ()) -> None:
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
            changed = [each for each in self.segments if each.tail.has_changes]
            if ngone or changed or self._leaves_out:
                listed: Sequence[Group] = self.segments
                if self._leaves_out or any(isinstance(each, Directory) for each in changed):
                    listed = self.parts()
                numbers = np.concatenate([each.ordinals for each in listed])
                places = np.concatenate([each.places for each in listed])
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

    def parts(self) -> list[Segment]:
        """Return the segments of clips, those of directories included.

        Raises
        ------
        FormatError
            A part of a directory is damaged, nothing stands for it, and it is not left out.
        """
        found: list[Segment] = []
        for group in self.segments:
            try:
                found += group.whole_parts([]) if self._leaves_out else group.parts()
            except FormatError as err:
                if self._replaces(group, err):
                    return self.parts()
                raise
        return found

    def leave_out(self) -> list[FormatError]:
        """Leave out the clips of damaged parts from now on, unless other segments stand for them.

        Return the errors of all that is damaged. Reads the whole index.
        """
        lost: list[FormatError] = []
        for group in self.segments:
            damage: list[FormatError] = []
            list(group.whole_parts(damage))
            if isinstance(group, Directory):
                group.check_pages(damage)
            if damage and self._replaces(group, damage[0]):
                return self.leave_out()
            lost += damage
        self._leaves_out, self._ordinals = bool(lost), _UNKNOWN
        return lost

    @property
    def nframes(self) -> int:
        """Number of frames in all clips."""
        return sum(
            int(each.clips.nframes[self.live(each)].sum(dtype=np.int64)) for each in self.parts()
        )

    @property
    def dead(self) -> int:
        """Bytes of the chunks of clips that were removed."""
        return max(each.dead for each in self.segments)

    @property
    def end(self) -> int:
        """Absolute offset after the last segment."""
        return self.segments[-1].tail.end

    def update(
        self, added: Sequence[Group], replaced: int = 0, removes: Collection[int] = ()
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
        segments: tuple[Group, ...] = ()
        while segments is not self.segments:  # once more if one was replaced
            segments = self.segments
            ordinal = self.few.get(data, -1)
            if ordinal >= 0 and not self.is_removed(ordinal):
                return ordinal
            for segment, number in self._with_hash(hash_of(data)):
                if segment.clips.id_bytes(number) == data:
                    return segment.ordinal_of(number)
        return -1

    def _with_hash(self, hash_: int) -> Iterator[tuple[Segment, int]]:
        """Yield the segment and the number of each clip whose id has this hash, the last first.

        Clips of small segments, which `few` has, are left out, and so are those removed. Ends early
        if a segment is replaced, and with FormatError if the clip may be in a damaged part or page.
        """
        damage = None
        for group in reversed(self.segments):
            if _is_few(group):
                continue
            try:
                for segment, number in group.with_hash(hash_):
                    if not self.is_removed(segment.ordinal_of(number)):
                        yield segment, number
            except FormatError as err:
                if self._replaces(group, err):
                    return
                damage = err
        if damage is not None:
            raise damage

    def hashes(self) -> IntArray:
        """Return the hash of each id, as uint64, unordered."""
        if not self.removed and not self.gone:
            return np.concatenate([group.hashes() for group in self.segments])
        parts = []
        for segment in self.parts():
            live = self._are_live(segment.ordinals[segment.clips.order])
            parts.append(segment.clips.hashes[live])
        return np.concatenate(parts)

    def ids_with(self, hash_: int) -> list[str]:
        """Return the ids with this hash, nearly always one."""
        found: dict[bytes, None] = {}
        segments: tuple[Group, ...] = ()
        while segments is not self.segments:  # once more if one was replaced
            segments = self.segments
            for data, ordinal in self.few.items():
                if hash_of(data) == hash_ and not self.is_removed(ordinal):
                    found[data] = None
            for segment, number in self._with_hash(hash_):
                found[segment.clips.id_bytes(number)] = None
        return [unpack_id(data) for data in found]

    def _locate(self, ordinal: int) -> tuple[Segment, int]:
        """Return the segment of a clip, and its number there."""
        for group in reversed(self.segments):
            if group.extent.first <= ordinal < group.extent.total:
                try:
                    segment, number = group.locate(ordinal)
                except FormatError as err:
                    if self._replaces(group, err):
                        return self._locate(ordinal)
                    raise
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
                if not self._replaces(self._group_of(ordinal), err):
                    raise
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
                if not self._replaces(self._group_of(ordinal), err):
                    raise

    def content(self, group: Group) -> list[tuple[Segment, Content]]:
        """Return the segments of a group with all sections; replace it and raise on damage."""
        try:
            return [(segment, segment.content()) for segment in group.parts()]
        except (FormatError, CodecError) as err:
            self._replaces(group, err)
            raise

    def _group_of(self, ordinal: int) -> Group:
        return next(
            each for each in self.segments if each.extent.first <= ordinal < each.extent.total
        )

    def _replaces(self, group: Group, err: FormatError | CodecError) -> bool:
        """Replace a damaged segment by those before it in the file; return whether there are any.

        A directory is replaced with all of its parts.
        """
        found = self._finder.stand_in(group)
        if found is None:
            return False
        notice("%s: %s; the segments before it are used", self._finder.name, err.args[0])
        following = [each for each in self.segments if each.extent.first >= group.extent.total]
        later = [each for each in following if each is not group]
        self.set((*found, *later), self.gone)
        return True


class Finder:
    """Finds intact segments in the first `size` bytes of a file, searching from the end."""

    def __init__(self, source: ByteSource, size: int) -> None:
        self._source = source
        self.size = size
        # Bytes in memory, and their offsets: the end of the file, and those read last.
        self._windows = [self._read_window(size)]
        # Ends of damaged segments, and of those for which none before them stands.
        self._bad: set[int] = set()
        self._alone: set[int] = set()
        self._left = _MAX_SEARCH * size + TAIL_NBYTES
        self.name = source.name or "memory"

    def read_at(self, offset: int, nbytes: int) -> BytesLike:
        """Return bytes of the file, from memory if they are near the end."""
        for start, window in self._windows:
            stop = start + len(window)
            if start <= offset and (offset + nbytes <= stop or stop == self.size):
                return window[offset - start : offset - start + nbytes]
        return self._source.read_at(offset, nbytes)

    def _fetch_before(self, end: int) -> None:
        """Fetch the tail of a segment together with what is read next, if requests are slow."""
        is_here = any(start <= end - TAIL_SIZE for start, _ in self._windows)
        if self._source.has_latency and not is_here:
            self._windows = [self._windows[0], self._read_window(end)]

    def _read_window(self, end: int) -> tuple[int, memoryview]:
        """Return the bytes before an offset, and where they start."""
        start = max(0, end - TAIL_NBYTES)
        return start, memoryview(self._source.read_at(start, end - start))

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

    def stand_in(self, group: Group) -> list[Group] | None:
        """Return a chain with the same number of clips before a damaged segment, or None."""
        end = group.tail.end
        self._bad.add(end)
        if end in self._alone:
            return None
        found = self._chain_of(group.extent.start, group.extent.total)
        if found is None:
            self._alone.add(end)
        return found

    def _log_ignored_bytes(self, end: int) -> None:
        notice(
            "%s: the last %d bytes are not a whole clip and are ignored "
            "(an append that was not finished)",
            self.name,
            self.size - end,
        )

    def _tail(self, end: int) -> Tail | None:
        """Return the tail of the segment that ends at `end`; None if it is damaged, or a part."""
        if end < TAIL_SIZE or end in self._bad:
            return None
        view = self.read_at(end - TAIL_SIZE, TAIL_SIZE)
        if view[: len(SEGMENT_MAGIC)] != SEGMENT_MAGIC:
            return None
        try:
            tail = Tail.unpack(view, end)
        except FormatError:
            return None
        return None if tail.flags & FLAG_PART else tail

    def _segment(self, tail: Tail) -> Group | None:
        """Return a segment, or None if its clips, or the table of a directory, are damaged."""
        if tail.end in self._bad:
            return None
        is_directory = bool(tail.flags & FLAG_DIRECTORY)
        self._spend(tail.sections[2 if is_directory else 0].stored)
        try:
            return (Directory if is_directory else Segment).read(_Near(self), tail)
        except (FormatError, CodecError):
            self._bad.add(tail.end)
            return None

    def _chain(self, last: Tail | None) -> list[Group] | None:
        """Return the segments that end with `last`; None if one is damaged or missing."""
        segment = None if last is None else self._segment(last)
        if segment is None:
            return None
        chain = [segment]
        while chain:
            first, previous = chain[-1].extent.first, chain[-1].extent.previous
            if not first:
                return chain[::-1]
            self._fetch_before(previous)
            before = self._segment_of(self._tail(previous), first)
            before = before or self._segment_before(previous, first)
            if before is None:
                # A chain through this segment is incomplete unless a replacement is found.
                self._bad.add(chain[-1].tail.end)
                chain.pop()
            else:
                chain.append(before)
        return None

    def _chain_of(self, before: int, total: int) -> list[Group] | None:
        """Return a chain of `total` ordinals that ends at `before` or earlier."""
        while (segment := self._segment_before(before, total)) is not None:
            chain = self._chain(segment.tail)
            if chain is not None:
                return chain
        return None

    def _segment_of(self, tail: Tail | None, total: int) -> Group | None:
        return self._segment(tail) if tail is not None and tail.total == total else None

    def _segment_before(self, end: int, total: int) -> Group | None:
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


def has_unknown(source: ByteSource, start: int, end: int, total: int) -> bool:
    """Return whether a magic is between two offsets of a file, with enough bytes for its tail.

    With fewer bytes, the segment was not written to its end. Intact parts of a directory that was
    not written do not count, if the chain before them has their ordinals, `total` in all.
    """
    for place in _magics_between(source, start, end - TAIL_SIZE + len(SEGMENT_MAGIC)):
        try:
            tail = Tail.unpack(source.read_at(place, TAIL_SIZE), place + TAIL_SIZE)
        except (FormatError, UnsupportedError):
            return True
        if not tail.flags & FLAG_PART or tail.total > total:
            return True
    return False


def _magics_between(source: ByteSource, start: int, stop: int) -> Iterator[int]:
    """Yield the offset of each magic between two offsets of a file."""
    holes = Holes(source)
    overlap = len(SEGMENT_MAGIC) - 1
    position = start
    while position < stop:
        # A magic may cross the border of two blocks.
        block = bytes(source.read_at(position, min(_BLOCK_NBYTES + overlap, stop - position)))
        place = block.find(SEGMENT_MAGIC)
        while place >= 0:
            yield position + place
            place = block.find(SEGMENT_MAGIC, place + 1)
        position = holes.data_from(position + _BLOCK_NBYTES)  # a magic starts with a byte over 0


def merged(
    contents: Collection[tuple[Segment, Content]],
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
    for segment, (clips, chunks, metas) in contents:
        live = np.isin(segment.ordinals, [*dropped], invert=True)
        formats = clips.formats[live]
        places = np.zeros(len(clips.rows), "<u4")
        for which in np.unique(formats).tolist():
            places[which] = rows.setdefault(clips.rows[which], len(rows))
        hashes = clips.hashes_in_order()
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
    has_fewer = len(ids) < sum(each.tail.nclips for each, _ in contents)
    if removed or has_fewer or any(each.clips.changes for each, _ in contents):
        gone = np.array(sorted(removed), np.int64)
        ordinals, ranks = np.concatenate(numbers, axis=1)
        changes = Changes(ordinals, ranks, gone, dead)
    clips = Clips.of(offsets, nframes, formats, ids, list(rows), hashes, changes)
    return Content(clips, np.concatenate(tables, axis=1).tobytes(), Metas.pack(texts))
