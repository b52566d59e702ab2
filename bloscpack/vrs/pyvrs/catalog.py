"""Records of a reader: those of one file, or of several files of one session.

The records of several files are merged in time order. A stream whose id is already used by another
file gets the next free instance id. Files are of one session if the tags that name it agree.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...plugin import AnyArray, IntArray
from ..format.format import MAX_INSTANCE_ID, RecordType, StreamId
from ..format.recordformat import ContentType, parse_record_format
from ..read.record import Record
from ..recording import Recording
from ..recording import open as open_recording
from ..sequence import Selection
from ..stream import Stream

SESSION_TAGS = "capture_time_epoch", "session_id"
"""File tags that must agree in files that are read as one."""
_FORMAT_TAG = "RF:"


class Found(NamedTuple):
    """Record with its stream id and index in the reader; None if they are those of its file."""

    record: Record
    stream_id: str | None = None
    record_index: int | None = None


class Catalog:
    """All records of the recordings of a reader, at least one, as columns; closes the recordings.

    `streams` are in the order of `stream_ids`, which is sorted. If the `file_tags` of the files
    differ, they are those of the first one. `timestamp`, `record_type`, `stream` and `size` are as
    the columns of `RecordTable`; `stream` is a position in `stream_ids`.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = list(recordings)
        self.file_tags: dict[str, str] = {}
        for recording in reversed(self._recordings):  # the first file has the last word
            self.file_tags.update(recording.file_tags)
        first = self._recordings[0]
        # File number and record of it, for each row; None for a single file.
        self._places: tuple[list[int], list[int]] | None = None
        if len(self._recordings) == 1:
            table = first.table
            self.streams = list(first.streams.values())
            self.stream_ids = [stream.id for stream in self.streams]
            self.timestamp: AnyArray = table.timestamp
            self.record_type: AnyArray = table.record_type
            self.stream: AnyArray = table.stream
            self.size: AnyArray = table.size
        else:
            self._check_session()
            self._join()

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalog, (self._recordings,)

    def __len__(self) -> int:
        return len(self.timestamp)

    def _check_session(self) -> None:
        for tag in SESSION_TAGS:
            values = {recording.file_tags.get(tag) or None for recording in self._recordings}
            if len(values - {None}) > 1:
                listed = ", ".join(sorted(map(repr, values - {None})))
                raise ValueError(f"these files are of different sessions: {tag} is {listed}")

    def _join(self) -> None:
        names: dict[StreamId, Stream] = {}
        given: list[list[StreamId]] = []
        for recording in self._recordings:
            given.append([])
            for stream in recording.streams.values():
                name = _free_id(StreamId(stream.type_id, stream.instance_id), names)
                names[name] = stream
                given[-1].append(name)
        ids = sorted(names)
        self.streams = [names[name] for name in ids]
        self.stream_ids = list(map(str, ids))
        ordinal = {name: place for place, name in enumerate(ids)}
        columns = []
        for number, (recording, here) in enumerate(zip(self._recordings, given, strict=True)):
            table = recording.table
            ordinals = np.array([ordinal[name] for name in here], np.int32)
            streams = ordinals[table.stream] if here else table.stream
            rows = np.arange(len(table))
            files = np.full(len(table), number)
            columns.append((table.timestamp, table.record_type, streams, table.size, files, rows))
        joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
        order = np.lexsort((joined[5], joined[4], joined[2], joined[0]))
        self.timestamp, self.record_type, self.stream, self.size = (
            column[order] for column in joined[:4]
        )
        self._places = joined[4][order].tolist(), joined[5][order].tolist()

    @cached_property
    def all_rows(self) -> IntArray:
        """``arange(len(self))``."""
        return np.arange(len(self))

    @cached_property
    def _rows(self) -> dict[int, IntArray]:
        order = np.argsort(self.stream, kind="stable")
        bounds = np.searchsorted(self.stream[order], np.arange(len(self.streams) + 1))
        return {k: order[bounds[k] : bounds[k + 1]] for k in range(len(self.streams))}

    def rows_of(self, ordinal: int, record_type: int = 0) -> IntArray:
        """Return the rows of a stream's records, of one type or of all types (0)."""
        rows = self._rows[ordinal]
        return rows[self.record_type[rows] == record_type] if record_type else rows

    def counts_of(self, ordinal: int) -> dict[str, int]:
        """Return the number of a stream's records by type."""
        kinds = RecordType.CONFIGURATION, RecordType.DATA, RecordType.STATE
        return {kind.name.lower(): len(self.rows_of(ordinal, kind)) for kind in kinds}

    def has_content(self, ordinal: int, content: ContentType) -> bool:
        """Return whether a stream has data records and a record format with blocks of a kind."""
        if not len(self.rows_of(ordinal, RecordType.DATA)):
            return False
        tags = self.streams[ordinal].vrs_tags
        return any(
            block.content_type == content
            for tag, text in tags.items()
            if tag.startswith(_FORMAT_TAG)
            for block in parse_record_format(text).blocks
        )

    def read(self, row: int) -> Found:
        """Read the record at `row`."""
        if self._places is None:
            return Found(self._recordings[0][row])
        files, rows = self._places
        record = self._recordings[files[row]][rows[row]]
        return Found(record, self.stream_ids[self.stream.item(row)], row)

    def read_all(self, rows: IntArray) -> Iterator[Found]:
        """Read records in order; reads ahead if there is a single file."""
        if self._places is None:
            yield from map(Found, Selection(self._recordings[0]._content, rows))
        else:
            yield from map(self.read, rows.tolist())

    def close(self) -> None:
        """Close all files."""
        for recording in self._recordings:
            recording.close()


def _free_id(stream_id: StreamId, taken: dict[StreamId, Any]) -> StreamId:
    """Return `stream_id` if it is free, else the next free instance id of its type."""
    while stream_id in taken:
        if stream_id.instance_id == MAX_INSTANCE_ID:
            raise ValueError(f"stream {stream_id}: no free instance id is left for its type")
        stream_id = StreamId(stream_id.type_id, stream_id.instance_id + 1)
    return stream_id


def open_catalog(places: Sequence[Any]) -> Catalog:
    """Open files of one session as a single catalog.

    Each place is a file, or the list of its chunks.
    """
    if not places:
        raise ValueError("expected the path of at least one VRS file")
    recordings: list[Recording] = []
    try:
        for place in places:
            recordings.append(open_recording(place))
        return Catalog(recordings)
    except BaseException:
        for recording in recordings:
            recording.close()
        raise
