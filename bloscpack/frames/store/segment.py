"""A segment of the index that lists clips; its sections of chunks and metadata are read on use."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...exceptions import FormatError
from ...storage.protocol import ByteSource
from ...types import AnyArray, BytesLike, IntArray
from .format import Chunks, Clips, Content, FrameFormat, Metas, Tail, unpack_section

SECTION_NAMES = ("clips", "chunks", "metadata")


class ClipRow(NamedTuple):
    """Row of a clip in the index."""

    offset: int  # absolute offset of its first chunk
    nframes: int  # number of frames
    format: FrameFormat


class Extent(NamedTuple):
    """Place of a segment, or of a directory with its parts, in the chain, and its size."""

    first: int  # number of ordinals in earlier segments
    total: int  # the same, including its own
    start: int  # absolute offset of its first byte
    previous: int  # absolute end of the previous segment
    # Number of clips and chunks, and decoded bytes of the section of metadata.
    nclips: int
    nchunks: int
    metas_nbytes: int


class Segment:
    """Segment of clips.

    `content` is that of a segment which is not in the file.
    """

    __slots__ = (
        "_chunks", "_content", "_first_chunks", "_formats", "_metas", "_source", "clips", "extent",
        "tail",
    )  # fmt: skip

    def __init__(
        self, source: ByteSource, tail: Tail, clips: Clips, content: Content | None = None
    ) -> None:
        self.tail = tail
        self.clips = clips
        sizes = tail.nclips, tail.nchunks, tail.sections[2].decoded
        self.extent = Extent(tail.first_clip, tail.total, tail.offset, tail.previous, *sizes)
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

    def parts(self) -> Iterator["Segment"]:
        """Yield the segment itself, as a directory yields its parts."""
        yield self

    def whole_parts(self, lost: list[FormatError]) -> Iterator["Segment"]:
        """Yield the segment itself, as a directory yields its parts that are not damaged."""
        yield self

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

    @property
    def dead(self) -> int:
        """Bytes of the chunks of all clips removed so far."""
        return 0 if self.clips.changes is None else self.clips.changes.dead

    def ordinal_of(self, number: int) -> int:
        """Return the ordinal of a clip of the segment, without making all of them."""
        changes = self.clips.changes
        return self.tail.first_clip + number if changes is None else int(changes.ordinals[number])

    def locate(self, ordinal: int) -> tuple["Segment", int]:
        """Return the segment and the number of a clip in it, or -1 if it is not there."""
        number = ordinal - self.tail.first_clip
        if (changes := self.clips.changes) is not None:
            number = int(np.searchsorted(changes.ordinals, ordinal))
            is_there = number < self.tail.nclips and changes.ordinals[number] == ordinal
            return self, number if is_there else -1
        return self, number if number < self.tail.nclips else -1

    def with_hash(self, hash_: int) -> Iterator[tuple["Segment", int]]:
        """Yield the segment and the number of each clip whose id has this hash."""
        for number in self.clips.with_hash(hash_):
            yield self, number

    def hashes(self) -> IntArray:
        """Return the hash of the id of each clip, unordered."""
        return self.clips.hashes

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
