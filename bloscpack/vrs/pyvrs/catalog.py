"""The records that a reader shows: those of one file, or of several that belong together.

Of several files, records are in the order of time; a stream whose id another file has already gets
the next free instance id. Files belong together if they agree in the tags that name a session.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...types import AnyArray, IntArray
from ..format.format import RecordType, StreamId
from ..format.recordformat import ContentType, parse_record_format
from ..read.record import Record
from ..recording import Recording
from ..recording import open as open_recording
from ..sequence import Selection
from ..stream import Stream

SESSION_TAGS = "capture_time_epoch", "session_id"
"""File tags that must not differ in files that are read as one."""
_FORMAT_TAG = "RF:"
_MAX_INSTANCE_ID = 0xFFFF


class Found(NamedTuple):
    """A record, and what a reader calls it; None for what it is called in its file."""

    record: Record
    stream_id: str | None = None
    record_index: int | None = None


class Catalog:
    """All records of a reader, as columns.

    Parameters
    ----------
    recordings : sequence of Recording
        At least one; closed with the catalog.

    Attributes
    ----------
    streams : list of Stream
        Sorted by id, as `stream_ids`.
    stream_ids : list of str
        What the reader calls them.
    file_tags : dict
        Of all files; where they differ, of the first.
    timestamp, record_type, stream, size : ndarray, shape (N,)
        As the columns of `RecordTable`; streams by their place in `stream_ids`.

    Raises
    ------
    ValueError
        The files are of different sessions.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = list(recordings)
        self.file_tags: dict[str, str] = {}
        for recording in reversed(self._recordings):
            self.file_tags.update(recording.file_tags)
        first = self._recordings[0]
        # Which file, and which record of it; None if there is one file.
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
        """0 to the number of records."""
        return np.arange(len(self))

    @cached_property
    def _rows(self) -> dict[int, IntArray]:
        order = np.argsort(self.stream, kind="stable")
        bounds = np.searchsorted(self.stream[order], np.arange(len(self.streams) + 1))
        return {k: order[bounds[k] : bounds[k + 1]] for k in range(len(self.streams))}

    def rows_of(self, ordinal: int, record_type: int = 0) -> IntArray:
        """Return the places of the records of a stream, maybe only those of a type."""
        rows = self._rows[ordinal]
        return rows[self.record_type[rows] == record_type] if record_type else rows

    def counts_of(self, ordinal: int) -> dict[str, int]:
        """Return how many records of each type a stream has."""
        kinds = RecordType.CONFIGURATION, RecordType.DATA, RecordType.STATE
        return {kind.name.lower(): len(self.rows_of(ordinal, kind)) for kind in kinds}

    def has_content(self, ordinal: int, content: ContentType) -> bool:
        """Return whether a stream has data, and blocks of a kind in any of its record formats.

        Raises
        ------
        FormatError
            A record format has too many blocks.
        """
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
        """Read a record."""
        if self._places is None:
            return Found(self._recordings[0][row])
        files, rows = self._places
        record = self._recordings[files[row]][rows[row]]
        return Found(record, self.stream_ids[self.stream.item(row)], row)

    def read_all(self, rows: IntArray) -> Iterator[Found]:
        """Read records in order, of one file some ahead."""
        if self._places is None:
            yield from map(Found, Selection(self._recordings[0]._content, rows))
        else:
            yield from map(self.read, rows.tolist())

    def close(self) -> None:
        """Close all files."""
        for recording in self._recordings:
            recording.close()


def _free_id(stream_id: StreamId, taken: dict[StreamId, Any]) -> StreamId:
    """Return an id that is not taken: itself, or the next instance."""
    while stream_id in taken:
        if stream_id.instance_id == _MAX_INSTANCE_ID:
            raise ValueError(f"stream {stream_id}: no instance id is left to tell it from others")
        stream_id = StreamId(stream_id.type_id, stream_id.instance_id + 1)
    return stream_id


def open_catalog(places: Sequence[Any]) -> Catalog:
    """Open files as one.

    Parameters
    ----------
    places : sequence of str, PathLike, list of these
        Each is a file, or the list of a file's chunks.

    Raises
    ------
    FormatError, UnsupportedError
        One is no VRS file that can be read.
    OSError
        One cannot be read.
    ValueError
        There is none, or they do not belong together.
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
