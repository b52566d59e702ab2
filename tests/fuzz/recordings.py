"""VRS recordings to be damaged: their content, the places of their fields, and how to rebuild them.

Places and values come from parsing the bytes independently of the package. A rebuilt recording has
other tags or payloads, with matching sizes, record headers and index, so that the damage passes
these and reaches the decoders.
"""

import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from vectors import SMALL_VECTORS, ReferenceFolder

from bloscpack.vrs.format.compression import decode_payload, encode_frame
from bloscpack.vrs.format.format import Compression

HEADER_SIZE = 80
RECORD_SIZE = 32
_RECORD = struct.Struct("<IIiIdHBBI")
_ENTRY = struct.Struct("<dIBiH")
HEADER_FIELDS = ((16, 4), (20, 4), (24, 8), (32, 8), (40, 8), (72, 4), (76, 4))
RECORD_FIELDS = (
    *((0, 4), (4, 4), (8, 4), (12, 4), (16, 8)),
    *((24, 2), (26, 1), (27, 1), (28, 4)),
)
INDEX, DESCRIPTION = 1, 2
LZ4_LEVEL, ZSTD_LEVEL = 0, 1
Tags = dict[bytes, bytes]
FILES = ReferenceFolder("vrs")


@dataclass
class StoredRecord:
    """Record of a valid file.

    Attributes
    ----------
    payload : bytes
        Decoded payload.
    """

    offset: int
    size: int
    type_id: int
    version: int
    timestamp: float
    instance_id: int
    record_type: int
    compression: int
    payload: bytes = field(repr=False)

    @property
    def is_internal(self) -> bool:
        return self.type_id in (INDEX, DESCRIPTION)

    @property
    def end(self) -> int:
        return self.offset + self.size

    def packed(self, previous: int, stored: bytes) -> bytes:
        """Return the record with another payload, as stored."""
        size = RECORD_SIZE + len(stored)
        how = self.compression, len(self.payload) if self.compression else 0
        head = self.type_id, self.version, self.timestamp, self.instance_id, self.record_type
        return _RECORD.pack(size, previous, *head, *how) + stored


@dataclass(frozen=True)
class RecordingVector:
    """Valid recording, its chunks joined."""

    name: str
    data: bytes = field(repr=False)
    records: tuple[StoredRecord, ...] = field(repr=False)
    fields: list[tuple[int, int]] = field(repr=False)

    @property
    def shown(self) -> list[StoredRecord]:
        """Records that are visible to users."""
        return [each for each in self.records if not each.is_internal and each.record_type != 4]

    @property
    def description(self) -> StoredRecord | None:
        found = [each for each in self.records if each.type_id == DESCRIPTION]
        return found[0] if found and found[0].version == 2 else None


@cache
def recording_vectors() -> list[RecordingVector]:
    """Return the small vectors, one of them without its index, and the available reference files.

    The largest and the empty reference files are left out.
    """
    small = [_load(path) for path in sorted((SMALL_VECTORS / "formats").glob("*.vrs"))]
    without_index = rebuilt(list(small[0].records), has_index=False)
    paths = [*FILES.glob("*.vrs"), *FILES.glob("upstream/*.vrs")]
    return [
        *small,
        _vector("recording_no_index", without_index),
        *(_load(path) for path in paths if path.stem not in ("synthetic", "enc_empty")),
    ]


def _load(path: Path) -> RecordingVector:
    data = path.read_bytes()
    for number in range(1, 10):
        more = Path(f"{path}_{number}")
        if not more.exists():
            break
        data += more.read_bytes()
    if path.stem == "cxx_chunked":  # a megabyte of frames: the first ones are enough
        data = data[: 64 << 10]
    return _vector(path.stem, data)


def _vector(name: str, data: bytes) -> RecordingVector:
    records = list(_walk(data))
    return RecordingVector(name, data, tuple(records), _fields(data, records))


def _walk(data: bytes) -> "list[StoredRecord]":
    found = []
    at = int.from_bytes(data[16:20], "little")
    while len(data) - at >= RECORD_SIZE:
        size, _, *head, compression, nbytes = _RECORD.unpack_from(data, at)
        if not RECORD_SIZE <= size <= len(data) - at:
            break
        stored = data[at + RECORD_SIZE : at + size]
        if compression and head[0] != INDEX:
            stored = bytes(decode_payload(stored, compression, nbytes))
        found.append(StoredRecord(at, size, *head, compression, stored))
        at += size
    return found


