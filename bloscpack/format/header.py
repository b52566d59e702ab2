"""Layout of a Bloscpack file: header, offset table, and the sizes of all parts.

::

    file   = header [metadata] [offsets] (chunk digest)*
    header = 16 bytes (version 1), 32 bytes (2 and 3), 32 + 32 bytes (4)

Pure: converts bytes to a `Header` and back, and reads nothing. Every field is described in
docs/formats/bloscpack.md; facts about versions 1 to 3 come from bloscpack 0.1.1, 0.2.1 and 0.16.0.
"""

from collections.abc import Sequence
from struct import Struct, pack, unpack_from
from typing import NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import (
    ChecksumMismatch,
    FormatError,
    FormatVersionMismatch,
    NotBloscpackError,
    TruncatedError,
    UnsupportedError,
)
from ..types import BytesLike
from .bytefield import unpack_fields
from .checksum import CHECKSUMS, LAST_V3_ID, Checksum, checksum_by_id
from .codec import MAX_CHUNK_NBYTES
from .filekind import BLOSCPACK_MAGIC, FEATURES_AT, kind_of, wrong_kind

MAGIC = BLOSCPACK_MAGIC
EXTENSION = ".blp"
DEFAULT_VERSION = 3
MAX_CHUNKS = 2**63 - 1
UNKNOWN = -1  # chunk_size, last_chunk and nchunks of a stream of unknown length

# Bits of the options byte, stored on disk. Bits 2 to 7 must be 0: bloscpack 0.16 refuses them.
OPTION_OFFSETS = 0x01
OPTION_METADATA = 0x02

_HEADER_V1 = Struct("<4sB3sq")  # magic, version, zeros, nchunks
_HEADER = Struct("<4sBBBBiiqq")
_EXTENSION_MAGIC = b"BLPX"
# magic, size, checksum id, zero, incompatible features, compatible features, zeros, XXH3
_EXTENSION_HEADER = Struct("<4sHBBII8s8s")

HEADER_SIZE = 4 + 1 + 1 + 1 + 1 + 4 + 4 + 8 + 8
EXTENSION_HEADER_SIZE = 4 + 2 + 1 + 1 + 4 + 4 + 8 + 8
MAX_HEADER_SIZE = HEADER_SIZE + EXTENSION_HEADER_SIZE
_HEADER_SIZES = {1: 4 + 1 + 3 + 8, 2: HEADER_SIZE, 3: HEADER_SIZE, 4: MAX_HEADER_SIZE}
OFFSET_SIZE = 8
UNUSED_ENTRY = b"\xff" * OFFSET_SIZE  # -1: entry of the offset table that is spare or not filled

# Incompatible features of version 4, stored on disk: a reader must refuse a file with an unknown
# one. A frame store: chunks of any size, found by an index (docs/formats/frames.md).
FEATURE_FRAMES = 0x01
# Chunks may be array chunks (arraychunk.py).
FEATURE_ARRAY_CHUNKS = 0x02
# Chunks form an N-dimensional grid, whose shape is in the metadata (chunkgrid.py).
FEATURE_GRID = 0x04
# Bit 3 stays unknown: tests/conformance/bad_v4_feature.blp has it.
# An archive: several whole files, found by an index (archiveindex.py).
FEATURE_ARCHIVE = 0x10
# A log: an array that changes, found by the last commit (log.py).
FEATURE_LOG = 0x20
ARRAY_FEATURES = FEATURE_ARRAY_CHUNKS | FEATURE_GRID


