"""Checksum of the content of a recording, independent of how it is stored.

It covers tags, times, versions and payloads. Compression, index, chunks, instance ids and the order
of streams of different types do not matter, so copies made by any tool have the same checksum.
Source: reference 1.4.0, ``utils/Validation.cpp``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct

import numpy as np
import xxhash

from ...plugin import Progress
from ..format.description import Description, StreamTags, encoded_tags
from ..format.format import StreamId
from ..read.content import Content
from ..read.recordreader import StoredRecord

_HEADER = Struct("<dIIHHB")
# Records between two calls of `progress`.
_PERIOD = 64


def content_checksum(content: Content, progress: Progress | None = None) -> str:
    """Return the checksum of all records and tags, 16 hex digits.

    `progress` is called every 64 records with (stored bytes of the records done, of all).
    """
    records = _iter_reporting(content, progress)
    return records_checksum(records, content.table.streams, content.description)


def _iter_reporting(content: Content, progress: Progress | None) -> Iterator[StoredRecord]:
    ends = np.cumsum(content.table.size, dtype=np.int64)
    for row, record in content.reader.iter_records(content.all_rows):
        if progress is not None and not row % _PERIOD:
            progress(int(ends[row]), int(ends[-1]))
        yield record


def records_checksum(
    records: Iterable[StoredRecord], streams: Sequence[StreamId], description: Description
) -> str:
    """Return the checksum of all records, in order of time.

    The records refer by ordinal to `streams`, the sorted stream ids.
    """
    ids = renumbered(streams)
    headers = [xxhash.xxh64() for _ in ids]
    payloads = [xxhash.xxh64() for _ in ids]
    for stream, record_type, version, timestamp, payload in records:
        headers[stream].update(
            _HEADER.pack(timestamp, version, len(payload), *ids[stream], record_type)
        )
        payloads[stream].update(payload)
    digests = [_tags_digest(description.file_tags)]
    for ordinal, stream_id in enumerate(streams):
        tags = description.streams.get(stream_id, StreamTags())
        digests += _tags_digest(tags.vrs), _tags_digest(tags.user)
        digests += headers[ordinal].hexdigest(), payloads[ordinal].hexdigest()
    digests.append(xxhash.xxh64("".join(f"{id_}/" for id_ in ids).encode()).hexdigest())
    return xxhash.xxh64(b"".join(digest.encode() + b"\0" for digest in digests)).hexdigest()


def renumbered(streams: Iterable[StreamId]) -> list[StreamId]:
    """Return the ids with the instances of each type numbered from 1."""
    counts: dict[int, int] = {}
    renumbered = []
    for type_id, _ in streams:
        counts[type_id] = counts.get(type_id, 0) + 1
        renumbered.append(StreamId(type_id, counts[type_id] & 0xFFFF))
    return renumbered


def _tags_digest(tags: Mapping[str, str]) -> str:
    return xxhash.xxh64(b"".join(b"%b=%b/" % pair for pair in encoded_tags(tags))).hexdigest()
