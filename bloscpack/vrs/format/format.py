"""File header and record header of VRS, and the numbers in them. Stored on disk.

A file is a header and then records back to back; a record is a header and its payload. All numbers
are little-endian and packed. Nothing in a file is checksummed, so only the plausibility rules of
`RecordHeader.check` distinguish a header from other bytes. Contract: any bytes give a value, a
`FormatError` or an `UnsupportedError`. Layout: docs/formats/vrs.md.
"""

import re
import sys
from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...plugin import (
    RECORDING_MAGIC,
    BytesLike,
    FormatError,
    UnsupportedError,
    unpack_fields,
    wrong_kind,
)

MAGIC = RECORDING_MAGIC
MAGIC_END = b"cord"
VERSIONS = "VRS1", "VRS2", "VRS3"

FILE_HEADER_SIZE = 8 + 8 + 4 + 4 + 3 * 8 + 3 * 8 + 4 + 4
RECORD_HEADER_SIZE = 4 + 4 + 4 + 4 + 8 + 2 + 1 + 1 + 4
# Largest growth of a header, in bytes, accepted from a later version of the format.
MAX_HEADER_GROWTH = 200

INDEX_TYPE_ID = 1
DESCRIPTION_TYPE_ID = 2
UNDEFINED_TYPE_ID = 0xFFFF
MAX_INSTANCE_ID = 0xFFFF
# Ids of tests, from before ids had 16 bits: 100000 is read as 65500, 100001 as 65501 and so on.
_FIRST_LEGACY_TYPE_ID = 100_000
_LEGACY_TYPE_ID_BASE = 65_500

# Times of internal records: MAX for the description and the index, MIN for tags.
TIMESTAMP_MAX = sys.float_info.max
TIMESTAMP_MIN = -sys.float_info.max

# Limits on the work that a file can cause. Writers stay far below; a crafted file would not.
MAX_BLOCKS = 1_000
MAX_PIECES = 100_000
MAX_JSON_DEPTH = 64
MAX_STREAMS = 65_536

_FILE_HEADER = Struct("<8sQIIqqq24x4s4s")
RECORD_HEADER = Struct("<IIiIdHBBI")
"""Fields of a record header in file order, which differs from that of `RecordHeader`."""

RECORD_HEADER_DTYPE = np.dtype(
    [
        ("size", "<u4"),
        ("previous_size", "<u4"),
        ("type_id", "<i4"),
        ("format_version", "<u4"),
        ("timestamp", "<f8"),
        ("instance_id", "<u2"),
        ("record_type", "u1"),
        ("compression", "u1"),
        ("uncompressed_size", "<u4"),
    ]
)
"""Fields of a record header, for many headers at once; type ids as stored."""

_STREAM_ID = re.compile(r"(\d{1,6})-(\d{1,5})", re.ASCII)


class RecordType(IntEnum):
    """Type of a record. Stored on disk."""

    STATE = 1
    CONFIGURATION = 2
    DATA = 3
    TAGS = 4
    """Tags of a stream that was added after the description was written; applied, never shown."""


RECORD_TYPE_NAMES = {kind: kind.name.lower() for kind in RecordType if kind != RecordType.TAGS}
"""Public names of the record types that users see."""
_RECORD_TYPES = {name: kind for kind, name in RECORD_TYPE_NAMES.items()}


def find_record_type(of: object) -> RecordType:
    """Return the record type of a public name; the type of tags records has none."""
    if isinstance(of, RecordType) and of in RECORD_TYPE_NAMES:
        return of
    found = _RECORD_TYPES.get(of) if isinstance(of, str) else None
    if found is None:
        raise ValueError(f"record type {of!r}: expected one of {', '.join(_RECORD_TYPES)}")
    return found


class Compression(IntEnum):
    """Compression of a record's payload. Stored on disk."""

    NONE = 0
    LZ4 = 1
    """One frame of the LZ4 frame format."""
    ZSTD = 2
    """One Zstandard frame."""


