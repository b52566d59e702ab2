"""Readers of VRS files by the names that pyvrs has, so that scripts written for it keep working.

`docs/howto/from-pyvrs.md` says what is different. New programs have more with
`bloscpack.vrs.open`: columns, frames, filters that can be filtered.
"""

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Self

import numpy as np

from ..block.pixels import ImageConversion
from ..format.format import StreamId
from .catalog import Catalog, open_catalog
from .filespec import easy_path, place_of
from .filtered import AsyncFilteredVRSReader, RecordFilter, SyncFilteredVRSReader
from .pyvrserrors import StreamNotFoundError
from .pyvrsrecord import SAFE_ENCODING, ReadOptions, VRSRecord
from .queries import Owner
from .records import AsyncRows, SyncRows
from .recordtype import RecordType, type_of
from .text import head_lines, range_text, set_text, stream_lines


class VRSReader(Owner):
    """All records of a VRS file, in the order of time.

    Parameters
    ----------
    path : str, PathLike, list, mapping or FileSpec
        The file; a list names its chunks. With `multi_path` a list of files.
    auto_read_configuration_records : bool
        Accepted as it is. The configuration of a record is that of the last configuration record
        of its stream before it, whatever was read before.
    encoding : str
        Of text in the file: ``"utf-8-safe"`` gives surrogates for bytes that are not UTF-8; of any
        other encoding, such bytes are a `FormatError`.
    multi_path : bool
        Read several files as one. A stream id that is there already gets the next free instance id.

    Raises
    ------
    FormatError
        It is no VRS file.
    UnsupportedError
        It is of a newer version of the format.
    OSError
        It cannot be read.
    ValueError
        No file is named, or several that are of different sessions.
    LookupError
        There is no such encoding.

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
            codecs.lookup(encoding)  # refuses one that is not known
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

    def __enter__(self) -> Self:
        """Return the reader, to be closed at the end of the block."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file; idempotent. Records that were read stay usable."""
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
    def n_records(self) -> int:
        """The number of records."""
        return len(self)

    @property
    def record_types(self) -> set[str]:
        """The types of records there are: ``"data"``, ``"configuration"``, ``"state"``."""
        present = np.unique(self._catalog.record_type).tolist()
        return {RecordType(kind).name.lower() for kind in present}

    @property
    def stream_ids(self) -> set[str]:
        """The ids of the streams, those without records included."""
        return set(self._catalog.stream_ids)

    @property
    def min_timestamp(self) -> float:
        """The time of the first record; 0 without records."""
        return float(self._catalog.timestamp[0]) if len(self) else 0.0

    @property
    def max_timestamp(self) -> float:
        """The time of the last record; 0 without records."""
        return float(self._catalog.timestamp[-1]) if len(self) else 0.0

    @property
    def time_range(self) -> float:
        """Seconds between the first and the last record."""
        return self.max_timestamp - self.min_timestamp

    def get_stream_for_flavor(
        self, recordable_type_id: int, flavor: str, index_number: int = 0
    ) -> str:
        """Return the stream of a type and a flavor; of several the one at `index_number`.

        Raises
        ------
        StreamNotFoundError
            There is none, or not as many.
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
        """Return what tells a stream from all others, and stays in copies of it."""
        return self._catalog.streams[self._ordinal(stream_id)].serial_number

    def get_stream_for_serial_number(self, serial_number: str) -> str:
        """Return the stream with a serial number.

        Raises
        ------
        StreamNotFoundError
            There is none.
        """
        catalog = self._catalog
        for stream_id, stream in zip(catalog.stream_ids, catalog.streams, strict=True):
            if stream.serial_number == serial_number:
                return stream_id
        raise StreamNotFoundError(f"serial number {serial_number!r}", catalog.stream_ids)

    def get_stream_size(self, stream_id: str) -> int:
        """Return the bytes of the file that the records of a stream take."""
        rows = self._catalog.rows_of(self._ordinal(stream_id))
        return int(self._catalog.size[rows].sum(dtype=np.int64))

    def get_timestamp_list(self, indices: Iterable[int] | None = None) -> list[float]:
        """Return the times of all records, or of some.

        Raises
        ------
        IndexError
            There is no such record; negative indexes are none.
        """
        if indices is None:
            return self._catalog.timestamp.tolist()  # type: ignore[no-any-return]
        return [self.get_timestamp_for_index(index) for index in indices]

    def get_timestamp_for_index(self, index: int) -> float:
        """Return the time of a record.

        Raises
        ------
        IndexError
            There is no such record; negative indexes are none.
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
        """Return the place of a record by its time.

        Parameters
        ----------
        stream_id : str
            Only records of this stream.
        timestamp : float
            In seconds.
        epsilon : float, optional
            With it, the nearest record is meant, at most so many seconds away: of the last before
            and the first from `timestamp` on, the earlier one if both are as near. Without it, the
            first from `timestamp` on.
        record_type : RecordType, optional
            Only records of this type.

        Raises
        ------
        TimestampNotFoundError
            No record is as near as `epsilon`.
        ValueError
            Without `epsilon`: there is no later record.
        """
        return self._row_by_time(stream_id, timestamp, epsilon, record_type)

    def read_prev_record(
        self, stream_id: str, record_type: RecordType | str, index: int
    ) -> VRSRecord | None:
        """Read the last record of a stream and a type up to a place; None if there is none."""
        found = self._row_next_to(stream_id, record_type, index, -1)
        return None if found is None else self._read(found)

    def read_next_record(
        self, stream_id: str, record_type: RecordType | str, index: int
    ) -> VRSRecord | None:
        """Read the first record of a stream and a type from a place on; None if there is none."""
        found = self._row_next_to(stream_id, record_type, index, 1)
        return None if found is None else self._read(found)

    def set_image_conversion(self, conversion: ImageConversion) -> None:
        """Set how images of all streams are converted, in records that are read from now on."""
        self._settings = replace(self._settings, conversion=ImageConversion(conversion))
        self._by_stream = {}

    def set_stream_image_conversion(self, stream_id: str, conversion: ImageConversion) -> None:
        """Set how images of a stream are converted, in records that are read from now on."""
        name = self._catalog.stream_ids[self._ordinal(stream_id)]
        self._by_stream = {**self._by_stream, name: ImageConversion(conversion)}

    def set_stream_type_image_conversion(
        self, recordable_type_id: int, conversion: ImageConversion
    ) -> int:
        """Set how images of all streams of a type are converted; return how many there are."""
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
        """Leave out the last blocks of records that are read from now on.

        Parameters
        ----------
        recordable_type_id : int
            Of streams of this type.
        record_type : RecordType
            Of records of this type; ``UNDEFINED`` for all.
        first_trailing_content_block_index : int
            The first block that is left out; 0 to leave none out again.
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
    """A VRS file whose records are read when they are indexed or iterated over.

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
        """Return a reader of some of the records.

        Parameters
        ----------
        stream_ids : str or set of str, optional
            Stream ids, or patterns for them as for file names: ``"1201-*"``.
        record_types : str or set of str, optional
            ``"data"``, ``"configuration"``, ``"state"``.
        min_timestamp, max_timestamp : float, optional
            Limits of the time in seconds, both included.
        """
        chosen = self._filter(stream_ids, record_types, min_timestamp, max_timestamp)
        return SyncFilteredVRSReader(self, chosen)


class AsyncVRSReader(VRSReader, AsyncRows):
    """A VRS file whose records are awaited: ``await reader[i]``, ``async for``.

    They are read, and their images decoded, in threads of the event loop's.
    """

    def filtered_by_fields(
        self,
        stream_ids: Iterable[str] | str | None = None,
        record_types: Iterable[str] | str | None = None,
        min_timestamp: float | None = None,
        max_timestamp: float | None = None,
    ) -> AsyncFilteredVRSReader:
        """Return a reader of some of the records; see `SyncVRSReader.filtered_by_fields`."""
        chosen = self._filter(stream_ids, record_types, min_timestamp, max_timestamp)
        return AsyncFilteredVRSReader(self, chosen)
