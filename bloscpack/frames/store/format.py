"""Layout of a frame store: chunks of frames, and index segments that locate them.

::

    file    = header(64) metadata-section (clip | segment)*
    clip    = chunk* | padding stored-bytes* digest(8)*, the latter for raw frames
    chunk   = stored bytes, digest(8)
    segment = clips, chunks, metas (the sections), tail(152)

A file only grows. The chunks of a clip are followed by a segment for that clip, and now and then by
a segment that stands for several clips. A segment may also remove clips of earlier ones. The last
segment leads to the earlier ones. Pure: converts bytes to values and back, checks fields against
the number of bytes, and reads nothing.
docs/formats/frames.md describes every field.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from struct import Struct
from typing import NamedTuple, Self

import numpy as np
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from ...array.dtype import Dtype, pack_scalar, unpack_scalar
from ...exceptions import (
    ChecksumMismatch,
    FormatError,
    ObjectNumpyArrayRejection,
    TruncatedError,
    UnsupportedError,
)
from ...format.checksum import checksum_by_name
from ...format.codec import MAX_CHUNK_NBYTES, ChunkHeader, CodecParams, Shuffle, decode_into, encode
from ...format.filekind import STORE_TAIL_MAGIC
from ...format.header import FEATURE_FRAMES, UNKNOWN, Header, unpack_header_of
from ...types import BytesLike, IntArray
from .framesperchunk import MAX_GROUP, frames_per_chunk, raw_frames_per_chunk

CHECKSUM = "xxh3_64"
DIGEST_SIZE = 8
CONTAINER = "frames"  # the value of "container" in the metadata

SEGMENT_MAGIC = STORE_TAIL_MAGIC
_VERSION = 1
# magic, version, flags, formats, clips, chunks, first clip, offset, size, end of previous segment
_TAIL = Struct("<8sHHI6Q")
_SECTION = Struct("<QQ8s")  # stored size, decoded size, digest of the stored bytes
_HOW = Struct("<3B5s")  # how each section is stored, and `Tail.extra`
_CHANGES = Struct("<QQ")  # number of removed clips, and `Changes.dead`
NSECTIONS = 3
TAIL_SIZE = (8 + 2 + 2 + 4 + 6 * 8) + NSECTIONS * (8 + 8 + 8) + 8 + DIGEST_SIZE
CLIP_SIZE = 8 + 4 + 4 + 8 + 8 + 4  # per clip in the section of clips, without its id
_FORMAT = Struct("<4B20s8II4x")
FORMAT_SIZE = 4 + 20 + 8 * 4 + 8
CHUNK_SIZE = 4 + 1  # per chunk in the section of chunks
MAX_FRAMES = 2**32 - 1
MAX_NDIM = 8
MAX_DIM = 2**32 - 1

# Sections are compressed above a certain size. Segments of single clips never are, so everything in
# a compressed section is in the file uncompressed, too: no section decodes to more than the file.
_MIN_COMPRESSED_NBYTES = 1024
_SECTION_PARAMS = CodecParams("zstd", 3, Shuffle.NONE, 1, 1 << 18)

# Limit on the frames of a chunk: reading one of them decodes all.
_MAX_GROUP_NBYTES = 1 << 20
# The first frame of a raw clip is at a multiple of this, so that its pages can be mapped.
RAW_ALIGNMENT = 4096


class Codec(IntEnum):
    """How the frames of a clip are stored; stored on disk."""

    LOSSLESS = 1
    IMAGE = 2
    RAW = 3
    VIDEO = 4


class ImageKind(IntEnum):
    """File type of a chunk of codec `Codec.IMAGE`; stored on disk, in the field of the filter."""

    JPEG = 0
    PNG = 1


class How(IntEnum):
    """How a section is stored; stored on disk."""

    RAW = 0
    BLOSC = 1


_FLAG_VARIES = 0x01  # of a format: the images of the clip differ in shape
# Of a segment.
FLAG_CHANGED = 0x01  # its section of clips begins with `Changes`
FLAG_PART = 0x02  # a directory that follows lists it
FLAG_DIRECTORY = 0x04  # it lists parts, see `directory`


class FrameFormat(NamedTuple):
    """Format of the frames of a clip."""

    codec: Codec  # how they are stored
    group: int  # frames per chunk, 1 to 255; the last chunk of a clip may have fewer
    varies: bool  # whether images of the clip differ in shape
    dtype: Dtype  # data type of the pixels, including the byte order
    shape: tuple[int, ...]  # shape of a frame; if images differ, of the first
    ngroups: int = 0  # chunks of a clip of video, whose groups differ in length; 0 for others

    @classmethod
    def lossless(cls, dtype: Dtype, shape: tuple[int, ...]) -> "FrameFormat":
        """Return the format of losslessly stored frames.

        Raises
        ------
        TypeError
            The dtype has fields or holds Python objects.
        ValueError
            The shape exceeds the limits of a store.
        """
        if len(shape) > MAX_NDIM:
            raise ValueError(f"a frame has at most {MAX_NDIM} dimensions, not {len(shape)}")
        if max(shape, default=0) > MAX_DIM or _bound_of(dtype, shape) > MAX_CHUNK_NBYTES:
            raise ValueError(
                f"a frame of shape {shape} and {dtype} exceeds the limit of {MAX_CHUNK_NBYTES} "
                "bytes"
            )
        group = frames_per_chunk(dtype.itemsize * prod(shape))
        return cls(Codec.LOSSLESS, group, False, dtype, shape)

    @classmethod
    def raw(cls, dtype: Dtype, shape: tuple[int, ...]) -> "FrameFormat":
        """Return the format of uncompressed frames; raises as `lossless` does.

        Frames of zero bytes are stored losslessly: there is nothing to keep raw.
        """
        self = cls.lossless(dtype, shape)
        if not self.nbytes:
            return self
        return self._replace(codec=Codec.RAW, group=raw_frames_per_chunk(self.nbytes))

    @property
    def nbytes(self) -> int:
        """Decoded size of a frame in bytes."""
        return self.dtype.itemsize * prod(self.shape)

    def nchunks(self, nframes: int) -> int:
        """Return the number of chunks of `nframes` frames."""
        if self.codec == Codec.VIDEO:
            return self.ngroups
        return -(-nframes // self.group)

    def pack(self) -> bytes:
        """Return the format as a row of the index.

        Raises
        ------
        TypeError
            The name of the dtype is too long.
        """
        name = pack_scalar(self.dtype).encode("ascii")
        if len(name) > 20:
            raise TypeError(f"dtype {self.dtype} has a name of more than 20 characters")
        dims = (*self.shape, *(0,) * (MAX_NDIM - len(self.shape)))
        flags = _FLAG_VARIES if self.varies else 0
        return _FORMAT.pack(
            self.codec, self.group, len(self.shape), flags, name, *dims, self.ngroups
        )

    @classmethod
    def unpack(cls, row: BytesLike) -> "FrameFormat":
        """Unpack a row.

        Raises
        ------
        FormatError
            A field is out of range.
        UnsupportedError
            The codec or a flag is unknown.
        ImportError
            The dtype is one of ml_dtypes, which is not installed.
        """
        codec, group, ndim, flags, name, *dims, ngroups = _FORMAT.unpack(row)
        if codec not in iter(Codec) or flags & ~_FLAG_VARIES:
            raise UnsupportedError(
                f"frame format: codec {codec} with flags {flags:#x} is not supported here"
            )
        if not 1 <= group <= MAX_GROUP or (codec == Codec.IMAGE and group != 1):
            raise FormatError(f"frame format: group is {group}, outside its range", field="group")
        if codec != Codec.IMAGE and flags & _FLAG_VARIES:
            raise FormatError("frame format: only images may differ in shape", field="flags")
        if ndim > MAX_NDIM or any(dims[ndim:]) or any(bytes(row[-4:])):
            raise FormatError(f"frame format: {ndim} dimensions of {dims}", field="dims")
        text = name.rstrip(b"\0")
        if not text.isascii():
            raise FormatError(f"frame format: dtype {text!r} is not ASCII", field="dtype")
        try:
            dtype = unpack_scalar(text.decode("ascii"))
        except ObjectNumpyArrayRejection as err:
            raise FormatError(f"frame format: {err.args[0]}", field="dtype") from err
        self = cls(
            Codec(codec),
            group,
            bool(flags),
            dtype,
            tuple(dims[:ndim]),
            ngroups,
        )
        # Frames of a group of video are decoded one after the other.
        together = 1 if self._check_codec() else group
        limit = MAX_CHUNK_NBYTES if together == 1 else _MAX_GROUP_NBYTES
        if _bound_of(self.dtype, self.shape) * together > limit:
            raise FormatError(
                f"frame format: a chunk of {together} frames of shape {self.shape} and "
                f"{self.dtype} exceeds {limit} bytes",
                field="dims",
            )
        return self

    def _check_codec(self) -> bool:
        """Return whether the format is of video, after checking what its codec needs."""
        if self.codec == Codec.RAW and not self.nbytes:
            raise FormatError("frame format: raw frames of zero bytes", field="dims")
        is_video = self.codec == Codec.VIDEO
        if is_video != bool(self.ngroups):
            raise FormatError(
                f"frame format: {self.ngroups} groups of codec {self.codec}", field="ngroups"
            )
        is_rgb = self.dtype == np.uint8 and len(self.shape) == 3 and self.shape[2] == 3
        if is_video and not (is_rgb and all(self.shape)):
            raise FormatError(f"frame format: video of {self.dtype} {self.shape}", field="dims")
        return is_video


def _ngroups_of(row: bytes) -> int:
    """Return the number of chunks that a format states, 0 if it follows from that of frames."""
    return int.from_bytes(row[-8:-4], "little") if row[0] == Codec.VIDEO else 0


def raw_padding(offset: int) -> int:
    """Return the number of zero bytes between `offset` and the first frame of a raw clip."""
    return -offset % RAW_ALIGNMENT


def _bound_of(dtype: Dtype, shape: tuple[int, ...]) -> int:
    """Return the bytes of a frame, counting sides of 0 as 1: numpy limits that product, too."""
    return dtype.itemsize * prod(max(1, side) for side in shape)


class Section(NamedTuple):
    """A section of a segment."""

    # Sizes in bytes.
    stored: int
    decoded: int
    digest: bytes  # XXH3-64 of the stored bytes
    how: int  # see `How`


class Tail(NamedTuple):
    """End of a segment, which locates its sections and the previous segment."""

    # Number of formats, clips and chunks in the segment.
    nformats: int
    nclips: int
    nchunks: int
    first_clip: int  # number of ordinals in earlier segments of the chain
    # Absolute position and size of the whole segment.
    offset: int
    nbytes: int
    previous: int  # absolute end of the previous segment in the chain; 0 for the first
    # Sections of clips, chunks and metas, which follow each other from `offset` on.
    sections: tuple[Section, ...]
    extra: int = 0  # number of ordinals beside those of its clips; 0 if nothing was removed
    flags: int = 0  # FLAG_CHANGED, FLAG_PART, FLAG_DIRECTORY

    @property
    def end(self) -> int:
        """Absolute offset after the segment."""
        return self.offset + self.nbytes

    @property
    def total(self) -> int:
        """Number of ordinals in the chain up to and including this segment."""
        return self.first_clip + self.nclips + self.extra

    def section_offset(self, number: int) -> int:
        """Return the absolute position of a section."""
        return self.offset + sum(section.stored for section in self.sections[:number])

    @property
    def has_changes(self) -> bool:
        """Whether the section of clips begins with changes; of a directory, that of any part."""
        return bool(self.extra or self.flags & FLAG_CHANGED)

    def pack(self) -> bytes:
        """Return the bytes."""
        flags = self.flags | (FLAG_CHANGED if self.extra else 0)
        parts = [_TAIL.pack(SEGMENT_MAGIC, _VERSION, flags, *self[:7])]
        parts += [_SECTION.pack(*section[:3]) for section in self.sections]
        how = (section.how for section in self.sections)
        parts.append(_HOW.pack(*how, self.extra.to_bytes(5, "little")))
        packed = b"".join(parts)
        return packed + xxh3_64_digest(packed)

    @classmethod
    def unpack(cls, view: BytesLike, end: int) -> "Tail":
        """Unpack the tail in `view`, which ends at the absolute offset `end` of the file.

        Raises
        ------
        FormatError
            The tail is missing or damaged, or it belongs at another offset.
        UnsupportedError
            The version is not supported.
        """
        if len(view) != TAIL_SIZE:
            raise TruncatedError(f"index: the tail has {len(view)} of {TAIL_SIZE} bytes")
        magic, version, flags, *fields = _TAIL.unpack_from(view)
        packed, digest = view[:-DIGEST_SIZE], bytes(view[-DIGEST_SIZE:])
        if magic != SEGMENT_MAGIC or xxh3_64_digest(packed) != digest:
            raise FormatError(f"index: no whole segment ends at byte {end}", offset=end)
        if version != _VERSION or flags > FLAG_CHANGED | FLAG_DIRECTORY:
            raise UnsupportedError(
                f"index: version {version} with flags {flags:#x} is not supported here"
            )
        *how, extra = _HOW.unpack_from(view, TAIL_SIZE - DIGEST_SIZE - _HOW.size)
        sections = []
        for number in range(NSECTIONS):
            sizes = _SECTION.unpack_from(view, _TAIL.size + number * _SECTION.size)
            sections.append(Section(sizes[0], sizes[1], sizes[2], how[number]))
        nextra = int.from_bytes(extra, "little") if flags & FLAG_CHANGED else 0
        self = cls._make((*fields, tuple(sections), nextra, flags))
        if flags == FLAG_CHANGED and not self.extra:
            raise FormatError("index: a segment of changes has none", offset=end)
        self._check(end)
        return self

    def _check(self, end: int) -> None:
        """Check the sizes against each other and against the bytes before the segment."""
        clips, chunks, metas = self.sections
        ids_nbytes = clips.decoded - self.nclips * CLIP_SIZE - self.nformats * FORMAT_SIZE
        fits = (
            self.end == end
            and self.nbytes == TAIL_SIZE + sum(section.stored for section in self.sections)
            and self.previous <= self.offset
            and (self.previous == 0) == (self.first_clip == 0)
            and self.nformats <= self.nclips
            and self.nchunks * DIGEST_SIZE <= self.offset
            and ids_nbytes >= 0
            and chunks.decoded == self.nchunks * CHUNK_SIZE
            and metas.decoded >= self.nclips * 8
        )
        for section in self.sections:
            if section.how == How.RAW:
                fits = fits and section.decoded == section.stored
            else:
                fits = fits and section.how == How.BLOSC and section.decoded <= self.offset
        if self.flags & FLAG_DIRECTORY:
            fits = fits and self.total == self.first_clip < 2**63 and not self.nclips
        if not fits:
            raise FormatError(f"index: the segment before byte {end} has wrong sizes", offset=end)


def unpack_section(stored: BytesLike, section: Section, what: str) -> BytesLike:
    """Decode a section after comparing its digest.

    Raises
    ------
    ChecksumMismatch
        The digests differ.
    FormatError, CodecError
        It does not decode to the stated size.
    """
    if len(stored) != section.stored:
        raise TruncatedError(f"index: {len(stored)} of {section.stored} bytes of {what} are there")
    actual = xxh3_64_digest(stored)
    if actual != section.digest:
        raise ChecksumMismatch(
            f"index: {CHECKSUM} of {what} is {actual.hex()}, {section.digest.hex()} is stored",
            name=CHECKSUM,
            expected=section.digest,
            actual=actual,
        )
    if section.how == How.RAW:
        return stored
    try:
        header = ChunkHeader.unpack(stored)
    except UnsupportedError as err:
        raise FormatError(f"index: {what}: {err.args[0]}") from err
    if header.nbytes != section.decoded or header.cbytes != section.stored:
        raise FormatError(f"index: {what} decode to {header.nbytes} bytes, not {section.decoded}")
    # Not a bytearray, which is cleared first, and copied where a column is cut off it.
    decoded = np.empty(section.decoded, np.uint8).data
    decode_into(stored, decoded)
    return decoded


class Changes(NamedTuple):
    """Changes to earlier clips: the beginning of the section of clips of a segment that has any."""

    # int64: ordinal of each clip of the segment, ascending, as those of dropped clips are missing;
    # and the ordinal whose place among all clips it has, which is its own or that of a clip that it
    # replaced.
    ordinals: IntArray
    places: IntArray
    removed: IntArray  # int64: ordinals of clips that were removed, ascending
    dead: int  # bytes of the chunks of all clips removed so far

    def pack(self) -> bytes:
        """Return the bytes."""
        columns = (self.ordinals, self.places, self.removed)
        packed = (column.astype("<u8").tobytes() for column in columns)
        return b"".join((_CHANGES.pack(len(self.removed), self.dead), *packed))

    @classmethod
    def unpack(cls, view: BytesLike, tail: Tail) -> tuple[Self, int]:
        """Unpack the changes of a segment; also return where they end.

        Raises
        ------
        FormatError
            A field is out of its range.
        """
        error = FormatError("index: a field of the changes is out of its range", offset=tail.offset)
        nclips, room = tail.nclips, len(view) - tail.nformats * FORMAT_SIZE - _CHANGES.size
        if room < 0:
            raise error
        nremoved, dead = _CHANGES.unpack_from(view)
        if room < nclips * (CLIP_SIZE + 16) + 8 * nremoved or tail.total >= 2**63:
            raise error
        columns = np.frombuffer(view, "<u8", 2 * nclips + nremoved, _CHANGES.size)
        # Numbers over 2^63 become negative, and are refused.
        ordinals, places, removed = np.split(columns.astype(np.int64), [nclips, 2 * nclips])
        if not (
            (np.diff(ordinals, prepend=tail.first_clip - 1, append=tail.total) > 0).all()
            and (np.diff(removed, prepend=-1, append=tail.total) > 0).all()
            and ((places >= 0) & (places <= ordinals)).all()
            and dead <= tail.offset
        ):
            raise error
        return cls(ordinals, places, removed, dead), _CHANGES.size + columns.nbytes


@dataclass(frozen=True, slots=True)
class Clips:
    """Section of clips: one column per field."""

    offsets: IntArray  # uint64: absolute offset of the first chunk
    # uint32: number of frames, and ordinal of the format.
    nframes: IntArray
    formats: IntArray
    id_ends: IntArray  # uint64: end of the id in `ids`; it starts at the end of the previous one
    # uint64: XXH3-64 of the ids, ascending; uint32: the clip that each belongs to.
    hashes: IntArray
    order: IntArray
    rows: list[bytes]  # packed formats
    ids: BytesLike  # concatenated ids in UTF-8; lone surrogates are encoded like other characters
    changes: Changes | None = None  # None if the segment follows no change

    @classmethod
    def of(
        cls,
        offsets: IntArray,
        nframes: IntArray,
        formats: IntArray,
        ids: Sequence[BytesLike],
        rows: list[bytes],
        hashes: IntArray | None = None,
        changes: Changes | None = None,
    ) -> Self:
        """Return the columns; `hashes`, in the order of the clips, are computed if missing."""
        if hashes is None:
            hashes = np.array([hash_of(each) for each in ids], "<u8")
        order = np.argsort(hashes, kind="stable").astype("<u4")
        return cls(
            offsets.astype("<u8", copy=False),
            nframes.astype("<u4", copy=False),
            formats.astype("<u4", copy=False),
            np.cumsum([len(each) for each in ids], dtype="<u8"),
            hashes[order],
            order,
            rows,
            b"".join(ids),
            changes,
        )

    def pack(self) -> bytes:
        """Return the section."""
        columns = (self.offsets, self.nframes, self.formats, self.id_ends, self.hashes, self.order)
        changes = b"" if self.changes is None else self.changes.pack()
        return b"".join((changes, *(column.tobytes() for column in columns), *self.rows, self.ids))

    @classmethod
    def unpack(cls, view: BytesLike, tail: Tail) -> Self:
        """Unpack the section of a segment; the columns are views.

        Raises
        ------
        FormatError
            A field is out of its range.
        """
        nclips, position = tail.nclips, 0
        changes = None
        if tail.has_changes:
            changes, position = Changes.unpack(view, tail)
        columns = []
        for dtype in ("<u8", "<u4", "<u4", "<u8", "<u8", "<u4"):
            column = np.frombuffer(view, dtype, nclips, position)
            columns.append(column)
            position += column.nbytes
        offsets, nframes, formats, id_ends, hashes, order = columns
        end = position + tail.nformats * FORMAT_SIZE
        packed, ids = bytes(view[position:end]), view[end:]
        rows = [packed[at : at + FORMAT_SIZE] for at in range(0, len(packed), FORMAT_SIZE)]
        self = cls(offsets, nframes, formats, id_ends, hashes, order, rows, ids, changes)
        if nclips and not (
            (formats < tail.nformats).all()
            and (order < nclips).all()
            and (offsets <= tail.offset).all()
            and ascends_to(id_ends, len(ids))
            and (hashes[:-1] <= hashes[1:]).all()
            and all(row[1] for row in rows)  # `first_chunks` divides by them
        ):
            raise FormatError("index: a field of the clips is out of its range", offset=tail.offset)
        return self

    def id_bytes(self, number: int) -> bytes:
        """Return the stored bytes of an id."""
        start = int(self.id_ends[number - 1]) if number else 0
        return bytes(self.ids[start : int(self.id_ends[number])])

    def with_hash(self, hash_: int) -> list[int]:
        """Return the clips whose ids have this hash, also those that were removed."""
        start, stop = (
            int(np.searchsorted(self.hashes, np.uint64(hash_), side)) for side in ("left", "right")
        )
        return self.order[start:stop].tolist()  # type: ignore[no-any-return]

    def hashes_in_order(self) -> IntArray:
        """Return the hash of each id, in the order of the clips."""
        hashes = np.empty(len(self.order), "<u8")
        hashes[self.order] = self.hashes
        return hashes

    def first_chunks(self) -> IntArray:
        """Return the ordinal of each clip's first chunk in the segment, then the total."""
        groups = np.array([row[1] for row in self.rows], np.int64)
        counts = self.nframes.astype(np.int64)
        if (groups != 1).any() and len(counts):
            counts = -(-counts // groups[self.formats])
        # Groups of video differ in length, so the format counts them.
        ngroups = np.array([_ngroups_of(row) for row in self.rows], np.int64)
        if ngroups.any():
            own = ngroups[self.formats]
            counts = np.where(own > 0, own, counts)
        return np.concatenate(([0], np.cumsum(counts)))


def ascends_to(ends: IntArray, last: int) -> bool:
    """Return whether `ends` are ascending and end with `last`."""
    if not len(ends):
        return last == 0
    return bool((ends[:-1] <= ends[1:]).all()) and int(ends[-1]) == last


class Chunks:
    """Section of chunks: the stored size, without the digest, and the filter of each chunk.

    The sizes are split into bytes, all lowest bytes first, because that compresses better.
    """

    __slots__ = ("_planes",)

    def __init__(self, view: BytesLike) -> None:
        self._planes = np.frombuffer(view, "u1").reshape(CHUNK_SIZE, -1)

    @staticmethod
    def pack(cbytes: IntArray, filters: BytesLike) -> bytes:
        """Return the section."""
        planes = cbytes.astype("<u4").view("u1").reshape(-1, 4).T
        return planes.tobytes() + bytes(filters)

    def cbytes(self, start: int, stop: int) -> IntArray:
        """Return stored sizes as int64, without the digests."""
        planes = self._planes[:4, start:stop]
        return np.ascontiguousarray(planes.T).view("<u4").reshape(-1).astype(np.int64)

    def filters(self, start: int, stop: int) -> bytes:
        """Return the filters, one byte each."""
        return self._planes[4, start:stop].tobytes()


class Metas:
    """Section of metadata: JSON texts."""

    __slots__ = ("_texts", "ends")

    def __init__(self, view: BytesLike, nclips: int) -> None:
        self.ends = np.frombuffer(view, "<u8", nclips)
        self._texts = view[8 * nclips :]
        if not ascends_to(self.ends, len(self._texts)):
            raise FormatError("index: the section of metadata has an invalid size")

    @staticmethod
    def pack(texts: Sequence[BytesLike]) -> bytes:
        """Return the section."""
        ends = np.cumsum([len(text) for text in texts], dtype="<u8")
        return b"".join((ends.tobytes(), *texts))

    def text(self, number: int) -> bytes:
        """Return the metadata of a clip."""
        start = int(self.ends[number - 1]) if number else 0
        return bytes(self._texts[start : int(self.ends[number])])


class Content(NamedTuple):
    """Decoded content of a segment."""

    clips: Clips  # the section of clips
    # Other sections, decoded.
    chunks: BytesLike
    metas: BytesLike


def pack_segment(
    content: Content,
    *,
    offset: int,
    first_clip: int,
    previous: int,
    compress: bool,
    total: int = 0,
    flags: int = 0,
) -> tuple[Tail, bytes]:
    """Return a segment for the offset `offset`, and its tail; other arguments as in `Tail`.

    `total` is given if the content has changes.
    """
    stored, sections = [], []
    for data in (content.clips.pack(), content.chunks, content.metas):
        part, how = bytes(data), How.RAW
        # Must not decode to more bytes than the file has before it: see `Tail`.
        if compress and _MIN_COMPRESSED_NBYTES <= len(data) <= min(MAX_CHUNK_NBYTES, offset):
            packed = encode(data, _SECTION_PARAMS)
            if len(packed) < len(data):
                part, how = packed, How.BLOSC
        stored.append(part)
        sections.append(Section(len(part), len(data), xxh3_64_digest(part), how))
    nclips = len(content.clips.nframes)
    has_changes = content.clips.changes is not None
    tail = Tail(
        len(content.clips.rows),
        nclips,
        len(content.chunks) // CHUNK_SIZE,
        first_clip,
        offset,
        TAIL_SIZE + sum(map(len, stored)),
        previous,
        tuple(sections),
        total - first_clip - nclips if has_changes else 0,
        flags | (FLAG_CHANGED if has_changes else 0),
    )
    return tail, b"".join((*stored, tail.pack()))


def hash_of(id_: BytesLike) -> int:
    """Return the hash used to find an id."""
    return xxh3_64_intdigest(id_)


def pack_id(id_: str) -> bytes:
    """Return the stored form of an id."""
    return id_.encode("utf-8", "surrogatepass")


def unpack_id(data: bytes) -> str:
    """Return an id.

    Raises
    ------
    FormatError
        The bytes are not UTF-8.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as err:
        raise FormatError(f"index: id {data[:40]!r} is not UTF-8") from err


def store_header() -> Header:
    """Return the header of every frame store."""
    row = checksum_by_name(CHECKSUM)
    return Header(4, False, True, row, 1, UNKNOWN, UNKNOWN, UNKNOWN, 0, FEATURE_FRAMES)


def unpack_store_header(view: BytesLike) -> Header:
    """Unpack the header of a frame store; raises as `unpack_header_of` does."""
    header = unpack_header_of(view, FEATURE_FRAMES, "a frame store")
    if not header.metadata or header.offsets or header.checksum.name != CHECKSUM:
        raise FormatError("header: not that of a frame store")
    return header
