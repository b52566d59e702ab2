"""Recordings as bytes, built from the format page without the package's writer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import pack
from typing import Any

import zstandard

from bloscpack.vrs.format.compression import encode_payload

DBL_MAX = 1.7976931348623157e308
IMU = (241, 1)
STATE, CONFIGURATION, DATA, TAGS = 1, 2, 3, 4


@dataclass(frozen=True)
class Rec:
    """A record to build."""

    timestamp: float
    payload: bytes
    stream: tuple[int, int] = IMU
    type: int = DATA
    version: int = 1
    zstd: bool = False
    preset: str = "none"
    """Preset to compress with, as a writer does; `zstd` compresses regardless of the result."""


@dataclass
class Built:
    """A file, and the offsets of its parts."""

    data: bytearray
    records: Sequence[Rec]
    offsets: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    index_offset: int = 0

    def whole(self, nbytes: int) -> int:
        """Return the number of records that end within the first `nbytes`."""
        return sum(end <= nbytes for end in self.ends)


def header(size: int, previous: int, stream: tuple[int, int], rec: Any, *tail: int) -> bytes:
    type_id, instance = stream
    version, timestamp, kind = rec
    return pack("<IIiIdHBBI", size, previous, type_id, version, timestamp, instance, kind, *tail)


def text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogateescape")
    return pack("<I", len(encoded)) + encoded


def tag_map(tags: dict[str, str]) -> bytes:
    pairs = b"".join(text(key) + text(tags[key]) for key in sorted(tags))
    return pack("<I", len(tags)) + pairs


def tags_payload(user: dict[str, str], vrs: dict[str, str]) -> bytes:
    maps = [tag_map(tags)[4:] for tags in (vrs, user)]
    lengths = [len(part) for part in maps]
    return pack("<4I", 0, lengths[0], lengths[0], lengths[1]) + b"".join(maps)


def description(streams: dict[tuple[int, int], dict[str, dict[str, str]]], tags: Any) -> bytes:
    payload = pack("<I", len(streams))
    for stream, maps in sorted(streams.items()):
        payload += pack("<iH", *stream) + tag_map(maps["user"]) + tag_map(maps["vrs"])
    payload += tag_map(tags)
    size = 32 + len(payload)
    return header(size, 0, (2, 1), (2, DBL_MAX, DATA), 0, 0) + payload


def entries(records: Sequence[Rec], sizes: Sequence[int]) -> bytes:
    return b"".join(
        pack("<dIBiH", rec.timestamp, size, rec.type, *rec.stream)
        for rec, size in zip(records, sizes, strict=True)
    )


def classic_index(streams: Any, listed: bytes, previous: int, *, zstd: bool, slack: int) -> bytes:
    front = pack("<I", len(streams)) + b"".join(pack("<iH", *stream) for stream in sorted(streams))
    front += pack("<I", len(listed) // 19)
    nbytes = len(front) + len(listed)
    payload = front + (zstandard.ZstdCompressor().compress(listed) if zstd else listed)
    payload += b"\xaa" * slack
    tail = (2, nbytes) if zstd else (0, 0)
    return header(32 + len(payload), previous, (1, 1), (2, DBL_MAX, DATA), *tail) + payload


def stored(rec: Rec) -> tuple[bytes, tuple[int, int]]:
    """Return the stored payload, and the fields of the record header that describe it."""
    if rec.zstd:
        return zstandard.ZstdCompressor().compress(rec.payload), (2, len(rec.payload))
    compression, body = encode_payload(rec.payload, rec.preset)
    return bytes(body), (compression, len(rec.payload) if compression else 0)


def build(
    records: Sequence[Rec],
    index: str = "end",
    *,
    zstd: bool = False,
    file_tags: dict[str, str] | None = None,
    streams: dict[tuple[int, int], dict[str, dict[str, str]]] | None = None,
    creation_id: int = 123,
) -> Built:
    """Return a file with an index at the ``end``, in ``front``, ``split`` in front, or ``none``."""
    ids = {rec.stream for rec in records}
    if streams is None:
        streams = {stream: {"user": {}, "vrs": {}} for stream in ids}
    described = description(streams, file_tags or {})
    bodies = [stored(rec) for rec in records]
    sizes = [32 + len(body) for body, _ in bodies]
    listed = entries(records, sizes)
    front, previous = b"", len(described)
    if index == "front":
        front = classic_index(ids, listed, previous, zstd=zstd, slack=100)
        previous = len(front)
    elif index == "split":
        body = zstandard.ZstdCompressor().compress(listed) if zstd else listed
        tail = (2, len(listed)) if zstd else (0, 0)
        front = header(32 + len(body), previous, (1, 1), (3, DBL_MAX, DATA), *tail) + body
        previous = 32
    built = Built(bytearray(80) + described + front, records)
    first = len(built.data) if front else 0
    built.index_offset = 80 + len(described) if front else 0
    for rec, (body, tail), size in zip(records, bodies, sizes, strict=True):
        built.offsets.append(len(built.data))
        head = (rec.version, rec.timestamp, rec.type)
        built.data += header(size, previous, rec.stream, head, *tail) + body
        built.ends.append(len(built.data))
        previous = size
    if index == "end":
        built.index_offset = len(built.data)
        built.data += classic_index(ids, listed, previous, zstd=zstd, slack=0)
    built.data[:80] = pack(
        "<8sQIIqqq24x4s4s",
        b"VisionRe",
        creation_id,
        80,
        32,
        built.index_offset,
        80,
        first,
        b"cord",
        b"VRS2" if index == "front" else b"VRS1",
    )
    return built


def numbered(count: int, nbytes: int = 20, **changes: Any) -> list[Rec]:
    """Return records with different payloads."""
    return [
        Rec(float(k), bytes((k * 7 + j) % 251 for j in range(nbytes + k % 3)), **changes)
        for k in range(count)
    ]
