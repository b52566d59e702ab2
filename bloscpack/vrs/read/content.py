"""Content of a recording: tags, table of records, and report of the faults found on opening.

`read_content` reads the front of a file and its index, or scans the file; tags records are applied
and hidden. `Content` then creates the records, for the recording and all its selections. It has
only a weak reference to their decoders: a decoder refers to the content, and a reference cycle
would keep an unused recording open until the garbage collector runs.
"""

import os
from bisect import bisect_left
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from ...plugin import BloscpackError, FormatError, IntArray, UnsupportedError
from ..format.description import (
    Description,
    StreamTags,
    synthesise_serials,
    unpack_description,
    unpack_tags_record,
)
from ..format.format import (
    DESCRIPTION_TYPE_ID,
    FILE_HEADER_SIZE,
    RECORD_HEADER_SIZE,
    FileHeader,
    RecordHeader,
    RecordType,
    StreamId,
)
from ..format.recordindex import RecordTable
from .decoding import StreamDecoder
from .filesource import ChunkedSource, open_recording_source
from .openreport import Report
from .record import Record
from .recordlist import (
    Listing,
    is_split_and_closed,
    read_internal_header,
    read_listing,
    scan_listing,
)
from .recordreader import RecordReader

INDEX_MODES = "auto", "rebuild", "strict"

# Most decoders in the cache: one per stream, type and version. A damaged file may have many.
_MAX_DECODERS = 4096

_NO_TAGS = StreamTags()


class Decoders(dict[tuple[int, int, int], StreamDecoder]):
    """Decoders of a recording by ordinal of the stream, record type and format version."""

    __slots__ = ("__weakref__",)


