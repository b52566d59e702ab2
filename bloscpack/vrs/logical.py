"""The checksum of what a recording says, however it is stored.

It covers tags, times, versions and payloads, and neither compression, index, chunks, instance ids
nor the order of streams of other types: copies made by any tool have it, too. Source: reference
1.4.0, ``utils/Validation.cpp``.
"""

from collections.abc import Iterable
from struct import Struct

import xxhash

from .content import Content
from .description import encode_text
from .format import StreamId

_HEADER = Struct("<dIIHHB")


def content_checksum(content: Content) -> str:
    """Return the checksum of all records and tags, 16 hex digits.

    Raises
    ------
    FormatError, CodecError
        A record is damaged.
    """
    table = content.table
    ids = renumbered(table.streams)
    headers = [xxhash.xxh64() for _ in ids]
    payloads = [xxhash.xxh64() for _ in ids]
    for _, record in content.reader.iter_records(content.all_rows):
        stream, record_type, version, timestamp, payload = record
        headers[stream].update(
            _HEADER.pack(timestamp, version, len(payload), *ids[stream], record_type)
        )
        payloads[stream].update(payload)
    digests = [_tags_digest(content.description.file_tags)]
    for ordinal in range(len(ids)):
        tags = content.tags_of(ordinal)
        digests += _tags_digest(tags.vrs), _tags_digest(tags.user)
        digests += headers[ordinal].hexdigest(), payloads[ordinal].hexdigest()
    digests.append(xxhash.xxh64("".join(f"{id_}/" for id_ in ids).encode()).hexdigest())
    return xxhash.xxh64(b"".join(digest.encode() + b"\0" for digest in digests)).hexdigest()


def renumbered(streams: Iterable[StreamId]) -> list[StreamId]:
    """Return the ids with instances counted from 1 for each type."""
    counts: dict[int, int] = {}
    renumbered = []
    for type_id, _ in streams:
        counts[type_id] = counts.get(type_id, 0) + 1
        renumbered.append(StreamId(type_id, counts[type_id] & 0xFFFF))
    return renumbered


def _tags_digest(tags: dict[str, str]) -> str:
    encoded = sorted((encode_text(key), encode_text(value)) for key, value in tags.items())
    return xxhash.xxh64(b"".join(b"%b=%b/" % pair for pair in encoded)).hexdigest()