def _fields(data: bytes, records: list[StoredRecord]) -> list[tuple[int, int]]:
    """Return the numbers that readers use, the most important ones several times."""
    found = list(HEADER_FIELDS) * 2
    for each in [*records[:5], *records[-3:]]:
        found += [(each.offset + at, size) for at, size in RECORD_FIELDS]
        start = each.offset + RECORD_SIZE
        if each.type_id == INDEX:
            streams = int.from_bytes(data[start : start + 4], "little")
            found += [(start, 4), (start + 4, 4), (start + 4 + 6 * streams, 4)] * 3
            first = start + 8 + 6 * streams
            for entry in (0, 1, 2, (each.size - RECORD_SIZE) // 19 - 2):
                at = first + _ENTRY.size * entry
                found += [(at, 8), (at + 8, 4), (at + 12, 1), (at + 13, 4), (at + 17, 2)]
        elif each.type_id == DESCRIPTION:
            found += [(start, 4), (start + 4, 4), (start + 10, 4), (start + 14, 4)]
        else:
            found += [(start + 4 * word, 4) for word in range(6)]
    return [(at, size) for at, size in found if at >= 0 and at + size <= len(data)]


def unpack_tags(payload: bytes) -> tuple[list[tuple[bytes, Tags, Tags]], Tags]:
    """Return the streams (id, user tags, VRS tags) and the file tags of a valid description."""
    at = 4

    def number() -> int:
        nonlocal at
        at += 4
        return int.from_bytes(payload[at - 4 : at], "little")

    def text() -> bytes:
        nonlocal at
        size = number()
        at += size
        return payload[at - size : at]

    def tags() -> Tags:
        return {text(): text() for _ in range(number())}

    streams = []
    for _ in range(int.from_bytes(payload[:4], "little")):
        at += 6
        streams.append((payload[at - 6 : at], tags(), tags()))
    return streams, tags()


def pack_tags(streams: list[tuple[bytes, Tags, Tags]], file_tags: Tags) -> bytes:
    def packed(tags: Tags) -> bytes:
        items = [each for pair in tags.items() for each in pair]
        texts = b"".join(struct.pack("<I", len(each)) + each for each in items)
        return struct.pack("<I", len(tags)) + texts

    found = [id_ + packed(user) + packed(vrs) for id_, user, vrs in streams]
    return struct.pack("<I", len(streams)) + b"".join(found) + packed(file_tags)


def rebuilt(records: list[StoredRecord], *, has_index: bool) -> bytes:
    """Return a recording of these records without their indexes; optionally create an index."""
    parts, entries, previous, at = [], [], 0, HEADER_SIZE
    ids = set()
    for each in records:
        if each.type_id == INDEX:
            continue
        stored = each.payload
        if each.compression:
            level = LZ4_LEVEL if each.compression == Compression.LZ4 else ZSTD_LEVEL
            stored = encode_frame(stored, Compression(each.compression), level)
        part = each.packed(previous, stored)
        parts.append(part)
        previous = len(part)
        at += previous
        if not each.is_internal:
            stream = each.type_id, each.instance_id
            ids.add(stream)
            entries.append(_ENTRY.pack(each.timestamp, previous, each.record_type, *stream))
    if has_index:
        listed = b"".join(struct.pack("<iH", *stream) for stream in sorted(ids))
        payload = struct.pack("<I", len(ids)) + listed
        payload += struct.pack("<I", len(entries)) + b"".join(entries)
        index = StoredRecord(at, 0, INDEX, 2, 1.7976931348623157e308, 1, 3, 0, payload)
        parts.append(index.packed(previous, payload))
    offsets = at if has_index else 0, HEADER_SIZE, 0
    head = b"VisionRe", 7, HEADER_SIZE, RECORD_SIZE, *offsets, b"cord", b"VRS1"
    return struct.pack("<8sQIIqqq24x4s4s", *head) + b"".join(parts)
