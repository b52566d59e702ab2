"""Readers of the records of another reader that match a filter."""

from bisect import bisect
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...plugin import IntArray
from .queries import Owner, TimedRows
from .record import VRSRecord
from .records import AsyncRows, SyncRows
from .recordtype import RecordType, type_of
from .text import head_lines, range_text, set_text, stream_lines


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Filter of records by type, stream and time.

    Attributes
    ----------
    record_types, stream_ids : set of str
        Requested record types and streams that exist in the reader.
    min_timestamp, max_timestamp : float
        Time limits in seconds, both included.
    """

    record_types: set[str]
    stream_ids: set[str]
    min_timestamp: float
    max_timestamp: float


class FilteredVRSReader(TimedRows):
    """Records of another reader that match a filter.

    Tags and queries over a stream are those of the other reader. Indexes count the matching
    records; `VRSRecord.record_index` counts all records. The other reader sets the conversion of
    images.
    """

    _no_time = 0  # an integer, as in pyvrs

    def __init__(self, reader: Owner, record_filter: RecordFilter) -> None:
        self._reader = reader
        self._record_filter = record_filter
        self._catalog = reader._catalog
        self._path = reader._path
        self._encoding = reader._encoding
        self._rows = self._fitting(record_filter)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._reader, self._record_filter)

    def _fitting(self, chosen: RecordFilter) -> IntArray:
        catalog = self._catalog
        ordinals = [catalog.stream_ids.index(name) for name in chosen.stream_ids]
        kinds = [type_of(name) for name in chosen.record_types]
        fits = np.isin(catalog.stream, ordinals) & np.isin(catalog.record_type, kinds)
        # Without a limit of the caller, the limits are the first and the last time. These may be
        # NaN, which no time is less or greater than.
        fits &= ~(catalog.timestamp < chosen.min_timestamp)
        fits &= ~(catalog.timestamp > chosen.max_timestamp)
        return np.flatnonzero(fits)

    @property
    def _owner(self) -> Owner:
        return self._reader

    def _read(self, row: int) -> VRSRecord:
        return self._reader._read(row)

    @property
    def record_types(self) -> set[str]:
        """Record types that the filter accepts."""
        return set(self._record_filter.record_types)

    @property
    def stream_ids(self) -> set[str]:
        """Ids of the streams that the filter accepts."""
        return set(self._record_filter.stream_ids)

    @property
    def min_filter_timestamp(self) -> float:
        """Lower time limit of the filter."""
        return self._record_filter.min_timestamp

    @property
    def max_filter_timestamp(self) -> float:
        """Upper time limit of the filter."""
        return self._record_filter.max_timestamp

    def get_timestamp_for_index(self, index: int) -> float:
        """Return the time of the matching record at `index`."""
        return float(self._catalog.timestamp.item(self._row(index)))

    def get_record_index_by_time(
        self,
        stream_id: str,
        timestamp: float,
        epsilon: float | None = None,
        record_type: RecordType | None = None,
    ) -> int:
        """Return the index, among the matching records, of the record nearest to a time.

        The record is the one that `get_record_index_by_time` of the other reader finds. If it does
        not match, the index is that of the last matching record before it.
        """
        row = self._row_by_time(stream_id, timestamp, epsilon, record_type)
        return max(bisect(self._rows, row) - 1, 0)

    def read_prev_record(
        self, stream_id: str, record_type: RecordType | str, index: int
    ) -> VRSRecord | None:
        """Read the last record of a stream and type up to the record at `index`, or None.

        All records are searched: the result need not match the filter.
        """
        return self._read_next_to(stream_id, record_type, self._row(index), -1)

    def read_next_record(
        self, stream_id: str, record_type: RecordType | str, index: int
    ) -> VRSRecord | None:
        """Read the first record of a stream and type from the record at `index` on, or None.

        All records are searched: the result need not match the filter.
        """
        if not -len(self) <= index < len(self):
            return None
        return self._read_next_to(stream_id, record_type, self._row(index), 1)

    def set_image_conversion(self, conversion: Any) -> NoReturn:
        """Raise NotImplementedError: the other reader sets the conversion of images."""
        raise NotImplementedError("set the image conversion on the reader before filtering")

    def set_stream_image_conversion(self, stream_id: str, conversion: Any) -> NoReturn:
        """Raise NotImplementedError: the other reader sets the conversion of images."""
        self.set_image_conversion(conversion)

    def set_stream_type_image_conversion(
        self, recordable_type_id: int, conversion: Any
    ) -> NoReturn:
        """Raise NotImplementedError: the other reader sets the conversion of images."""
        self.set_image_conversion(conversion)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._path!r}, "
            f"auto_read_configuration_records={self._reader.reads_configuration!r})"
            f"filter={self._record_filter!r}"
        )

    def __str__(self) -> str:
        reader: Any = self._reader
        counted = f"{len(self)}/{len(reader)} records are enabled (based on filters)"
        lines = head_lines(reader, counted)
        lines += [
            f"Available Stream IDs: {set_text(reader.stream_ids)}",
            f"  Enabled Stream IDs: {set_text(self.stream_ids)}",
            f"Available Record Types: {set_text(reader.record_types)}",
            f"  Enabled Record Types: {set_text(self.record_types)}",
        ]
        if len(self):
            lines.append(range_text("available", reader.min_timestamp, reader.max_timestamp))
            lines.append(range_text("enabled", self.min_timestamp, self.max_timestamp))
        ids = [name for name in self._catalog.stream_ids if name in self.stream_ids]
        lines += ["", "Available Streams in VRS: ", *stream_lines(reader, ids), ""]
        return "\n".join(lines)


class SyncFilteredVRSReader(FilteredVRSReader, SyncRows):
    """Records of a `SyncVRSReader` that match a filter."""


class AsyncFilteredVRSReader(FilteredVRSReader, AsyncRows):
    """Records of an `AsyncVRSReader` that match a filter."""
