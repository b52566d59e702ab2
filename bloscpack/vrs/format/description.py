"""Tags of a VRS file and of its streams: the description record and the tags record.

The description is the first record of a file and cannot change; a tags record holds the tags of a
stream that was added later. Strings keep their exact bytes: bytes that are not UTF-8 are decoded
and encoded with ``surrogateescape``. No memory is allocated by a stored count: items are read one
by one, as long as there are bytes. Contract: any bytes give a value, a `FormatError` or an
`UnsupportedError`. Layout: docs/formats/vrs.md.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from struct import Struct

import xxhash

from ...plugin import BytesLike, FormatError, TruncatedError, UnsupportedError, unpack_fields
from .format import MAX_STREAMS, StreamId

DESCRIPTION_VERSION = 2
"""Format version of the description records that we write."""
_LEGACY_VERSION = 1
TAGS_VERSION = 1
"""Format version of tags records."""

NAME_TAG = "VRS_Original_Recordable_Name"
FLAVOR_TAG = "VRS_Recordable_Flavor"
SERIAL_NUMBER_TAG = "VRS_Serial_Number"

_COUNT = Struct("<I")
_STREAM = Struct("<iH")
_MAP_ENTRY = Struct("<II")
# Bytes of a user tag that are hashed; the rest is ignored (reference: kMaxLengthUserTags).
_HASHED_NBYTES = 2000
_MAP_SIGNATURE = b"map<string, string>"
_NUMBER = re.compile(r" #[0-9]*\Z")


@dataclass(frozen=True, slots=True)
class StreamTags:
    """Tags of one stream."""

    user: dict[str, str] = field(default_factory=dict)  # tags set by the user
    # Name, flavor, serial number and record formats: ``RF:Data:1`` is a record format,
    # ``DL:Data:1:0`` the layout of its first block.
    vrs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Description:
    """Tags of a file and of the streams that were known when it was created."""

    streams: dict[StreamId, StreamTags] = field(default_factory=dict)
    file_tags: dict[str, str] = field(default_factory=dict)


def encode_text(text: str) -> bytes:
    """Encode text; the inverse of `decode_text`."""
    return text.encode("utf-8", "surrogateescape")


def encoded_tags(tags: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return tags as encoded text, sorted as in a file and for a hash."""
    return sorted((encode_text(key), encode_text(value)) for key, value in tags.items())


def check_tag(name: str, value: str) -> None:
    """Raise TypeError unless the name and value of a tag are str, ValueError if not encodable."""
    for text in (name, value):
        if not isinstance(text, str):
            raise TypeError(f"tag {name!r}: expected text, not {type(text).__name__}")
        encode_text(text)


def decode_text(data: BytesLike) -> str:
    """Decode stored text; bytes that are not UTF-8 become surrogate escapes."""
    return str(data, "utf-8", "surrogateescape")


def pack_description(description: Description) -> bytes:
    """Return the payload of a description record of version 2, with sorted streams and tags."""
    parts = [_COUNT.pack(len(description.streams))]
    for stream_id, tags in sorted(description.streams.items()):
        parts.append(_STREAM.pack(*stream_id))
        parts += _pack_map(tags.user), _pack_map(tags.vrs)
    parts.append(_pack_map(description.file_tags))
    return b"".join(parts)


def unpack_description(view: BytesLike, version: int) -> Description:
    """Return the tags in the payload of a description record of version 1 (legacy) or 2, as stored.

    Bytes after the last tag are ignored, as in the reference.
    """
    cursor = _Cursor(view)
    if version == DESCRIPTION_VERSION:
        return _unpack_current(cursor)
    if version == _LEGACY_VERSION:
        return _unpack_legacy(cursor)
    raise UnsupportedError(f"description of version {version}: this release reads 1 and 2")


def strip_name_number(name: str) -> str:
    """Return the name of a device without the trailing " #2" of old files.

    Follows the reference (1.4.0, ``stripInstanceId``): the digits may be missing, and a name of
    fewer than four bytes is not changed.
    """
    return name if len(encode_text(name)) < 4 else _NUMBER.sub("", name)


def synthesise_serials(description: Description) -> Description:
    """Return a copy as readers show it: names without numbers, a serial number for every stream.

    A missing serial number is derived from all tags and from the number of earlier streams of its
    type without one. Every reader therefore derives the same number. The hash is XXH64 in 16 hex
    digits (reference 1.4.0, ``createStreamSerialNumbers``).
    """
    file_hash = xxhash.xxh64()
    _hash_map(file_hash, description.file_tags, _HASHED_NBYTES)
    missing: dict[int, int] = {}
    streams = {}
    for stream_id, tags in sorted(description.streams.items()):
        vrs = dict(tags.vrs)
        if NAME_TAG in vrs:
            vrs[NAME_TAG] = strip_name_number(vrs[NAME_TAG])
        # The reference hashes the empty serial number, too.
        if not vrs.setdefault(SERIAL_NUMBER_TAG, ""):
            missing[stream_id[0]] = missing.get(stream_id[0], 0) + 1
            digest = xxhash.xxh64(file_hash.hexdigest().encode() + b"\0")
            _hash_map(digest, tags.user, _HASHED_NBYTES)
            _hash_map(digest, vrs, None)
            digest.update(Struct("<HH").pack(stream_id[0], missing[stream_id[0]] & 0xFFFF))
            vrs[SERIAL_NUMBER_TAG] = digest.hexdigest()
        streams[stream_id] = replace(tags, vrs=vrs)
    return Description(streams, description.file_tags)


