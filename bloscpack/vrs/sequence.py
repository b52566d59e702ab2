"""Sequences of records: a whole recording or a selection of it, with the same methods.

A selection holds only the row numbers of its records; records are read on access.
"""

import operator
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ..plugin import IntArray, NotFoundError
from .format.format import RECORD_TYPE_NAMES, RecordType, StreamId, find_record_type
from .read.content import Content, Decoders
from .read.record import Record

FloatArray: TypeAlias = NDArray[np.float64]
# A stream: its id as text (`filter` accepts wildcards), a `StreamId`, or an object with an `id`.
StreamName: TypeAlias = Any
TypeName: TypeAlias = str | RecordType


def check_times(*times: float | None) -> None:
    """Raise ValueError for a time limit of NaN, which would match no record."""
    for time in times:
        if time is not None and time != time:
            raise ValueError("a time limit must be seconds, not nan")


class RecordSequence(Sequence[Record]):
    """Sequence of records, read when indexed or iterated over.

    Notes
    -----
    Safe from many threads and after a fork: reads are positional.
    """

    _content: Content
    _decoders: Decoders  # the content refers to them only weakly
    _kind = "selection"

    @property
    @abstractmethod
    def rows(self) -> IntArray:
        """The `record_index` of each record, int64 (N,)."""

    @abstractmethod
    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Selection": ...
    def __getitem__(self, index: int | slice) -> "Record | Selection":
        """Return the record at an int, or a lazy `Selection` for a slice.

        Raises
        ------
        IndexError
            No such record exists.
        FormatError, CodecError
            The record is damaged; the message names it.
        """
        if isinstance(index, slice):
            return Selection(self._content, self.rows[index])
        return self._content[self._row(operator.index(index))]

    def _row(self, index: int) -> int:
        """Return the `record_index` of the record at `index`, which may be negative."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"record {index} of a {self._kind} of {count}")
        return self.rows.item(index)

    def __iter__(self) -> Iterator[Record]:
        """Iterate over all records in order, reading some ahead.

        Raises
        ------
        FormatError, CodecError
            A record is damaged. Iteration ends there; the other records are readable by index.
        """
        decoders, content = self._decoders, self._content
        for row, (stream, kind, version, timestamp, payload) in content.reader.iter_records(
            self.rows
        ):
            key = stream, kind, version
            yield Record(decoders.get(key) or content.decoder(key), timestamp, row, payload)

    def read_payload(self, index: int) -> bytes:
        """Return the decompressed payload of a record.

        Raises
        ------
        IndexError
            No such record exists.
        FormatError, CodecError
            The record is damaged.
        """
        return self._content.read_payload(self._row(operator.index(index)))

    @property
    def timestamps(self) -> FloatArray:
        """Time of each record in seconds, float64 (N,); a copy."""
        return self._content.table.timestamp[self.rows]

    @property
    def stored_nbytes(self) -> IntArray:
        """Bytes of each record in the file, header included, int64 (N,); a copy."""
        return self._content.table.size[self.rows].astype(np.int64)

    @property
    def time_range(self) -> tuple[float, float] | None:
        """First and last time in seconds; None without records."""
        times = self.timestamps
        times = times[~np.isnan(times)]
        return (float(times.min()), float(times.max())) if len(times) else None

    @property
    def stream_ids(self) -> list[str]:
        """Sorted ids of the streams that these records belong to."""
        table = self._content.table
        present = np.unique(table.stream[self.rows]).tolist()
        return [str(table.streams[ordinal]) for ordinal in present]

    @property
    def record_types(self) -> set[str]:
        """Types of these records."""
        present = np.unique(self._content.table.record_type[self.rows]).tolist()
        return {RECORD_TYPE_NAMES[kind] for kind in present}

    def filter(
        self,
        streams: StreamName | Iterable[StreamName] | None = None,
        types: TypeName | Iterable[TypeName] | None = None,
        *,
        after: float | None = None,
        before: float | None = None,
    ) -> "Selection":
        """Return the records that match all conditions, as a lazy `Selection`.

        Parameters
        ----------
        streams : str or iterable of str, optional
            Stream ids, or file name patterns for them: ``"214-*"``.
        types : str or iterable of str, optional
            ``"data"``, ``"configuration"``, ``"state"``.
        after, before : float, optional
            Time limits in seconds, both included.

        Raises
        ------
        NotFoundError
            No stream has an id that was given without a wildcard.
        ValueError
            A type does not exist, or a time is NaN.
        """
        check_times(after, before)
        table, rows = self._content.table, self.rows
        keep = np.ones(len(rows), np.bool_)
        if streams is not None:
            keep &= np.isin(table.stream[rows], self._match_streams(streams))
        if types is not None:
            keep &= np.isin(
                table.record_type[rows], [find_record_type(kind) for kind in listed(types)]
            )
        if after is not None:
            keep &= table.timestamp[rows] >= after
        if before is not None:
            keep &= table.timestamp[rows] <= before
        return Selection(self._content, rows[keep])

    def _match_streams(self, names: StreamName | Iterable[StreamName]) -> list[int]:
        """Return the sorted ordinals of the streams that match any of the names."""
        ids = [str(stream_id) for stream_id in self._content.table.streams]
        found: set[int] = set()
        for name in listed(names):
            text = stream_text(name)
            if is_pattern(text):
                found.update(k for k, id_ in enumerate(ids) if fnmatchcase(id_, text))
            else:
                found.add(find_stream(self._content, text))
        return sorted(found)

    def nearest(
        self,
        timestamp: float,
        stream: StreamName | None = None,
        record_type: TypeName | None = None,
        *,
        tolerance: float | None = None,
    ) -> Record:
        """Return the record nearest in time; of two equally near, the earlier one.

        Parameters
        ----------
        timestamp : float
            In seconds.
        stream, record_type : str, optional
            Search only records of this stream and this type.
        tolerance : float, optional
            Largest distance in seconds.

        Raises
        ------
        NotFoundError
            No record matches, or none within the tolerance.
        """
        found = int(self.nearest_rows([timestamp], stream, record_type, tolerance=tolerance)[0])
        if found < 0:
            limit = "" if tolerance is None else f" within {tolerance} s"
            raise NotFoundError(f"no such record near {timestamp} s{limit}")
        return self._content[found]

    def nearest_rows(
        self,
        timestamps: Any,
        stream: StreamName | None = None,
        record_type: TypeName | None = None,
        *,
        tolerance: float | None = None,
    ) -> IntArray:
        """Return the `record_index` of the record nearest to each time; -1 without one.

        Parameters
        ----------
        timestamps : array-like of float
            In seconds, one-dimensional.
        stream, record_type, tolerance
            As for `nearest`.

        Returns
        -------
        ndarray of int64, shape of `timestamps`
        """
        wanted = np.asarray(timestamps, np.float64)
        chosen: RecordSequence = self
        if stream is not None or record_type is not None:
            chosen = self.filter(stream, record_type)
        times, rows = chosen.timestamps, chosen.rows
        order = np.argsort(times, kind="stable")
        order = order[: len(times) - int(np.isnan(times).sum())]
        times, rows = times[order], rows[order]
        if not len(times):
            return np.full(wanted.shape, -1, np.int64)
        # `after`: the first record at or after the time. `before`: the record before it; among
        # records of equal time, the first.
        after = np.searchsorted(times, wanted)
        before = np.searchsorted(times, times[np.maximum(after - 1, 0)])
        after = np.minimum(after, len(times) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            gap_before, gap_after = np.abs(wanted - times[before]), np.abs(times[after] - wanted)
            found = np.where(gap_before <= gap_after, before, after)
            fits = np.abs(times[found] - wanted) <= (np.inf if tolerance is None else tolerance)
        return np.where(fits, rows[found], -1)


class Selection(RecordSequence):
    """Some records of a recording, in time order unless sliced otherwise."""

    def __init__(self, content: Content, rows: IntArray) -> None:
        self._content = content
        self._decoders = content.keep_decoders()
        self._rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        return Selection, (self._content, self._rows)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self._content.source.name!r}>"

    @property
    def rows(self) -> IntArray:
        """The `record_index` of each record, int64 (N,)."""
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)


def stream_text(name: StreamName) -> str:
    """Return the id of a stream as text."""
    text = name if isinstance(name, str | StreamId) else getattr(name, "id", None)
    if text is None:
        raise TypeError(f"expected a stream or its id, not {type(name).__name__!r}")
    return str(text)


def is_pattern(text: str) -> bool:
    """Return whether a text has wildcards, and may match any number of stream ids."""
    return any(character in text for character in "*?[")


def find_stream(content: Content, text: str) -> int:
    """Return the ordinal of the stream with the id `text`."""
    streams = content.table.streams  # sorted; a file may have 65,536
    with suppress(ValueError):
        wanted = StreamId.parse(text)
        place = bisect_left(streams, wanted)
        if streams[place : place + 1] == (wanted,):
            return place
    listed = ", ".join(map(str, streams[:20])) or "none"
    more = len(streams) - 20
    raise NotFoundError(
        f"no stream {text!r:.80}: there are {listed}" + (f" and {more} more" if more > 0 else "")
    ).at(path=content.source.name)


def listed(names: Any) -> list[Any]:
    """Return a single name, or an iterable of names, as a list."""
    if isinstance(names, str | StreamId | RecordType) or not isinstance(names, Iterable):
        return [names]
    return list(names)
