"""The checksum of what a recording says, however it is stored.

It covers tags, times, versions and payloads, and neither compression, index, chunks, instance ids
nor the order of streams of other types: copies made by any tool have it, too. Source: reference
1.4.0, ``utils/Validation.cpp``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct

import numpy as np
import xxhash

from ..format.description import StreamTags, encode_text
from ..format.format import StreamId
from ..read.content import Content
from ..read.recordreader import StoredRecord

_HEADER = Struct("<dIIHHB")
# Records between two calls of `progress`.
_PERIOD = 64


def content_checksum(content: Content, progress: Callable[[int, int], None] | None = None) -> str:
    """Return the checksum of all records and tags, 16 hex digits.

    Parameters
    ----------
    content : Content
        Of a recording.
    progress : callable, optional
        Called now and then with the stored bytes of records that are done, and of all.

    Raises
    ------
    FormatError, CodecError
        A record is damaged.
    """
    streams = content.table.streams
    return records_checksum(
        _told(content, progress),
        streams,
        [content.tags_of(ordinal) for ordinal in range(len(streams))],
        content.description.file_tags,
    )


def _told(content: Content, progress: Callable[[int, int], None] | None) -> Iterator[StoredRecord]:
    """Yield all records, telling now and then how far it is."""
    ends = np.cumsum(content.table.size, dtype=np.int64)
    for row, record in content.reader.iter_records(content.all_rows):
        if progress is not None and not row % _PERIOD:
            progress(int(ends[row]), int(ends[-1]))
        yield record


def records_checksum(
    records: Iterable[StoredRecord],
    streams: Sequence[StreamId],
    stream_tags: Sequence[StreamTags],
    file_tags: Mapping[str, str],
) -> str:
    """Return the checksum of records in the order of time, wherever they come from.

    Parameters
    ----------
    records : iterable of StoredRecord
        All of them.
    streams : sequence of StreamId
        Sorted; the ordinals of the records count them.
    stream_tags : sequence of StreamTags
        Of each stream.
    file_tags : mapping of str to str
        Of the recording.
    """
    ids = renumbered(streams)
    headers = [xxhash.xxh64() for _ in ids]
    payloads = [xxhash.xxh64() for _ in ids]
    for stream, record_type, version, timestamp, payload in records:
        headers[stream].update(
            _HEADER.pack(timestamp, version, len(payload), *ids[stream], record_type)
        )
        payloads[stream].update(payload)
    digests = [_tags_digest(file_tags)]
    for ordinal, tags in enumerate(stream_tags):
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


def _tags_digest(tags: Mapping[str, str]) -> str:
    encoded = sorted((encode_text(key), encode_text(value)) for key, value in tags.items())
    return xxhash.xxh64(b"".join(b"%b=%b/" % pair for pair in encoded)).hexdigest()
