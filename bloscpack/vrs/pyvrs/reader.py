"""Readers of VRS files with the names of pyvrs, so that scripts written for it keep working.

`docs/howto/from-pyvrs.md` lists the differences. For new programs, `bloscpack.vrs.open` offers
more: columns, frames, and selections that can be filtered again.
"""

import codecs
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ...plugin import ClosedOnExit
from ..block.pixels import ImageConversion
from ..format.format import StreamId
from ..recording import open as open_recording
from .catalog import Catalog, open_catalog
from .filespec import easy_path, place_of
from .filtered import AsyncFilteredVRSReader, RecordFilter, SyncFilteredVRSReader
from .pyvrserrors import StreamNotFoundError
from .queries import Owner
from .record import SAFE_ENCODING, ReadOptions, VRSRecord
from .records import AsyncRows, SyncRows
from .recordtype import RecordType, type_of
from .text import head_lines, range_text, set_text, stream_lines


class VRSReader(Owner, ClosedOnExit):
    """All records of a VRS file, in time order.

    Parameters
    ----------
    path : str, PathLike, list, mapping or FileSpec
        The file; a list names its chunks. With `multi_path`, a list of files.
    auto_read_configuration_records : bool
        Accepted but ignored. The configuration of a record always comes from the last configuration
        record before it in its stream, regardless of which records were read.
    encoding : str
        Encoding of text in the file. ``"utf-8-safe"`` decodes bytes that are not UTF-8 to surrogate
        escapes. With any other encoding, invalid bytes raise `FormatError`.
    multi_path : bool
        Read several files as one. A stream id that is already used gets the next free instance id.

    Raises
    ------
    FormatError
        The file is not a VRS file.
    UnsupportedError
        The file is of a newer version of the format.
    OSError
        The file cannot be read.
    ValueError
        `path` does not name a file, or the files are of different sessions.
    LookupError
        The encoding does not exist.

    Notes
    -----
    Readers and their records can be pickled, used after a fork and from many threads.
    """

    def __init__(
        self,
        path: Any,
        auto_read_configuration_records: bool = True,
        encoding: str = SAFE_ENCODING,
        multi_path: bool = False,
    ) -> None:
        if encoding != SAFE_ENCODING:
            codecs.lookup(encoding)  # raises LookupError if it does not exist
        if multi_path:
            several = isinstance(path, Sequence) and not isinstance(path, str | bytes)
            places = [place_of(item) for item in (path if several else [path])]
        else:
            places = [place_of(path)]
        self._catalog: Catalog = open_catalog(places)
        self._path = easy_path(places[0])
        self._encoding = encoding
        self._rows = self._catalog.all_rows
        self.reads_configuration = bool(auto_read_configuration_records)
        self._settings = ReadOptions(encoding=encoding)
        self._by_stream: dict[str, ImageConversion] = {}
        self._limits: dict[tuple[int, RecordType], int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._rows = self._catalog.all_rows

    def close(self) -> None:
        """Close the file; idempotent. Records that were read before stay usable."""
        self._catalog.close()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._path!r}, "
            f"auto_read_configuration_records={self.reads_configuration!r})"
        )

    def __str__(self) -> str:
        counted = f"All {len(self)} records are enabled (no filters applied)"
        lines = head_lines(self, counted)
        lines += [
            f"Available Stream IDs: {set_text(self.stream_ids)}",
            f"Available Record Types: {set_text(self.record_types)}",
        ]
        if len(self):
            lines.append(range_text("available", self.min_timestamp, self.max_timestamp))
        ids = self._catalog.stream_ids
        lines += ["", "Available Streams in VRS: ", *stream_lines(self, ids), ""]
        return "\n".join(lines)

    @property
    def record_types(self) -> set[str]:
        """Types of the records: ``"data"``, ``"configuration"``, ``"state"``."""
        present = np.unique(self._catalog.record_type).tolist()
        return {RecordType(kind).name.lower() for kind in present}

    @property
    def stream_ids(self) -> set[str]:
        """Ids of the streams, including those without records."""
        return set(self._catalog.stream_ids)

    def get_stream_for_flavor(
        self, recordable_type_id: int, flavor: str, index_number: int = 0
    ) -> str:
        """Return the stream at `index_number` among those of a type and flavor.

        Raises
        ------
        StreamNotFoundError
            No such stream exists.
        """
        catalog = self._catalog
        found = [
            stream_id
            for stream_id, stream in zip(catalog.stream_ids, catalog.streams, strict=True)
            if stream.type_id == int(recordable_type_id) and stream.flavor == flavor
        ]
        if not 0 <= index_number < len(found):
            wanted = f"type {int(recordable_type_id)} with flavor {flavor!r}"
            raise StreamNotFoundError(f"{wanted}, index {index_number}", catalog.stream_ids)
        return found[index_number]

    def get_serial_number_for_stream(self, stream_id: str) -> str:
        """Return the unique identifier of a stream, which copies of the recording keep."""
        return self._catalog.streams[self._ordinal(stream_id)].serial_number

    def get_stream_for_serial_number(self, serial_number: str) -> str:
        """Return the stream with a serial number.

        Raises
        ------
        StreamNotFoundError
            No stream has this serial number.
        """
        catalog = self._catalog
        for stream_id, stream in zip(catalog.stream_ids, catalog.streams, strict=True):
            if stream.serial_number == serial_number:
                return stream_id
        raise StreamNotFoundError(f"serial number {serial_number!r}", catalog.stream_ids)

    def get_stream_size(self, stream_id: str) -> int:
        """Return the stored size in bytes of the records of a stream."""
        rows = self._catalog.rows_of(self._ordinal(stream_id))
        return int(self._catalog.size[rows].sum(dtype=np.int64))

    def get_timestamp_for_index(self, index: int) -> float:
        """Return the time of a record.

        Raises
        ------
        IndexError
            The index is negative or too large.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of range.")
        return float(self._catalog.timestamp.item(index))

    def get_record_index_by_time(
        self,
        stream_id: str,
        timestamp: float,
        epsilon: float | None = None,
        record_type: RecordType | None = None,
    ) -> int:
        """Return the index of a record by its time.

        Parameters
        ----------
        stream_id : str
            Search only records of this stream.
        timestamp : float
            In seconds.
        epsilon : float, optional
            Largest distance in seconds. If given, the nearest record is returned, the earlier one
            if two are equally near. Otherwise, the first record at or after `timestamp` is
            returned.
        record_type : RecordType, optional
            Search only records of this type.

        Raises
        ------
        TimestampNotFoundError
            No record is within `epsilon`.
        ValueError
            Without `epsilon`: no record exists at or after `timestamp`.
        """
        return self._row_by_time(stream_id, timestamp, epsilon, record_type)

    def read_prev_record(
        self, stream_id: str, record_type: RecordType | str, index: int
    ) -> VRSRecord | None:
        """Read the last record of a stream and type up to `index`, or return None."""
        return self._read_next_to(stream_id, record_type, index, -1)

    def read_next_record(
        self, stream_id: str, record_type: RecordType | str, index: int
    ) -> VRSRecord | None:
        """Read the first record of a stream and type from `index` on, or return None."""
        return self._read_next_to(stream_id, record_type, index, 1)

    def set_image_conversion(self, conversion: ImageConversion) -> None:
        """Set the image conversion of all streams, for records that are read later."""
        self._settings = replace(self._settings, conversion=ImageConversion(conversion))
        self._by_stream = {}

    def set_stream_image_conversion(self, stream_id: str, conversion: ImageConversion) -> None:
        """Set the image conversion of a stream, for records that are read later."""
        name = self._catalog.stream_ids[self._ordinal(stream_id)]
        self._by_stream = {**self._by_stream, name: ImageConversion(conversion)}

    def set_stream_type_image_conversion(
        self, recordable_type_id: int, conversion: ImageConversion
    ) -> int:
        """Set the image conversion of all streams of a type; return the number of streams."""
        wanted = int(recordable_type_id)
        names = [
            name for name in self._catalog.stream_ids if StreamId.parse(name).type_id == wanted
        ]
        for name in names:
            self.set_stream_image_conversion(name, conversion)
        return len(names)

    def skip_trailing_blocks(
        self,
        recordable_type_id: int,
        record_type: RecordType,
        first_trailing_content_block_index: int,
    ) -> None:
        """Skip the last blocks of records that are read later.

        Parameters
        ----------
        recordable_type_id : int
            Type of the streams.
        record_type : RecordType
            Type of the records; ``UNDEFINED`` for all types.
        first_trailing_content_block_index : int
            Index of the first block to skip; 0 to read all blocks again.
        """
        kind, first = type_of(record_type), int(first_trailing_content_block_index)
        kinds = [kind] if kind else [known for known in RecordType if known]
        limits = dict(self._limits)
        for known in kinds:
            limits.pop((int(recordable_type_id), known), None)
            if first:
                limits[int(recordable_type_id), known] = first
        self._limits = limits

    def _filter(
        self,
        stream_ids: Any,
        record_types: Any,
        min_timestamp: float | None,
        max_timestamp: float | None,
    ) -> RecordFilter:
        return RecordFilter(
            self.record_types if record_types is None else self.record_types & _set(record_types),
            self.stream_ids if stream_ids is None else self._matching(_set(stream_ids)),
            self.min_timestamp if min_timestamp is None else min_timestamp,
            self.max_timestamp if max_timestamp is None else max_timestamp,
        )

    def _matching(self, patterns: set[str]) -> set[str]:
        return {
            name
            for name in self._catalog.stream_ids
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        }


def _set(names: Any) -> set[str]:
    return {names} if isinstance(names, str) else set(names)


class SyncVRSReader(VRSReader, SyncRows):
    """VRS file whose records are read when indexed or iterated over.

    Examples
    --------
    >>> import bloscpack.vrs.pyvrs as pyvrs
    >>> with pyvrs.SyncVRSReader(path) as reader:  # doctest: +SKIP
    ...     for record in reader.filtered_by_fields(stream_ids="1201-*", record_types="data"):
    ...         print(record.timestamp, record.image_blocks[0].shape)
    """

    def filtered_by_fields(
        self,
        *,
        stream_ids: Iterable[str] | str | None = None,
        record_types: Iterable[str] | str | None = None,
        min_timestamp: float | None = None,
        max_timestamp: float | None = None,
    ) -> SyncFilteredVRSReader:
        """Return a reader of the records that match all conditions.

        Parameters
        ----------
        stream_ids : str or set of str, optional
            Stream ids, or file name patterns for them: ``"1201-*"``.
        record_types : str or set of str, optional
            ``"data"``, ``"configuration"``, ``"state"``.
        min_timestamp, max_timestamp : float, optional
            Time limits in seconds, both included.
        """
        chosen = self._filter(stream_ids, record_types, min_timestamp, max_timestamp)
        return SyncFilteredVRSReader(self, chosen)


class AsyncVRSReader(VRSReader, AsyncRows):
    """VRS file whose records are awaited: ``await reader[i]``, ``async for``.

    Records are read, and their images decoded, in threads of the event loop's executor.
    """

    def filtered_by_fields(
        self,
        stream_ids: Iterable[str] | str | None = None,
        record_types: Iterable[str] | str | None = None,
        min_timestamp: float | None = None,
        max_timestamp: float | None = None,
    ) -> AsyncFilteredVRSReader:
        """Return a reader of matching records; see `SyncVRSReader.filtered_by_fields`."""
        chosen = self._filter(stream_ids, record_types, min_timestamp, max_timestamp)
        return AsyncFilteredVRSReader(self, chosen)


def records_checksum(path: "str | os.PathLike[str]", progress: bool = False) -> str:
    """Return the checksum of all tags and records, 16 hex digits.

    Compression, index and chunks of a copy do not change it.

    Parameters
    ----------
    path : str or PathLike
        The file.
    progress : bool
        Accepted but ignored: no progress is printed.

    Raises
    ------
    FormatError, CodecError, UnsupportedError
        The file is not a VRS file, or a record is damaged.
    OSError
        The file cannot be read.
    """
    with open_recording(place_of(path)) as recording:
        return recording.checksum()
