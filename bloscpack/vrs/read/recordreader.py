"""Reading of records from storage, one at a time or many in the requested order.

Every record is compared with the index. Small records are read together in runs of up to 1 MiB, and
their headers are compared in one step; the payload of a large record is read by itself.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...plugin import (
    RECORDS,
    AnyArray,
    BloscpackError,
    FormatError,
    IntArray,
    Scratch,
    TruncatedError,
    plan_array_runs,
)
from ..format.compression import decode_payload
from ..format.format import (
    RECORD_HEADER,
    RECORD_HEADER_DTYPE,
    RECORD_HEADER_SIZE,
    StreamId,
    normal_type_ids,
)
from ..format.recordindex import RecordTable
from .filesource import ChunkedSource

# Records of at least this many bytes are read one by one.
_LARGE_NBYTES = 1 << 16
# Bytes of the records read together: few at first, in case the caller reads only a few records.
_MIN_PART_NBYTES = 1 << 14
_MAX_PART_NBYTES = 1 << 20
_LISTED_FIELDS = "record_type", "format_version", "timestamp", "compression", "uncompressed_size"
_HEADER_PLACES = np.arange(RECORD_HEADER_SIZE)


StoredRecord: TypeAlias = tuple[int, int, int, float, bytes]
"""Ordinal of the stream, record type, format version, time in seconds, decoded payload."""

# Row, stream, record type, format version, time, compression, uncompressed size, and start and stop
# of the payload in the bytes of the run.
_Listed: TypeAlias = tuple[int, int, int, int, float, int, int, int, int]


class EncodedRecord(NamedTuple):
    """Record with its payload as stored."""

    row: int  # row in the table
    stream: int  # ordinal of the stream
    # As in the record's header.
    record_type: int
    format_version: int
    timestamp: float
    # Compression and decoded size of the payload, as in the header.
    compression: int
    uncompressed_size: int
    stored: bytes  # the bytes after the header


class RecordReader:
    """Reader of the records of a table. Immutable: safe from many threads and after a fork."""

    def __init__(self, source: ChunkedSource, table: RecordTable) -> None:
        self.source = source
        self.table = table
        ids = np.array(table.streams, np.int64).reshape(-1, 2)
        self._type_ids, self._instance_ids = ids[:, 0], ids[:, 1]

    def read(self, row: int) -> StoredRecord:
        """Read one record; FormatError if its header contradicts the index."""
        data, fields, ordinal = self._read_start(row)
        size, _, _, version, timestamp, _, record_type, compression, nbytes = fields
        if compression and size >= _LARGE_NBYTES:
            payload = self._read_large(row, compression, nbytes)
        else:
            is_whole = len(data) == size
            payload = data[RECORD_HEADER_SIZE:] if is_whole else self._payload_behind(row, size)
            if compression:
                payload = self.decode(payload, compression, nbytes, row)
        return ordinal, record_type, version, timestamp, payload

    def _read_start(self, row: int) -> tuple[bytes, tuple[Any, ...], int]:
        """Return the bytes of a record, only the header if it is large; its fields, its stream.

        The header is compared with the table.
        """
        table = self.table
        offset, size = table.offset.item(row), table.size.item(row)
        wanted = size if size < _LARGE_NBYTES else RECORD_HEADER_SIZE
        data = bytes(self.source.read_at(offset, wanted))
        if len(data) < wanted:
            raise _cut_off(size, len(data)).at(*self.where(row))
        found = RECORD_HEADER.unpack_from(data)
        stored_size, _, type_id, _, timestamp, instance_id, record_type, _, _ = found
        ordinal = table.stream.item(row)
        stream = table.streams[ordinal]
        if not (
            stored_size == size
            and timestamp == table.timestamp.item(row)
            and record_type == table.record_type.item(row)
            and type_id == stream[0]
            and instance_id == stream[1]
        ):
            # Legacy type ids and NaN times differ here, but not in the slower comparison.
            self.check_headers(np.frombuffer(data, RECORD_HEADER_DTYPE, 1), np.array([row]))
        return data, found, ordinal

    def _payload_behind(self, row: int, size: int) -> bytes:
        """Return the stored payload of a large record."""
        nbytes = size - RECORD_HEADER_SIZE
        offset = self.table.offset.item(row) + RECORD_HEADER_SIZE
        stored = bytes(self.source.read_at(offset, nbytes))
        if len(stored) < nbytes:
            raise _cut_off(size, len(stored) + RECORD_HEADER_SIZE).at(*self.where(row))
        return stored

    def _read_large(self, row: int, compression: int, nbytes: int) -> bytes:
        """Read a large compressed payload into reused memory and decode it."""
        size = self.table.size.item(row)
        offset = self.table.offset.item(row) + RECORD_HEADER_SIZE
        stored_nbytes = size - RECORD_HEADER_SIZE
        # The index may claim more than the file has: take memory only for what is there.
        there = min(stored_nbytes, max(0, self.source.size() - offset))
        with Scratch(there) as view:
            there = self.source.read_into(offset, view)
            if there < stored_nbytes:
                raise _cut_off(size, there + RECORD_HEADER_SIZE).at(*self.where(row))
            return self.decode(view, compression, nbytes, row)

    def read_version(self, row: int) -> int:
        """Return the format version of a record by reading its header.

        The table does not have it.
        """
        data = bytes(self.source.read_at(self.table.offset.item(row), RECORD_HEADER_SIZE))
        if len(data) < RECORD_HEADER_SIZE:
            raise _cut_off(self.table.size.item(row), len(data)).at(*self.where(row))
        header = np.frombuffer(data, RECORD_HEADER_DTYPE)
        self.check_headers(header, np.array([row]))
        return int(header[0]["format_version"])

    def iter_records(self, rows: IntArray) -> Iterator[tuple[int, StoredRecord]]:
        """Yield (row, record) for each of `rows`, reading ahead.

        The error of the first damaged record is raised after the records before it were yielded.
        """
        for part, is_large in self._parts(rows):
            if is_large:
                row = part.item(0)
                yield row, self.read(row)
                continue
            for data, listed in self._iter_run(part):
                view = memoryview(data)
                for row, stream, kind, version, time, compression, nbytes, start, stop in listed:
                    if compression:
                        payload = self.decode(view[start:stop], compression, nbytes, row)
                    else:
                        payload = data[start:stop]
                    yield row, (stream, kind, version, time, payload)

    def iter_encoded(self, rows: IntArray) -> Iterator[EncodedRecord]:
        """Yield the records at `rows` without decoding them, reading ahead.

        Payloads are not checked.
        """
        for part, is_large in self._parts(rows):
            if is_large:
                row = part.item(0)
                _, found, ordinal = self._read_start(row)
                stored = self._payload_behind(row, found[0])
                fields = found[6], found[3], found[4], found[7], found[8]
                yield EncodedRecord(row, ordinal, *fields, stored)
                continue
            for data, listed in self._iter_run(part):
                for row, stream, kind, version, time, compression, nbytes, start, stop in listed:
                    stored = data[start:stop]
                    fields = kind, version, time, compression, nbytes
                    yield EncodedRecord(row, stream, *fields, stored)

    def _parts(self, rows: IntArray) -> Iterator[tuple[IntArray, bool]]:
        """Yield (rows, whether large): rows to read together, or a single row of a large record."""
        limit = _MIN_PART_NBYTES
        start = 0
        sizes = self.table.size[rows].astype(np.int64)
        ends = np.cumsum(sizes)
        large = iter(np.flatnonzero(sizes >= _LARGE_NBYTES).tolist())
        next_large = next(large, len(rows))
        while start < len(rows):
            if start == next_large:
                yield rows[start : start + 1], True
                start += 1
                next_large = next(large, len(rows))
                continue
            done = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + limit, side="right")))
            stop = min(stop, next_large)
            yield rows[start:stop], False
            start = stop
            limit = min(4 * limit, _MAX_PART_NBYTES)

    def _iter_run(self, rows: IntArray) -> Iterator[tuple[bytes, Iterable[_Listed]]]:
        """Read small records together; yield the bytes of the run and the records in it."""
        data, places = self._read_run(rows)
        sizes = self.table.size[rows].astype(np.int64)
        whole = places + sizes <= len(data)
        nwhole = len(rows) if whole.all() else int(whole.argmin())
        at = places[:nwhole, None] + _HEADER_PLACES
        headers = np.frombuffer(data, np.uint8)[at].view(RECORD_HEADER_DTYPE).reshape(-1)
        good = self._good_headers(headers, rows[:nwhole])
        ngood = nwhole if good.all() else int(good.argmin())
        listed = zip(
            rows[:ngood].tolist(),
            self.table.stream[rows[:ngood]].tolist(),
            *(headers[name][:ngood].tolist() for name in _LISTED_FIELDS),
            (places[:ngood] + RECORD_HEADER_SIZE).tolist(),
            (places + sizes)[:ngood].tolist(),
            strict=True,
        )
        yield data, listed
        if ngood < nwhole:
            raise self._contradiction(headers[ngood], rows.item(ngood))
        if nwhole < len(rows):
            row = int(rows[nwhole])
            left = max(0, len(data) - int(places[nwhole]))
            raise _cut_off(int(sizes[nwhole]), left).at(*self.where(row))

    def _read_run(self, rows: IntArray) -> tuple[bytes, IntArray]:
        """Return the bytes of some records, joining near ones, and the position of each record."""
        offsets = self.table.offset[rows]
        ends = offsets + self.table.size[rows]
        order = np.argsort(offsets, kind="stable")
        first, last = offsets[order], ends[order]
        pieces, moved, position = [], np.empty(len(rows), np.int64), 0
        for low, high, start, stop in plan_array_runs(first, last, RECORDS):
            piece = self.source.read_at(start, stop - start)
            pieces.append(piece)
            moved[low:high] = first[low:high] - start + position
            position += len(piece)
            if len(piece) < stop - start:  # cut file: put all later records past the end of `data`
                moved[high:] = position
                break
        places = np.empty(len(rows), np.int64)
        places[order] = moved
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces), places

    def check_headers(self, headers: AnyArray, rows: IntArray) -> None:
        """Compare record headers, as read from the file, with `rows` of the table."""
        good = self._good_headers(headers, rows)
        if not good.all():
            first = int(good.argmin())
            raise self._contradiction(headers[first], rows.item(first))

    def _good_headers(self, headers: AnyArray, rows: IntArray) -> AnyArray:
        """Return for each header whether it agrees with the table, bool (N,)."""
        table = self.table
        stream = table.stream[rows]
        good: AnyArray = headers["size"] == table.size[rows]
        good &= headers["record_type"] == table.record_type[rows]
        good &= normal_type_ids(headers["type_id"]) == self._type_ids[stream]
        good &= headers["instance_id"] == self._instance_ids[stream]
        there, listed = np.ascontiguousarray(headers["timestamp"]), table.timestamp[rows]
        # Also compared as integers, so that NaN equals itself.
        good &= (there == listed) | (there.view(np.int64) == listed.view(np.int64))
        return good

    def _contradiction(self, header: Any, row: int) -> FormatError:
        """Return the error for a header that differs from `row` of the table."""
        table = self.table
        stream = table.streams[table.stream[row]]
        there = StreamId.from_stored(int(header["type_id"]), int(header["instance_id"]))
        pairs = (
            ("size", int(table.size[row]), int(header["size"])),
            ("record_type", int(table.record_type[row]), int(header["record_type"])),
            ("stream", str(stream), str(there)),
            ("timestamp", float(table.timestamp[row]), float(header["timestamp"])),
        )
        field, listed, found = next(pair for pair in pairs if pair[1] != pair[2])
        offset = int(table.offset[row])
        return FormatError(
            f"header at byte {offset}: {field} {found}, but the index has {listed}",
            offset=offset,
            field=field,
        ).at(*self.where(row))

    def decode(self, stored: bytes | memoryview, compression: int, nbytes: int, row: int) -> bytes:
        """Decode the stored payload of the record at `row`, which an error names."""
        if not compression:
            return stored if type(stored) is bytes else bytes(stored)
        try:
            payload = decode_payload(stored, compression, nbytes)
        except BloscpackError as err:
            err.at(*self.where(row))
            raise
        return payload if type(payload) is bytes else bytes(payload)

    def where(self, row: int) -> tuple[str, str | None]:
        """Return the label of a record and the path, the arguments of ``err.at``."""
        stream = self.table.streams[self.table.stream[row]]
        return f"record {row} of stream {stream}", self.source.name


def _cut_off(size: int, left: int) -> TruncatedError:
    return TruncatedError(f"found {max(left, 0)} of its {size} bytes")
