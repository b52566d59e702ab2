"""Verify a frame store from front to end: find damaged frames and index segments.

Every byte of a store belongs to its front, to a chunk or to a segment, so a flipped bit is found
anywhere, even in segments that have been merged and are no longer read. Only the chunks of removed
clips are not read: they may have been given back to the file system, and are zeros then.
"""

from contextlib import suppress

from ...damage.report import Damage, Report, damage_of
from ...exceptions import BloscpackError, CodecError, FormatError, UnsupportedError, WrongKindError
from ...format.header import MAX_HEADER_SIZE
from ...storage.protocol import ByteSource
from ...types import BytesLike, Progress
from .clipverifier import ClipVerifier, Place, id_text, place_of, split_overlapping
from .directory import Directory
from .format import (
    DIGEST_SIZE,
    FLAG_DIRECTORY,
    RAW_ALIGNMENT,
    SEGMENT_MAGIC,
    TAIL_SIZE,
    Metas,
    Tail,
    raw_padding,
    store_header,
)
from .front import FRONT_NBYTES, Front
from .index import Finder, Group, Index, has_unknown
from .segment import Segment, read_section
from .summary import Summary, summarize


def is_frame_store(source: ByteSource, head: BytesLike | None = None) -> bool:
    """Return whether a file is a frame store, by its header or, if that is damaged, its end."""
    try:
        Front(source, head)
    except (FormatError, WrongKindError):  # a damaged header may look like another kind
        return _tail_at(source, source.size()) is not None
    except UnsupportedError:
        return False
    return True


def _tail_at(source: ByteSource, end: int) -> Tail | None:
    """Return the tail of the segment that ends at `end`, or None."""
    try:
        return Tail.unpack(source.read_at(max(0, end - TAIL_SIZE), TAIL_SIZE), end)
    except (FormatError, UnsupportedError):
        return None


def verify_store(
    source: ByteSource, *, nthreads: int | None = None, progress: Progress | None = None
) -> Report:
    """Verify the front, the index and every frame of a store, which is only read.

    `progress` is called with (bytes done, bytes in total), decoded bytes. Damage names clips and
    their frames. Bytes after the last clip are not damage if they can be the start of an unfinished
    append; `notices` state how many there are.
    """
    return _StoreVerification(source).run(nthreads, progress)


def standard_front(source: ByteSource) -> Front:
    """Return the front of a store with a damaged header, as the header of all stores is equal."""
    header = store_header().pack()
    return Front(source, header + bytes(source.read_at(len(header), FRONT_NBYTES - len(header))))