class Header(NamedTuple):
    """Header of a Bloscpack file."""

    # 1 to 4. We write 3, and 4 where version 3 lacks a feature (`version_for`).
    format_version: int
    # Whether an offset table and a metadata section follow.
    offsets: bool
    metadata: bool
    checksum: Checksum  # checksum of every chunk, over its stored bytes
    typesize: int  # bytes per item, informative; each chunk has its own. 0 to 255
    # Decoded size of every chunk but the last, and of the last, in bytes; -1 if unknown.
    chunk_size: int
    last_chunk: int
    nchunks: int  # number of chunks; -1 if unknown, the chunks then extend to the end of the file
    max_app_chunks: int  # spare entries of the offset table
    features: int = 0  # incompatible features; version 4 only

    @property
    def size(self) -> int:
        """Size of the header itself, in bytes."""
        return _HEADER_SIZES[self.format_version]

    @property
    def table_size(self) -> int:
        """Size of the offset table in bytes, including spare entries; 0 without a table."""
        return OFFSET_SIZE * (self.nchunks + self.max_app_chunks) if self.offsets else 0

    def pack(self) -> bytes:
        """Return the bytes of the header."""
        version = self.format_version
        if version < DEFAULT_VERSION:
            raise UnsupportedError(f"header: version {version} can be read but not written")
        options = OPTION_OFFSETS * self.offsets | OPTION_METADATA * self.metadata
        # Version 4 stores its checksum id in the extension: with an id over 8 in byte 6,
        # bloscpack 0.16 raises an IndexError before it compares the version.
        id_ = self.checksum.id if version == DEFAULT_VERSION else 0
        head = _HEADER.pack(
            MAGIC,
            version,
            options,
            id_,
            self.typesize,
            self.chunk_size,
            self.last_chunk,
            self.nchunks,
            self.max_app_chunks,
        )
        if version == DEFAULT_VERSION:
            return head
        extension = _EXTENSION_HEADER.pack(
            _EXTENSION_MAGIC,
            EXTENSION_HEADER_SIZE,
            self.checksum.id,
            0,
            self.features,
            0,
            bytes(8),
            bytes(8),
        )
        head += extension[:-8]
        return head + xxh3_64_digest(head)

    @classmethod
    def unpack(cls, view: BytesLike, *, known_features: int = ARRAY_FEATURES) -> "Header":
        """Unpack the header at the beginning of `view`.

        Parameters
        ----------
        view : bytes-like
            Beginning of a file.
        known_features : int
            Incompatible features that the caller supports; by default those of arrays.

        Raises
        ------
        NotBloscpackError
            The magic is wrong (a ValueError, as in bloscpack 0.16).
        FormatVersionMismatch
            The version is not 1 to 4.
        TruncatedError
            The header is incomplete.
        FormatError
            A field is out of its range.
        ChecksumMismatch
            The header of version 4 is damaged.
        UnsupportedError
            The file has a feature that is not among `known_features`.
        """
        if len(view) < HEADER_SIZE:
            return _unpack_short(view)
        fields = _HEADER.unpack_from(view)
        magic, version, options, id_, typesize, chunk_size, last_chunk, nchunks, spare = fields
        if magic != MAGIC or version < 2 or version > 4:
            return _unpack_short(view)
        if options & ~(OPTION_OFFSETS | OPTION_METADATA):
            raise FormatError(
                f"header: options {options:#010b} has reserved bits set",
                offset=5,
                field="options",
            )
        features = 0
        if version == 4:
            id_, features = _unpack_extension(view, known_features)
        elif id_ > LAST_V3_ID:
            raise FormatError(
                f"header: checksum {id_} is not 0 to {LAST_V3_ID}", offset=6, field="checksum"
            )
        has_offsets = options & OPTION_OFFSETS != 0
        row = CHECKSUMS[id_] if id_ <= LAST_V3_ID else checksum_by_id(id_)
        has_metadata = options & OPTION_METADATA != 0
        values = (
            version,
            has_offsets,
            has_metadata,
            row,
            typesize,
            chunk_size,
            last_chunk,
            nchunks,
            spare,
            features,
        )
        header = tuple.__new__(cls, values)  # same as `_make`, but saves a call
        if not (
            # Fast path for the usual header; any other one is checked field by field.
            version == DEFAULT_VERSION
            and 0 < last_chunk <= chunk_size <= MAX_CHUNK_NBYTES
            and 0 < nchunks <= MAX_CHUNKS - spare
            and (spare == 0 or (has_offsets and spare > 0))
        ):
            header.check()
        return header

    def check(self) -> None:
        """Check the fields for their ranges and their consistency.

        Raises
        ------
        FormatError
            A field is invalid; the message names it.
        """
        _check_range("typesize", self.typesize, 0, 255)
        _check_range("chunk_size", self.chunk_size, UNKNOWN, MAX_CHUNK_NBYTES)
        _check_range("last_chunk", self.last_chunk, UNKNOWN, MAX_CHUNK_NBYTES)
        _check_range("nchunks", self.nchunks, UNKNOWN, MAX_CHUNKS)
        _check_range("max_app_chunks", self.max_app_chunks, 0, MAX_CHUNKS)
        if self.format_version == 2:
            # For a requested number of chunks, release 0.2 wrote a last_chunk above chunk_size. It
            # reserved the last eight bytes.
            if self.metadata:
                raise FormatError("options: version 2 has no metadata", offset=5, field="options")
            if self.max_app_chunks:
                raise FormatError(
                    "header: reserved bytes are not 0", offset=24, field="max_app_chunks"
                )
        elif self.chunk_size >= 0 and self.last_chunk > self.chunk_size:
            raise FormatError(
                f"last_chunk {self.last_chunk} exceeds chunk_size {self.chunk_size}",
                offset=12,
                field="last_chunk",
            )
        if self.nchunks == UNKNOWN and (self.max_app_chunks or self.offsets):
            raise FormatError(
                "nchunks is unknown, so the file cannot have an offset table",
                offset=16,
                field="nchunks",
            )
        if self.max_app_chunks and not self.offsets:
            raise FormatError(
                f"max_app_chunks is {self.max_app_chunks}, but the file has no offset table",
                offset=24,
                field="max_app_chunks",
            )
        if self.nchunks + self.max_app_chunks > MAX_CHUNKS:
            raise FormatError(
                f"nchunks {self.nchunks} + max_app_chunks {self.max_app_chunks} exceed 2^63-1",
                offset=16,
                field="nchunks",
            )
        if self.features & FEATURE_GRID:
            self._check_grid()
        if self.nchunks > 1 and self.last_chunk == 0:
            raise FormatError(
                f"last_chunk is 0, although nchunks is {self.nchunks}",
                offset=12,
                field="last_chunk",
            )

    def _check_grid(self) -> None:
        """Check that the sizes of all chunks follow from a grid in the metadata."""
        if not (self.offsets and self.metadata):
            raise FormatError(
                "header: a chunk grid needs metadata and an offset table", offset=5, field="options"
            )
        if self.chunk_size != UNKNOWN:
            raise FormatError(
                f"chunk_size is {self.chunk_size}, expected -1 with a chunk grid",
                offset=8,
                field="chunk_size",
            )
        if self.last_chunk == UNKNOWN or self.nchunks < 1:
            raise FormatError(
                f"last_chunk is {self.last_chunk} and nchunks {self.nchunks}; a chunk grid needs "
                "both",
                offset=12,
                field="last_chunk",
            )