class StreamId(NamedTuple):
    """Id of a stream: type of the device and number of the device among those of its type.

    Attributes
    ----------
    type_id : int
        0 to 65535; `typenames.TYPE_NAMES` lists the known types.
    instance_id : int
        0 to 65535; writers start at 1.
    """

    type_id: int
    instance_id: int

    @classmethod
    def parse(cls, text: str) -> "StreamId":
        """Parse an id such as ``"1201-1"``.

        Raises
        ------
        ValueError
            `text` is not a stream id.
        """
        found = _STREAM_ID.fullmatch(text)
        if found is None or max(map(int, found.groups())) > 0xFFFF:
            raise ValueError(f"stream id {text!r}: expected TYPE-INSTANCE, both 0 to 65535")
        return cls(int(found[1]), int(found[2]))

    @classmethod
    def from_stored(cls, type_id: int, instance_id: int) -> "StreamId":
        """Return the id for a 32-bit type id and an instance id as stored in a file."""
        return cls(normal_type_id(type_id), instance_id)

    def __str__(self) -> str:
        return f"{self.type_id}-{self.instance_id}"


def normal_type_id(stored: int) -> int:
    """Return the 16-bit type id that a stored 32-bit one stands for.

    Legacy ids are mapped (reference 1.4.0, ``FileFormat.h``); others keep their low 16 bits.
    """
    if stored >= _FIRST_LEGACY_TYPE_ID:
        stored += _LEGACY_TYPE_ID_BASE - _FIRST_LEGACY_TYPE_ID
    return stored & 0xFFFF


def normal_type_ids(stored: NDArray[np.int32]) -> NDArray[np.int64]:
    """Apply `normal_type_id` to an array of stored ids."""
    ids = stored.astype(np.int64)
    ids[ids >= _FIRST_LEGACY_TYPE_ID] += _LEGACY_TYPE_ID_BASE - _FIRST_LEGACY_TYPE_ID
    return ids & 0xFFFF


class FileHeader(NamedTuple):
    """Header of a file."""

    creation_id: int  # creation time in ns since 1970, with the low 30 bits random
    # In bytes.
    file_header_size: int = FILE_HEADER_SIZE
    record_header_size: int = RECORD_HEADER_SIZE
    # Byte position of the index record; 0 while the file is being written and after a crash.
    index_offset: int = 0
    description_offset: int = FILE_HEADER_SIZE  # byte position of the description record
    # Byte position of the first user record; 0 if records follow the description.
    first_record_offset: int = 0
    version: str = "VRS1"  # ``"VRS1"`` to ``"VRS3"``

    def pack(self) -> bytes:
        """Return the header as stored, `file_header_size` bytes."""
        packed = _FILE_HEADER.pack(MAGIC, *self[:6], MAGIC_END, self.version.encode("ascii"))
        return packed.ljust(self.file_header_size, b"\0")

    @classmethod
    def unpack(cls, view: BytesLike) -> "FileHeader":
        """Return the header at the start of `view`.

        Magic numbers, header sizes and version are checked; offsets are not and may lead anywhere.
        Raises UnsupportedError for a newer version, or a larger record header than any known writer
        makes.
        """
        head = bytes(view[: len(MAGIC)])
        if head != MAGIC[: len(head)]:  # fewer bytes are a file that is cut off
            raise wrong_kind(view, "a VRS file")
        _magic, *numbers, end, version = unpack_fields(_FILE_HEADER, view, 0, "file header")
        if end != MAGIC_END:
            raise FormatError(
                f"not a VRS file: {end!r} instead of {MAGIC_END!r} at byte 72",
                offset=72,
                field="magic",
            )
        file_header_size, record_header_size = numbers[1:3]
        if not FILE_HEADER_SIZE <= file_header_size <= FILE_HEADER_SIZE + MAX_HEADER_GROWTH:
            raise FormatError(
                f"not a VRS file: a file header of {file_header_size} bytes at byte 16,"
                f" expected {FILE_HEADER_SIZE} to {FILE_HEADER_SIZE + MAX_HEADER_GROWTH}",
                offset=16,
                field="file_header_size",
            )
        if not 0 <= record_header_size - RECORD_HEADER_SIZE <= MAX_HEADER_GROWTH:
            raise FormatError(
                f"not a VRS file: record headers of {record_header_size} bytes at byte 20,"
                f" expected {RECORD_HEADER_SIZE} or more",
                offset=20,
                field="record_header_size",
            )
        text = version.decode("ascii", "replace")
        if text not in VERSIONS:
            raise UnsupportedError(
                f"VRS version {text!r} at byte 76: this release reads {', '.join(VERSIONS)}"
            )
        if record_header_size != RECORD_HEADER_SIZE:
            raise UnsupportedError(
                f"record headers of {record_header_size} bytes at byte 20: this release, like the"
                f" reference, reads those of {RECORD_HEADER_SIZE}"
            )
        return cls._make((*numbers, text))


