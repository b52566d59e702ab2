"""Records in a row: all of a recording, or a selection of them, with the same ways to read both.

A selection is the rows of its records and no more; records are read when they are asked for.
"""

import operator
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ..exceptions import NotFoundError
from ..types import IntArray
from .format.format import RECORD_TYPE_NAMES, RecordType, StreamId, find_record_type
from .read.content import Content, Decoders
from .read.record import Record

FloatArray: TypeAlias = NDArray[np.float64]
# A stream: its id as text, maybe with wildcards, as a `StreamId`, or anything that has a stream id.
StreamName: TypeAlias = Any
TypeName: TypeAlias = str | RecordType


class RecordSequence(Sequence[Record]):
    """Records that are read when they are indexed or iterated over.

    Notes
    -----
    Safe from many threads and after a fork: reads are positional.
    """

    _content: Content
    _decoders: Decoders

    @property
    @abstractmethod
    def rows(self) -> IntArray:
        """Which records of the recording these are: their `record_index`, int64."""

    @abstractmethod
    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Selection": ...
    def __getitem__(self, index: int | slice) -> "Record | Selection":
        """Return a record, or for a slice a selection of which nothing is read yet.

        Raises
        ------
        IndexError
            There is no such record.
        FormatError, CodecError
            The record is damaged; the message names it.
        """
        if isinstance(index, slice):
            return Selection(self._content, self.rows[index])
        return self._read(self._row(operator.index(index)))

    @abstractmethod
    def _row(self, index: int) -> int:
        """Return the row of the record at `index`, which may be negative."""

    def _read(self, row: int) -> Record:
        content = self._content
        stream, record_type, version, timestamp, payload = content.reader.read(row)
        key = stream, record_type, version
        decoder = self._decoders.get(key) or content.decoder(key)
        return Record(decoder, timestamp, row, payload)

    def __iter__(self) -> Iterator[Record]:
        """Read all records in order, some ahead.

        Raises
        ------
        FormatError, CodecError
            A record is damaged. Iteration is over then; by their index, the others can be read.
        """
        decoders, content = self._decoders, self._content
        for row, (stream, kind, version, timestamp, payload) in self._iter_stored():
            key = stream, kind, version
            yield Record(decoders.get(key) or content.decoder(key), timestamp, row, payload)

    def _iter_stored(self) -> Iterator[tuple[int, tuple[int, int, int, float, bytes]]]:
        return self._content.reader.iter_records(self.rows)

    def read_payload(self, index: int) -> bytes:
        """Return the decompressed payload of a record.

        Raises
        ------
        IndexError
            There is no such record.
        FormatError, CodecError
            The record is damaged.
        """
        return self._content.read_payload(self._row(operator.index(index)))

    @property
    def timestamps(self) -> FloatArray:
        """The time of each record in seconds, float64 (N,); a copy."""
        return self._content.table.timestamp[self.rows]

    @property
    def stored_nbytes(self) -> IntArray:
        """The size of each record in the file, with its header, int64 (N,); a copy."""
        return self._content.table.size[self.rows].astype(np.int64)

    @property
    def time_range(self) -> tuple[float, float] | None:
        """The first and the last time in seconds; None without records."""
        times = self._content.table.timestamp[self.rows]
        times = times[~np.isnan(times)]
        return (float(times.min()), float(times.max())) if len(times) else None

    @property
    def stream_ids(self) -> list[str]:
        """The streams that have records here, in order."""
        table = self._content.table
        present = np.unique(table.stream[self.rows]).tolist()
        return [str(table.streams[ordinal]) for ordinal in present]

    @property
    def record_types(self) -> set[str]:
        """The types of these records."""
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
        """Return those of the records that fit, of which nothing is read yet.

        Parameters
        ----------
        streams : str or iterable of str, optional
            Stream ids, or patterns for them as for file names: ``"214-*"``.
        types : str or iterable of str, optional
            ``"data"``, ``"configuration"``, ``"state"``.
        after, before : float, optional
            Limits of the time in seconds, both included.

        Raises
        ------
        NotFoundError
            No stream has an id that is given without a wildcard.
        ValueError
            There is no such type.
        """
        table, rows = self._content.table, self.rows
        keep = np.ones(len(rows), np.bool_)
        if streams is not None:
            keep &= np.isin(table.stream[rows], self._match_streams(streams))
        if types is not None:
            keep &= np.isin(
                table.record_type[rows], [find_record_type(kind) for kind in _listed(types)]
            )
        if after is not None:
            keep &= table.timestamp[rows] >= after
        if before is not None:
            keep &= table.timestamp[rows] <= before
        return Selection(self._content, rows[keep])

    def _match_streams(self, names: StreamName | Iterable[StreamName]) -> list[int]:
        """Return the ordinals of the streams that fit any of the names, in order.

        Raises
        ------
        NotFoundError
            No stream has an id that is given without a wildcard.
        """
        ids = [str(stream_id) for stream_id in self._content.table.streams]
        found: set[int] = set()
        for name in _listed(names):
            text = stream_text(name)
            if any(character in text for character in "*?["):
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
        """Return the record whose time is nearest; of two, the earlier one.

        Parameters
        ----------
        timestamp : float
            In seconds.
        stream, record_type : str, optional
            Only records of this stream, of this type.
        tolerance : float, optional
            How many seconds away it may be.

        Raises
        ------
        NotFoundError
            There is none, or none as near as that.
        """
        found = int(self.nearest_rows([timestamp], stream, record_type, tolerance=tolerance)[0])
        if found < 0:
            limit = "" if tolerance is None else f" within {tolerance} s"
            raise NotFoundError(f"no such record near {timestamp} s{limit}")
        return self._read(found)

    def nearest_rows(
        self,
        timestamps: Any,
        stream: StreamName | None = None,
        record_type: TypeName | None = None,
        *,
        tolerance: float | None = None,
    ) -> IntArray:
        """Return for each of many times the `record_index` of what `nearest` gives; -1 for none.

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
        # The first that is not before; and of those before, the first that has the last time.
        after = np.searchsorted(times, wanted)
        before = np.searchsorted(times, times[np.maximum(after - 1, 0)])
        after = np.minimum(after, len(times) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            gap_before, gap_after = np.abs(wanted - times[before]), np.abs(times[after] - wanted)
            found = np.where(gap_before <= gap_after, before, after)
            fits = np.abs(times[found] - wanted) <= (np.inf if tolerance is None else tolerance)
        return np.where(fits, rows[found], -1)


class Selection(RecordSequence):
    """Some records of a recording, in the order of time unless they were sliced otherwise."""

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
        """Which records of the recording these are: their `record_index`, int64."""
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def _row(self, index: int) -> int:
        count = len(self._rows)
        if not -count <= index < count:
            raise IndexError(f"record {index} of a selection of {count}")
        return self._rows.item(index)


def stream_text(name: StreamName) -> str:
    """Return the text of a stream's id."""
    text = name if isinstance(name, str | StreamId) else getattr(name, "id", None)
    if text is None:
        raise TypeError(f"expected a stream or its id, not {type(name).__name__!r}")
    return str(text)


def find_stream(content: Content, text: str) -> int:
    """Return the ordinal of a stream.

    Raises
    ------
    NotFoundError
        There is none of this id.
    """
    try:
        return content.table.streams.index(StreamId.parse(text))
    except ValueError:
        listed = ", ".join(map(str, content.table.streams[:20])) or "none"
        more = len(content.table.streams) - 20
        error = NotFoundError(
            f"no stream {text!r:.80}: there are {listed}"
            + (f" and {more} more" if more > 0 else "")
        )
        error.path = content.source.name
        raise error from None


def _listed(names: Any) -> list[Any]:
    """Return one name, or several, as a list."""
    if isinstance(names, str | StreamId | RecordType) or not isinstance(names, Iterable):
        return [names]
    return list(names)