def log_header(feature: int = 0) -> bytes:
    """Return the header of every log of one array; of an archive, with `FEATURE_ARCHIVE`."""
    return Header(4, False, False, CHECKSUMS[0], 0, 0, 0, 0, 0, FEATURE_LOG | feature).pack()


def unpack_header_of(view: BytesLike, feature: int, kind: str) -> Header:
    """Unpack the header of a file with this feature or these, which are those of a `kind` of files.

    Raises
    ------
    FormatError
        The header is damaged.
    WrongKindError
        The file is of another kind; `kind` has its article.
    UnsupportedError
        The version or a feature is not supported.
    """
    known = FEATURE_FRAMES | FEATURE_ARCHIVE | FEATURE_LOG | ARRAY_FEATURES
    if Header.unpack(view, known_features=known).features & feature != feature:
        raise wrong_kind(view, kind)
    return Header.unpack(view, known_features=feature)


def is_log(view: BytesLike) -> bool:
    """Return whether a file is a log by its first bytes, which are not checked."""
    features = bytes(view[FEATURES_AT : FEATURES_AT + 1])
    return bytes(view[:5]) == MAGIC + b"\x04" and bool(features and features[0] & FEATURE_LOG)


def version_for(*checksums: Checksum, features: int = 0) -> int:
    """Return the lowest format version that supports these checksums and incompatible features."""
    is_old = not features and all(row.id <= LAST_V3_ID for row in checksums)
    return DEFAULT_VERSION if is_old else 4