class _StoreVerification:
    """Verification of a store as of its start: a writer may append at the same time."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._front: list[Damage] = []
        self._index_damage: list[Damage] = []
        self._notices: list[str] = []
        self._summary = Summary(0, 0, 0, 0, [])
        self._done = 0
        # Start of the chunks of each removed clip, by their end.
        self._removed: dict[int, int] = {}

    def run(self, nthreads: int | None, progress: Progress | None) -> Report:
        data_offset = self._verify_front()
        frames: list[Damage] = []
        state = "absent"
        self._finder = finder = Finder(self._source, self._source.size())
        try:
            index = finder.find()
        except FormatError as err:
            self._index_damage.append(damage_of(err))
        else:
            self._index_damage += [damage_of(err) for err in index.leave_out()]
            self._summary = summarize(index)
            frames = self._verify_clips(index, data_offset, nthreads, progress)
            self._verify_rest(index, finder)
            if index.dead:
                what = f"{index.dead} bytes of removed clips, which compact gives back"
                self._notices.append(what)
            state = "damaged" if self._index_damage else "valid"
        damage = [*self._front, *frames, *self._index_damage]
        return Report(
            self._source.name,
            self._summary.nchunks,
            self._summary.nbytes,
            sorted(damage, key=lambda each: each.offset or 0),
            state,
            self._notices,
        )

    def _verify_front(self) -> int | None:
        """Return where the data begin, or None if that is not known."""
        try:
            front = Front(self._source)
        except (FormatError, WrongKindError) as err:
            if not is_frame_store(self._source):
                raise
            self._front.append(damage_of(err, None, 0, MAX_HEADER_SIZE))
            front = standard_front(self._source)
        end: int | None = None
        try:
            end = front.end
            front.metadata  # noqa: B018 - decoded on access
        except BloscpackError as err:
            self._front.append(damage_of(err, None, front.header.size, end))
        return end

    def _verify_clips(
        self,
        index: Index,
        data_offset: int | None,
        nthreads: int | None,
        progress: Progress | None,
    ) -> list[Damage]:
        """Verify the frames of all clips, and the segments between them."""

        def done(nbytes: int) -> None:
            self._done += nbytes
            if progress is not None:
                progress(self._done, self._summary.nbytes)

        verifier = ClipVerifier(self._source, nthreads, done)
        places: list[Place] = []
        for ordinal in index.ordinals:
            try:
                places.append(place_of(index, ordinal))
            except BloscpackError as err:
                verifier.add(index, ordinal, err)
        apart, overlapping = split_overlapping(places)
        for place, other in overlapping:
            name = id_text(index, other.ordinal)
            error = FormatError(
                f"its chunks overlap those of clip {name!r:.80}", offset=place.start
            )
            verifier.add(index, place.ordinal, error)
        for place in apart:
            verifier.verify(index, place.ordinal)
        verifier.finish()
        self._verify_ids(index, verifier)
        self._verify_segments(index, data_offset, apart)
        self._notices += verifier.notices
        return verifier.damage

    def _verify_ids(self, index: Index, verifier: ClipVerifier) -> None:
        """Verify that each clip is found by its id."""
        for ordinal in index.ordinals:
            if ordinal in verifier.bad:
                continue
            try:
                found = index.find(index.id(ordinal))
            except FormatError:  # in a damaged part of the index, which is in the report
                continue
            if found != ordinal:
                why = "has another hash" if found < 0 else f"is that of clip {found}, too"
                verifier.add(index, ordinal, FormatError(f"index: its id {why}"))

    def _verify_segments(self, index: Index, data_offset: int | None, places: list[Place]) -> None:
        """Verify that the data between the chunks of clips are intact segments."""
        start, end = data_offset, index.end
        first = min([index.segments[0].extent.start, *(place.start for place in places)])
        if start is not None and start > first:
            what = "metadata: they end after the start of the first clip"
            self._front.append(Damage(what, None, MAX_HEADER_SIZE, first))
        gaps = []
        for place in places:
            if start is not None and place.start > start:
                gaps.append((start, place.start))
            start = max(start or 0, place.end)
        gaps.append((index.segments[0].extent.start if start is None else start, end))
        live = {(place.start, place.end) for place in places}
        for gap in reversed(gaps):  # a segment follows the clips that it describes
            self._verify_gap(index, *gap, live)

    def _verify_gap(self, index: Index, start: int, end: int, live: set[tuple[int, int]]) -> None:
        """Verify that bytes between clips are segments, removed clips, or padding of raw frames."""
        while end > start:
            tail = _tail_at(self._source, end)
            if tail is not None and tail.offset >= start:
                segment = whole_segment(self._source, tail)
                before = None if segment is None else tail.offset
                if isinstance(segment, Segment) and index.dead:
                    self._note_removed(segment, live)
            else:
                before = self._removed.get(end) or self._before_padding(start, end)
            if before is None or before < start:
                what = "index: no whole segment"
                self._index_damage.append(Damage(what, None, start, end))
                return
            end = before

    def _note_removed(self, segment: Segment, live: set[tuple[int, int]]) -> None:
        """Note where the chunks of a segment's clips are that are not `live` any more."""
        index = Index(self._finder, [segment])
        for ordinal in segment.ordinals.tolist():
            with suppress(FormatError):
                _, start, end = place_of(index, ordinal)
                if start < end and (start, end) not in live:
                    self._removed[end] = start

    def _before_padding(self, start: int, end: int) -> int | None:
        """Return what the zero bytes that end at `end` follow: a segment, a clip or `start`.

        The segment may itself end with zeros, but not all bytes of its digest are. All bytes of a
        removed clip may be zeros.
        """
        if raw_padding(end):
            return None
        nbytes = min(end - start, RAW_ALIGNMENT - 1)
        block = bytes(self._source.read_at(end - nbytes, nbytes))
        position = end - nbytes + len(block.rstrip(b"\0"))
        for tail_end in range(position, min(position + DIGEST_SIZE + 1, end)):
            if tail_end == start or _tail_at(self._source, tail_end) is not None:
                return tail_end
        return max((each for each in self._removed if position <= each < end), default=None)

    def _verify_rest(self, index: Index, finder: Finder) -> None:
        """Distinguish damaged segments after the last intact one from an unfinished append."""
        size, end = finder.size, index.end
        if end == size:
            return
        # The end of a segment is written last.
        tail = bytes(finder.read_at(max(end, size - TAIL_SIZE), TAIL_SIZE))
        is_index = has_unknown(self._source, end, size, index.total)
        if is_index or _resembles_tail(tail, size):
            what = "index: damaged; clips may be missing that recover finds"
            self._index_damage.append(Damage(what, None, end, size))
        else:
            self._notices.append(
                f"{size - end} bytes after the last clip, at offset {end}, are not a whole clip: "
                "an append that was not finished"
            )


def whole_segment(source: ByteSource, tail: Tail) -> Group | None:
    """Return the segment of a tail, or None if any part of it is damaged."""
    damage: list[FormatError] = []
    group: Group
    try:
        if tail.flags & FLAG_DIRECTORY:
            group = Directory.read(source, tail)
            group.check_pages(damage)
            read_section(source, tail, 0)
        else:
            group = Segment.read(source, tail)
            Metas(group.content().metas, tail.nclips)
    except (FormatError, CodecError):
        return None
    return None if damage else group


def _resembles_tail(view: bytes, end: int) -> bool:
    """Return whether the bytes before `end` are a tail whose magic is damaged."""
    # The fields `offset` and `nbytes` of `Tail`, without its checks.
    offset, nbytes = (int.from_bytes(view[at : at + 8], "little") for at in (40, 48))
    has_magic = view[: len(SEGMENT_MAGIC)] == SEGMENT_MAGIC
    return len(view) == TAIL_SIZE and offset + nbytes == end and not has_magic
