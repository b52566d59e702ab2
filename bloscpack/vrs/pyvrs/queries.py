"""Base classes of all readers: queries over streams, and sequences of records.

Queries use the columns of the catalog and never read the file. `Rows` is a sequence of records; its
subclasses read them, synchronously or asynchronously.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...plugin import IntArray
from ..format.description import NAME_TAG
from ..format.format import RecordType as StoredType
from ..format.recordformat import ContentType
from .catalog import Catalog, Found
from .framerate import estimate_frame_rate
from .pyvrserrors import StreamNotFoundError, TimestampNotFoundError, type_name_of
from .record import ReadOptions, VRSRecord, recode
from .recordtype import RecordType, type_of

_ANY_TYPE_IDS = 0, 65535


class Queries:
    """Queries over records and streams that do not read records.

    Indexes count all records of the reader, in time order.
    """

    _catalog: Catalog
    _path: str
    _encoding: str

    @abstractmethod
    def _read(self, row: int) -> VRSRecord:
        """Read a record without decoding its blocks."""

    def _ordinal(self, stream_id: str) -> int:
        """Return the ordinal of a stream: ``"1201-1"``, or ``"1201+n"`` for the n-th of a type."""
        ids = self._catalog.stream_ids
        if stream_id in ids:
            return ids.index(stream_id)
        type_id, plus, number = stream_id.partition("+")
        if plus and number.isdecimal() and int(number[:6]) > 0:
            found = [k for k, name in enumerate(ids) if name.partition("-")[0] == type_id]
            if int(number[:6]) <= len(found):
                return found[int(number[:6]) - 1]
        raise StreamNotFoundError(stream_id, ids)

    @property
    def file_tags(self) -> dict[str, str]:
        """Tags of the file."""
        tags: dict[str, str] = recode(dict(self._catalog.file_tags), self._encoding)
        return tags

    @property
    def stream_tags(self) -> dict[str, dict[str, str]]:
        """User tags of each stream, by stream id."""
        catalog = self._catalog
        return {
            stream_id: recode(stream.tags, self._encoding)
            for stream_id, stream in zip(catalog.stream_ids, catalog.streams, strict=True)
        }

    def find_stream(self, recordable_type_id: int, tag_name: str, tag_value: str) -> str:
        """Return the first stream of a type that has a tag with a value.

        Parameters
        ----------
        recordable_type_id : int
            0 for any type.

        Raises
        ------
        StreamNotFoundError
            No stream matches.
        """
        for stream_id in self.find_streams(recordable_type_id):
            if self.stream_tags[stream_id].get(tag_name, "") == tag_value:
                return stream_id
        raise StreamNotFoundError(type_name_of(f"{recordable_type_id}-1"), self._catalog.stream_ids)

    def find_streams(self, recordable_type_id: int, flavor: str = "") -> list[str]:
        """Return the streams of a type (0: any) and a flavor (empty: any)."""
        catalog = self._catalog
        return [
            stream_id
            for stream_id, stream in zip(catalog.stream_ids, catalog.streams, strict=True)
            if (int(recordable_type_id) in (stream.type_id, *_ANY_TYPE_IDS))
            and (not flavor or stream.flavor == flavor)
        ]

    def get_stream_info(self, stream_id: str) -> dict[str, Any]:
        """Return a stream's names, and counts and first and last records by type.

        Raises
        ------
        StreamNotFoundError
            The stream does not exist. All methods that take a stream id raise it.
        """
        ordinal = self._ordinal(stream_id)
        catalog, stream = self._catalog, self._catalog.streams[ordinal]
        found: dict[str, Any] = {}
        order = StoredType.CONFIGURATION, StoredType.STATE, StoredType.DATA
        names = {kind: kind.name.lower() for kind in order}
        rows = {kind: catalog.rows_of(ordinal, kind) for kind in order}
        for kind in order:
            found[f"{names[kind]}_records_count"] = len(rows[kind])
        found["device_name"] = stream.vrs_tags.get(NAME_TAG, "")
        found["serial_number"] = stream.serial_number
        if stream.flavor:
            found["flavor"] = stream.flavor
        for kind in order:
            for word, place in (("first", 0), ("last", -1)):
                if len(rows[kind]):
                    row = rows[kind].item(place)
                    found[f"{word}_{names[kind]}_record_index"] = row
                    found[f"{word}_{names[kind]}_record_timestamp"] = catalog.timestamp.item(row)
        return found

    def get_records_count(self, stream_id: str, record_type: RecordType) -> int:
        """Return the number of a stream's records of a type."""
        kind = type_of(record_type)
        rows = self._catalog.rows_of(self._ordinal(stream_id), kind)
        return len(rows) if kind else 0

    def might_contain_images(self, stream_id: str) -> bool:
        """Return whether a stream has data records and a record format with images."""
        return self._catalog.has_content(self._ordinal(stream_id), ContentType.IMAGE)

    def might_contain_audio(self, stream_id: str) -> bool:
        """Return whether a stream has data records and a record format with audio."""
        return self._catalog.has_content(self._ordinal(stream_id), ContentType.AUDIO)

    def get_estimated_frame_rate(self, stream_id: str) -> float:
        """Return the estimated number of data records per second; 30 for fewer than two records."""
        rows = self._catalog.rows_of(self._ordinal(stream_id), StoredType.DATA)
        return estimate_frame_rate(self._catalog.timestamp[rows].tolist())

    def read_record_by_time(
        self,
        stream_id: str,
        timestamp: float,
        epsilon: float | None = None,
        record_type: RecordType | None = None,
    ) -> Any:
        """Read the record that `VRSReader.get_record_index_by_time` finds."""
        return self._read(self._row_by_time(stream_id, timestamp, epsilon, record_type))

    def _row_by_time(
        self,
        stream_id: str,
        timestamp: float,
        epsilon: float | None,
        record_type: RecordType | None,
    ) -> int:
        kind = type_of(record_type)
        rows = self._catalog.rows_of(self._ordinal(stream_id), kind)
        times = self._catalog.timestamp[rows].tolist()
        place = bisect_left(times, timestamp)
        if epsilon is None:
            if place == len(rows):
                raise ValueError(f"No record at timestamp {timestamp:f} in stream {stream_id}")
            return rows.item(place)
        # The last record before the time and the first one at or after it.
        near = [k for k in (place - 1, place) if 0 <= k < len(rows)]
        near = [k for k in near if abs(times[k] - timestamp) <= epsilon]
        if not near:
            of_type = f" for record type {kind.name.title()}" if kind else ""
            raise TimestampNotFoundError(
                f"Record not found for stream {stream_id} - {type_name_of(stream_id)}{of_type} in"
                f" range ({timestamp:g}-{epsilon:g})-({timestamp:g}+{epsilon:g})"
            )
        return rows.item(min(near, key=lambda k: abs(times[k] - timestamp)))

    def _read_next_to(
        self, stream_id: str, record_type: RecordType | str, row: int, step: int
    ) -> VRSRecord | None:
        """Read the first record from `row` on (`step` > 0) or the last up to it, or return None."""
        rows = self._catalog.rows_of(self._ordinal(stream_id), type_of(record_type))
        if step > 0:
            if row < 0:
                raise IndexError(f"No record at index: {row}")
            place = int(rows.searchsorted(row))
        else:
            place = int(rows.searchsorted(row, side="right")) - 1
        return self._read(rows.item(place)) if 0 <= place < len(rows) else None