class Content:
    """Records of a file, with the tables that a recording and its selections share.

    `description` has the tags as readers show them. `index_kind` is the kind of index that was
    used: ``"classic end"``, ``"classic zstd front"``, ``"split"``, ...; or ``"scanned"``. `origin`
    is a function and its arguments that reopen the file, also in another process. `cache` has
    headers and positions of blocks that columns and clips have read, by class and stream. A call
    may override `nthreads`. Safe from many threads and after a fork.
    """

    def __init__(
        self,
        source: ChunkedSource,
        header: FileHeader,
        description: Description,
        table: RecordTable,
        index_kind: str,
        report: Report,
    ) -> None:
        self.source = source
        self.header = header
        self.description = description
        self.table = table
        self.index_kind = index_kind
        self.report = report
        self.reader = RecordReader(source, table)
        self.all_rows: IntArray = np.arange(len(table))
        self._decoders: ReferenceType[Decoders] | None = None
        self.origin: tuple[Any, ...] | None = None
        self.nthreads: int | None = None
        self.cache: dict[Any, Any] = {}
        self._groups: dict[tuple[int, int], IntArray] | None = None
        self._rows: dict[tuple[int, int], list[int]] = {}
        self._versions: dict[int, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the path of the file, which unpickling reopens.

        A file object cannot be pickled.
        """
        self.source.check_open()
        if self.origin is None:
            raise TypeError(
                "a recording opened from a file object cannot be pickled: open it by its path, or"
                " from its bytes"
            )
        return self.origin

    def tags_of(self, ordinal: int) -> StreamTags:
        """Return the tags of a stream; empty if the description does not list it."""
        return self.description.streams.get(self.table.streams[ordinal], _NO_TAGS)

    def keep_decoders(self) -> Decoders:
        """Return the cache of decoders, which lives as long as a caller holds it."""
        decoders = None if self._decoders is None else self._decoders()
        if decoders is None:
            decoders = Decoders()
            self._decoders = ref(decoders)
        return decoders

    def decoder(self, key: tuple[int, int, int]) -> StreamDecoder:
        """Return the decoder for records of a stream (its ordinal), type and format version."""
        decoders = None if self._decoders is None else self._decoders()
        found = None if decoders is None else decoders.get(key)
        if found is None:
            ordinal, record_type, version = key
            stream_id = str(self.table.streams[ordinal])
            tags = self.tags_of(ordinal).vrs
            found = StreamDecoder(stream_id, record_type, version, tags, self)
            if decoders is not None:
                if len(decoders) >= _MAX_DECODERS:
                    decoders.clear()
                decoders[key] = found
        return found

    def __getitem__(self, row: int) -> Record:
        """Return a record and read its payload."""
        ordinal, record_type, version, timestamp, payload = self.reader.read(row)
        return Record(self.decoder((ordinal, record_type, version)), timestamp, row, payload)

    def read_payload(self, row: int) -> bytes:
        """Return the decompressed payload of a record."""
        return self.reader.read(row)[-1]

    def configuration_before(self, row: int) -> Record | None:
        """Return the last configuration record before `row` in the same stream, or None."""
        return self._before(row, RecordType.CONFIGURATION)

    def data_before(self, row: int) -> Record | None:
        """Return the last data record before `row` in the same stream, or None."""
        return self._before(row, RecordType.DATA)

    def _before(self, row: int, record_type: int) -> Record | None:
        """Return the last record of a type before `row` in its stream; the payload is lazy."""
        table = self.table
        ordinal = table.stream.item(row)
        key = ordinal, int(record_type)
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = self.rows_of(*key).tolist()
        place = bisect_left(rows, row)
        if not place:
            return None
        found = rows[place - 1]
        version = self._versions.get(found)
        if version is None:
            version = self._versions[found] = self.reader.read_version(found)
        decoder = self.decoder((*key, version))
        return Record(decoder, table.timestamp.item(found), found)

    def rows_of(self, ordinal: int, record_type: int) -> IntArray:
        """Return the rows of a stream's records of a type, in time order."""
        if self._groups is None:
            self._groups = self._group()
        return self._groups.get((ordinal, int(record_type)), np.empty(0, np.int64))

    def rows_of_stream(self, ordinal: int) -> IntArray:
        """Return the rows of all records of a stream, in time order."""
        kinds = RecordType.STATE, RecordType.CONFIGURATION, RecordType.DATA
        return np.sort(np.concatenate([self.rows_of(ordinal, kind) for kind in kinds]))

    def _group(self) -> dict[tuple[int, int], IntArray]:
        keys = self.table.stream.astype(np.int64) * 8 + self.table.record_type
        order = np.argsort(keys, kind="stable")
        if not len(keys):
            return {}
        ordered = keys[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        parts = np.split(order, starts[1:])
        return {
            (key >> 3, key & 7): part
            for key, part in zip(ordered[starts].tolist(), parts, strict=True)
        }


def read_content(source: ChunkedSource, *, index: str, resync: bool) -> Content:
    """Read the header, tags and index of a file; see `recording.open`."""
    header = FileHeader.unpack(source.read_at(0, FILE_HEADER_SIZE))
    notes: list[str] = []
    nparts = len(source.parts)
    description, first, fault = _read_description(source, header)
    index_fault, listing = None, None
    if index == "rebuild":
        index_fault = "this was requested"
    else:
        try:
            listing = read_listing(source, header, first)
        except (FormatError, UnsupportedError) as err:
            if index == "strict":
                raise FormatError(f"index: {err.args[0]}") from err
            index_fault = str(err.args[0])
    if listing is not None and listing.nmissing and not len(listing.entries):
        raise _unreachable(f"{listing.nmissing} records", source, nparts)
    if listing is None:
        listing = scan_listing(source, header, resync=resync)
        if not len(listing.entries) and index != "rebuild" and is_split_and_closed(source, header):
            raise _unreachable("records", source, nparts)
    if description is None:
        description = _find_description(source, listing)
        used = " (used another description from the file)" if description else ""
        notes.append(f"description: {fault}{used}")
    if len(source.parts) < nparts:
        notes.append(f"{nparts - len(source.parts)} numbered neighbours do not belong to the file")
    return _assemble(source, header, description or Description(), listing, index_fault, notes)


def _unreachable(listed: str, source: ChunkedSource, nparts: int) -> FormatError:
    """Return the error for a file whose index lists records, all of them missing."""
    ndropped = nparts - len(source.parts)
    advice = (
        f"{ndropped} numbered neighbours do not continue it: were they swapped or renamed? Pass "
        "all files in order, as a list"
        if ndropped
        else "the files that continue it are missing, or it was truncated"
    )
    return FormatError(
        f"the index lists {listed}, but none of them can be reached in {source.size()} bytes; "
        f"{advice}"
    )


def files_of(path: str) -> list[str]:
    """Return the files of the recording, or the file, at `path`; an empty list if absent."""
    if not os.path.exists(path):
        return []
    try:
        with open_recording_source(path) as source:
            read_content(source, index="auto", resync=True)
            names = [part.source.name for part in source.parts]
    except BloscpackError:
        return [path]
    return [name for name in names if name is not None]


def _assemble(
    source: ChunkedSource,
    header: FileHeader,
    description: Description,
    listing: Listing,
    index_fault: str | None,
    notes: list[str],
) -> Content:
    streams = {*listing.stream_ids, *description.streams}
    table = RecordTable.from_entries(listing.entries, listing.offsets, streams)
    is_tags = table.record_type == RecordType.TAGS
    if is_tags.any():
        _apply_tags(RecordReader(source, table), np.flatnonzero(is_tags), description, notes)
        table = table.take(np.flatnonzero(~is_tags))
    report = Report(index_fault, tuple(listing.gaps), listing.nmissing, tuple(notes))
    description = synthesise_serials(description)
    return Content(source, header, description, table, listing.kind, report)


def _read_description(
    source: ChunkedSource, header: FileHeader
) -> tuple[Description | None, int, str | None]:
    """Return the tags or None, the default start of the records, and the fault or None."""
    first = header.first_record_offset or header.file_header_size
    at = header.description_offset
    try:
        found = read_internal_header(source, at, DESCRIPTION_TYPE_ID, "description")
        if at == first:
            first += found.size
        return _unpack_description(source, at, found), first, None
    except (FormatError, UnsupportedError) as err:
        return None, first, str(err.args[0])


def _unpack_description(source: ChunkedSource, at: int, header: RecordHeader) -> Description:
    payload = source.read_at(at + RECORD_HEADER_SIZE, header.size - RECORD_HEADER_SIZE)
    return unpack_description(payload, header.format_version)


def _find_description(source: ChunkedSource, listing: Listing) -> Description | None:
    """Return the first valid description that a scan found, or None."""
    for at, header in listing.internal:
        if header.stream_id[0] == DESCRIPTION_TYPE_ID:
            try:
                return _unpack_description(source, at, header)
            except (FormatError, UnsupportedError):
                continue
    return None


def _apply_tags(
    reader: RecordReader, rows: IntArray, description: Description, notes: list[str]
) -> None:
    """Replace the tags of streams with those of their tags records."""
    table = reader.table
    for row in rows.tolist():
        stream_id: StreamId = table.streams[table.stream.item(row)]
        try:
            payload: Any = reader.read(row)[-1]
            description.streams[stream_id] = unpack_tags_record(payload)
        except BloscpackError as err:
            notes.append(f"tags record of stream {stream_id}: {err.args[0]}")