def pack_tags_record(tags: StreamTags) -> bytes:
    """Return the payload of a tags record: a layout of two maps, VRS tags and user tags."""
    # Unlike a map of the description, a map in a layout has its size in bytes in front, no count.
    vrs, user = _pack_map(tags.vrs)[_COUNT.size :], _pack_map(tags.user)[_COUNT.size :]
    head = _MAP_ENTRY.pack(0, len(vrs)) + _MAP_ENTRY.pack(len(vrs), len(user))
    return head + vrs + user


def unpack_tags_record(payload: BytesLike) -> StreamTags:
    """Return the tags in the payload of a tags record."""
    maps = []
    start = 2 * _MAP_ENTRY.size
    for at in (0, _MAP_ENTRY.size):
        offset, nbytes = unpack_fields(_MAP_ENTRY, payload, at, "tags record")
        if start + offset + nbytes > len(payload):
            raise TruncatedError(
                f"tags record: {nbytes} bytes from {start + offset} are past its"
                f" {len(payload)} bytes",
                offset=at,
            )
        cursor = _Cursor(memoryview(payload)[start + offset : start + offset + nbytes])
        found = {}
        while cursor.at < nbytes:
            key = cursor.read_text()
            found[key] = cursor.read_text()
        maps.append(found)
    return StreamTags(vrs=maps[0], user=maps[1])


class _Cursor:
    """Sequential reader of counts, strings and maps."""

    def __init__(self, view: BytesLike) -> None:
        self.view = memoryview(view)
        self.at = 0

    def read_count(self) -> int:
        count: int = unpack_fields(_COUNT, self.view, self.at, "tags")[0]
        self.at += _COUNT.size
        return count

    def read_stream_id(self) -> StreamId:
        stored = unpack_fields(_STREAM, self.view, self.at, "stream id")
        self.at += _STREAM.size
        return StreamId.from_stored(*stored)

    def read_text(self) -> str:
        nbytes = self.read_count()
        left = len(self.view) - self.at
        if nbytes > left:
            raise TruncatedError(
                f"text of {nbytes} bytes at byte {self.at}: only {left} bytes are left",
                offset=self.at,
            )
        self.at += nbytes
        return decode_text(self.view[self.at - nbytes : self.at])

    def read_map(self, found: dict[str, str]) -> None:
        """Read a map and add its tags to `found`."""
        for _ in range(self.read_count()):
            key = self.read_text()
            found[key] = self.read_text()

    def read_stream_count(self) -> int:
        count = self.read_count()
        if count > MAX_STREAMS:
            raise FormatError(f"description: {count} streams, at most {MAX_STREAMS}", offset=0)
        return count


def _unpack_current(cursor: _Cursor) -> Description:
    streams: dict[StreamId, StreamTags] = {}
    for _ in range(cursor.read_stream_count()):
        # A stream may be listed twice: join its tags, as the reference does.
        tags = streams.setdefault(cursor.read_stream_id(), StreamTags())
        cursor.read_map(tags.user)
        cursor.read_map(tags.vrs)
    file_tags: dict[str, str] = {}
    cursor.read_map(file_tags)
    return Description(streams, file_tags)


def _unpack_legacy(cursor: _Cursor) -> Description:
    """Return the tags of version 1: a JSON object per stream and one for the file."""
    streams = {}
    for _ in range(cursor.read_stream_count()):
        stream_id = cursor.read_stream_id()
        stored = _load_object(cursor.read_text(), f"description of stream {stream_id}")
        name, tags = stored.get("name"), stored.get("tags")
        vrs = {NAME_TAG: strip_name_number(name if isinstance(name, str) else "")}
        streams[stream_id] = StreamTags(_only_texts(tags if isinstance(tags, dict) else {}), vrs)
    return Description(streams, _only_texts(_load_object(cursor.read_text(), "file tags")))


def _load_object(text: str, what: str) -> dict[str, object]:
    try:
        found = json.loads(text)
        # JSON can escape a lone surrogate, which has no encoding.
        encode_text(json.dumps(found, ensure_ascii=False))
    except (ValueError, RecursionError) as err:
        raise FormatError(f"{what}: invalid JSON: {err}") from err
    if not isinstance(found, dict):
        raise FormatError(f"{what}: a JSON {type(found).__name__}, expected an object")
    return found


def _only_texts(tags: Mapping[str, object]) -> dict[str, str]:
    """Return the tags whose values are text; the reference drops the others."""
    return {key: value for key, value in tags.items() if isinstance(value, str)}


def _pack_map(tags: Mapping[str, str]) -> bytes:
    """Return a packed map of tags, sorted by the encoded keys."""
    parts = [_COUNT.pack(len(tags))]
    for pair in encoded_tags(tags):
        for text in pair:
            parts += _COUNT.pack(len(text)), text
    return b"".join(parts)


def _hash_map(digest: xxhash.xxh64, tags: Mapping[str, str], limit: int | None) -> None:
    digest.update(_MAP_SIGNATURE)
    for key, value in encoded_tags(tags):
        digest.update(key + b"\0")
        digest.update((value + b"\0")[:limit])