def pack_offsets(offsets: Sequence[int]) -> bytes:
    """Return the bytes of entries of the offset table, which are absolute positions."""
    return pack(f"<{len(offsets)}q", *offsets)


def unpack_offsets(view: BytesLike) -> tuple[int, ...]:
    """Return the entries in `view`, whose length is a multiple of 8."""
    return unpack_from(f"<{len(view) // OFFSET_SIZE}q", view)


def _unpack_short(view: BytesLike) -> Header:
    """Return a header of version 1; raise if the file is of another kind or too short."""
    if not len(view):
        raise wrong_kind(view, "a Bloscpack file")
    if not MAGIC.startswith(view[:4]):
        if kind_of(view) is None:
            raise NotBloscpackError(
                f"header: magic is {bytes(view[:4])!r}, not {MAGIC!r}; not a Bloscpack file",
                offset=0,
                field="magic",
            )
        raise wrong_kind(view, "a Bloscpack file")
    if len(view) > len(MAGIC):
        version = view[4]
        if version == 1:
            return _unpack_v1(view)
        if version not in _HEADER_SIZES and len(view) >= HEADER_SIZE:
            raise FormatVersionMismatch(f"header: format version is {version}, expected 1 to 4")
    raise TruncatedError(f"header: found {len(view)} of {HEADER_SIZE} bytes", offset=0)


def _unpack_v1(view: BytesLike) -> Header:
    _, _, zeros, nchunks = unpack_fields(_HEADER_V1, view, 0, "header")
    if zeros != bytes(3):
        raise FormatError("header: reserved bytes are not 0", offset=5, field="reserved")
    _check_range("nchunks", nchunks, 0, MAX_CHUNKS)
    return Header(1, False, False, CHECKSUMS[0], 0, UNKNOWN, UNKNOWN, nchunks, 0)


def _unpack_extension(view: BytesLike, known_features: int) -> tuple[int, int]:
    """Return the checksum id and the features."""
    fields = unpack_fields(_EXTENSION_HEADER, view, HEADER_SIZE, "extended header")
    magic, size, id_, _, incompatible, _, _, digest = fields
    if magic != _EXTENSION_MAGIC or size != EXTENSION_HEADER_SIZE:
        raise FormatError(
            f"extended header: magic {magic!r} and size {size}, expected {_EXTENSION_MAGIC!r} "
            f"and {EXTENSION_HEADER_SIZE}",
            offset=HEADER_SIZE,
            field="extension",
        )
    actual = xxh3_64_digest(view[: MAX_HEADER_SIZE - len(digest)])
    if actual != digest:
        raise ChecksumMismatch(
            f"header: digest is {actual.hex()}, {digest.hex()} is stored",
            name="xxh3_64",
            expected=digest,
            actual=actual,
            offset=MAX_HEADER_SIZE - len(digest),
        )
    unknown = incompatible & ~known_features
    if unknown in (FEATURE_FRAMES, FEATURE_ARCHIVE, FEATURE_ARCHIVE | FEATURE_LOG):
        raise wrong_kind(view, "an array")
    if unknown:
        raise UnsupportedError(
            f"extended header: this release does not support features {unknown:#x}"
        )
    if view[6]:
        raise FormatError("header: checksum must be 0 in version 4", offset=6, field="checksum")
    return id_, incompatible


_OFFSETS = {
    "typesize": 7,
    "chunk_size": 8,
    "last_chunk": 12,
    "nchunks": 16,
    "max_app_chunks": 24,
}


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise FormatError(
            f"{field} must be {low} to {high}, not {value}", offset=_OFFSETS[field], field=field
        )