class Rows(Sequence[Any]):
    """Some records of a reader."""

    _rows: IntArray

    @property
    @abstractmethod
    def _owner(self) -> "Owner":
        """The reader of all records."""

    def __len__(self) -> int:
        return len(self._rows)

    def _row(self, index: Any) -> int:
        if not hasattr(index, "__index__"):
            raise TypeError(f"expected an int or a slice as index, not {type(index).__name__!r}")
        place, count = index.__index__(), len(self._rows)
        if not -count <= place < count:
            raise IndexError(f"record {place} of {count}")
        return self._rows.item(place)


class TimedRows(Rows, Queries):
    """Records of a reader that are in time order: all of them, or those that match a filter."""

    _no_time: float = 0.0  # of no records

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self)

    @property
    def min_timestamp(self) -> float:
        """Time of the first record; 0 without records."""
        return float(self._catalog.timestamp[self._rows[0]]) if len(self) else self._no_time

    @property
    def max_timestamp(self) -> float:
        """Time of the last record; 0 without records."""
        return float(self._catalog.timestamp[self._rows[-1]]) if len(self) else self._no_time

    @property
    def time_range(self) -> float:
        """Seconds between the first and last record."""
        return self.max_timestamp - self.min_timestamp

    @abstractmethod
    def get_timestamp_for_index(self, index: int) -> float:
        """Return the time of a record."""

    def get_timestamp_list(self, indices: Iterable[int] | None = None) -> list[float]:
        """Return the times of all records, or of those at `indices`.

        Raises
        ------
        IndexError
            An index is too large, or negative and not allowed.
        """
        if indices is None:
            return self._catalog.timestamp[self._rows].tolist()  # type: ignore[no-any-return]
        return [self.get_timestamp_for_index(index) for index in indices]


class Owner(TimedRows):
    """Reader of all records, with the options for reading them.

    Attributes
    ----------
    reads_configuration : bool
        As given by the caller, without effect: configuration records are always found.
    """

    reads_configuration: bool
    _settings: ReadOptions
    _by_stream: dict[str, Any]
    _limits: dict[tuple[int, RecordType], int]

    @property
    def _owner(self) -> "Owner":
        return self

    def _wrapped(self, found: Found) -> VRSRecord:
        options = self._settings
        if self._by_stream or self._limits:
            options = self._options_of(found)
        return VRSRecord(found.record, options, found.stream_id, found.record_index)

    def _options_of(self, found: Found) -> ReadOptions:
        record = found.record
        stream_id = found.stream_id or record.stream_id
        kind = int(stream_id.partition("-")[0]), type_of(record.record_type)
        return ReadOptions(
            self._by_stream.get(stream_id, self._settings.conversion),
            self._limits.get(kind),
            self._settings.encoding,
        )

    def _read(self, row: int) -> VRSRecord:
        return self._wrapped(self._catalog.read(row))

    def _read_all(self, rows: IntArray) -> Iterator[VRSRecord]:
        return map(self._wrapped, self._catalog.read_all(rows))
