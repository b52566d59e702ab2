"""Selection of the streams, records and tags of a copy."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

import numpy as np

from ...plugin import IntArray, NotFoundError
from ..format.description import Description, StreamTags, check_tag
from ..format.format import RecordType, StreamId
from ..format.recordindex import RecordTable
from ..recording import Recording
from ..sequence import (
    RecordSequence,
    StreamName,
    TypeName,
    check_times,
    is_pattern,
    stream_text,
)

TagChanges: TypeAlias = Mapping[str, str | None]
"""Tags to set; None removes a tag."""
Decimation: TypeAlias = float | Mapping[str, float]
"""Least seconds between data records of a stream, for all streams or by stream."""


def choose_streams(
    sequence: RecordSequence, streams: StreamName | Iterable[StreamName] | None
) -> list[int]:
    """Return the ordinals of the streams to copy, in order.

    By default these are all streams of a recording, also those without records, and the streams
    that have records in a selection.
    """
    if streams is not None:
        return sequence._match_streams(streams)
    table = sequence._content.table
    if isinstance(sequence, Recording):
        return list(range(len(table.streams)))
    present: list[int] = np.unique(table.stream[sequence.rows]).tolist()
    return present


def choose_rows(
    sequence: RecordSequence,
    *,
    streams: StreamName | Iterable[StreamName] | None = None,
    types: TypeName | Iterable[TypeName] | None = None,
    after: float | None = None,
    before: float | None = None,
    decimate: Decimation | None = None,
) -> IntArray:
    """Return the records to copy in order of time; parameters as for `copying.copy`."""
    check_times(after, before)
    if after is not None and before is not None and not after <= before:
        raise ValueError(f"after {after} s and before {before} s: no time is between them")
    rows = np.sort(sequence.filter(streams, types, before=before).rows)
    table = sequence._content.table
    start = np.empty(0, np.int64)
    if after is not None:
        times = table.timestamp[rows]
        start, rows = _last_settings(table, rows[times < after]), rows[times >= after]
    if decimate is not None:
        by_stream = decimate if isinstance(decimate, Mapping) else {"*": decimate}
        for name, interval in by_stream.items():
            for ordinal in sequence._match_streams(name):
                rows = _decimated(table, rows, ordinal, interval)
    return np.concatenate([start, rows])


def _last_settings(table: RecordTable, rows: IntArray) -> IntArray:
    """Return the last configuration and the last state record of each stream, in order."""
    types = table.record_type[rows]
    rows = rows[(types == RecordType.CONFIGURATION) | (types == RecordType.STATE)]
    keys = table.stream[rows].astype(np.int64) << 8 | table.record_type[rows]
    last = np.unique(keys[::-1], return_index=True)[1]
    return np.sort(rows[::-1][last])


def _decimated(table: RecordTable, rows: IntArray, ordinal: int, interval: float) -> IntArray:
    """Return `rows` without data records that follow another of their stream too closely."""
    if not interval >= 0:
        raise ValueError(f"decimate {interval!r}: expected seconds, 0 or more")
    is_data = (table.stream[rows] == ordinal) & (table.record_type[rows] == RecordType.DATA)
    times = table.timestamp[rows[is_data]]
    # Records whose time is NaN sort last; all of them stay.
    nkept = len(times) - int(np.isnan(times).sum())
    keep = np.zeros(len(times), np.bool_)
    keep[nkept:] = True
    place = 0
    while place < nkept:
        keep[place] = True
        following = int(np.searchsorted(times[:nkept], times[place] + interval))
        place = max(place + 1, following)
    return np.sort(np.concatenate([rows[~is_data], rows[is_data][keep]]))


def changed_tags(tags: Mapping[str, str], changes: TagChanges | None) -> dict[str, str]:
    """Return `tags` with `changes` applied."""
    changed = dict(tags)
    for name, value in (changes or {}).items():
        if value is None:
            changed.pop(name, None)
            continue
        check_tag(name, value)
        changed[name] = value
    return changed


def changed_stream_tags(
    streams: Mapping[StreamId, StreamTags],
    stream_ids: Iterable[StreamId],
    changes: Mapping[str, TagChanges] | None,
) -> dict[StreamId, StreamTags]:
    """Return the tags of streams with changes, by stream id or pattern, applied.

    `stream_ids` are all streams, with or without tags. An id without a wildcard must exist.
    """
    changed = dict(streams)
    texts = {stream_id: str(stream_id) for stream_id in stream_ids}
    for name, tags in (changes or {}).items():
        text = stream_text(name)
        found = [id_ for id_, own in texts.items() if fnmatchcase(own, text)]
        if not found and not is_pattern(text):
            raise NotFoundError(f"stream_tags: stream {text!r:.80} does not exist")
        for stream_id in found:
            known = changed.get(stream_id, StreamTags())
            changed[stream_id] = StreamTags(changed_tags(known.user, tags), known.vrs)
    return changed


def described(
    streams: Mapping[StreamId, StreamTags],
    ids: Mapping[StreamId, StreamId],
    file_tags: Mapping[str, str],
) -> Description:
    """Return the description of a copy whose streams get new ids.

    A stream without tags stays out of it: readers would invent a serial number for an empty entry.
    """
    return Description({ids[k]: streams[k] for k in ids if k in streams}, dict(file_tags))