class RecordHeader(NamedTuple):
    """Header of a record, in front of its payload."""

    size: int  # bytes of the record in the file, this header included
    previous_size: int  # the `size` of the record before it in the file; 0 for the first record
    stream_id: StreamId  # legacy type ids are mapped
    # Version of the record format of the payload, for this stream and record type.
    format_version: int
    timestamp: float  # in seconds
    record_type: int  # a `RecordType`, or any byte of a damaged file
    compression: int = Compression.NONE  # a `Compression`, or any byte of a damaged file
    uncompressed_size: int = 0  # bytes of the payload when decoded; 0 if it is not compressed

    def pack(self) -> bytes:
        """Return the header as stored, 32 bytes; ValueError if a record has 4 GiB or more."""
        try:
            size, previous_size, (type_id, instance_id), version, timestamp, *rest = self
            fields = size, previous_size, type_id, version, timestamp, instance_id
            return RECORD_HEADER.pack(*fields, *rest)
        except error as err:
            raise ValueError(f"record header {self}: {err}") from err

    @classmethod
    def unpack(cls, view: BytesLike, at: int = 0) -> "RecordHeader":
        """Return the header at position `at` of `view`, unchecked."""
        fields = unpack_fields(RECORD_HEADER, view, at, "record header")
        size, previous_size, type_id, version, timestamp, instance_id, *rest = fields
        stream_id = StreamId.from_stored(type_id, instance_id)
        return cls(size, previous_size, stream_id, version, timestamp, *rest)

    def check(self, offset: int) -> None:
        """Raise FormatError unless the fields are plausible.

        `offset` is the header's byte position.
        """
        if fault := self.fault():
            raise FormatError(f"record at byte {offset}: {fault[1]}", offset=offset, field=fault[0])

    def fault(self) -> tuple[str, str] | None:
        """Return (field, message) of the first implausible field, or None."""
        return header_fault(
            *self[:2], self.stream_id[0], self.record_type, self.compression, self.uncompressed_size
        )


def header_fault(
    size: int,
    previous_size: int,
    type_id: int,
    record_type: int,
    compression: int,
    uncompressed_size: int,
) -> tuple[str, str] | None:
    """Return (field, message) of the first implausible field of a record header, or None.

    Rules: reference 1.4.0, ``RecordHeader::isSanityCheckOk``.
    """
    if size < RECORD_HEADER_SIZE:
        return "size", f"a size of {size} is less than its header's {RECORD_HEADER_SIZE}"
    if 0 < previous_size < RECORD_HEADER_SIZE:
        return "previous_size", f"the {previous_size} bytes before it are too few for a record"
    if not 1 <= record_type <= 4:
        return "record_type", f"{record_type} is not a record type"
    if compression > 2:
        return "compression", f"{compression} is not a known compression"
    if uncompressed_size and type_id != INDEX_TYPE_ID:
        stored, limit = size - RECORD_HEADER_SIZE, uncompressed_size
        limit += max(50, limit // 2) if limit < 200 else max(100, limit // 20)
        if stored >= limit:
            return (
                "uncompressed_size",
                f"{stored} stored bytes are too many for {uncompressed_size} uncompressed ones",
            )
    return None
