"""Records of a frame store, by form, and all of them in order of time or of the file.

Columns are read for a batch of records at a time and joined to payloads.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...plugin import AnyArray, FrameStore, IntArray
from ..format.format import RecordType, StreamId
from ..format.recordindex import INDEX_ENTRY, RecordTable
from .payloadrows import (
    StoredColumn,
    StoredFixed,
    StoredImages,
    StoredIndex,
    StoredPixels,
    StoredRagged,
    count_of,
    damaged,
    read_column,
    text_of,
)

# Most records that are rebuilt at once.
_BATCH_RECORDS = 1 << 16
# Memory for the columns of all forms together; a form gets a share, or at least this minimum.
_MEMORY_NBYTES = 16 << 20
_MIN_BATCH_NBYTES = 1 << 16

_KINDS: dict[str, type[StoredColumn]] = {
    "fixed": StoredFixed,
    "pixels": StoredPixels,
    "images": StoredImages,
    "ragged": StoredRagged,
}


class StoredForm:
    """Records of a store whose payloads have the same parts.

    `plan` is the store's description of the form. `order` is the position of each record, and
    `compressions` the compression of each payload, in the original file.
    """

    def __init__(self, store: FrameStore, plan: Mapping[str, Any]) -> None:
        prefix, kind = text_of(plan, "prefix"), text_of(plan, "type")
        self.version = count_of(plan, "version")
        nrows = count_of(plan, "records")
        try:
            self.stream_id = StreamId.parse(text_of(plan, "stream"))
            self.record_type = RecordType[kind.upper()]
        except (KeyError, ValueError) as err:
            raise damaged(f"form {prefix!r:.80}: stream or type of records") from err
        if self.version > 0xFFFFFFFF or self.record_type == RecordType.TAGS:
            raise damaged(f"form {prefix!r:.80}: version {self.version}, type {kind}")
        self.timestamps = read_column(store, f"{prefix}/timestamp", np.dtype(np.float64), nrows)
        self.order = read_column(store, f"{prefix}/order", np.dtype(np.int64), nrows)
        self.compressions = read_column(store, f"{prefix}/compression", np.dtype(np.uint8), nrows)
        self._columns = list(_columns_of(store, plan, nrows))
        self.row_nbytes = sum(column.row_nbytes for column in self._columns)

    def __len__(self) -> int:
        return len(self.timestamps)

    def read(self, first: int, last: int) -> Sequence[bytes]:
        """Return the payloads of records `first` to `last`, which is not included."""
        lanes: list[Sequence[bytes]] = []
        tables: list[AnyArray] = []
        for column in [*self._columns, None]:
            lane = None if column is None else column.read(first, last)
            if isinstance(lane, np.ndarray):
                tables.append(lane)
                continue
            if tables:
                lanes.append(_rows_of(np.concatenate(tables, axis=1)))
                tables = []
            if lane is not None:
                lanes.append(lane)
        if not lanes:
            return [b""] * (last - first)
        return lanes[0] if len(lanes) == 1 else [b"".join(parts) for parts in zip(*lanes)]  # noqa: B905

    def iter_payloads(self, rows: IntArray, batch_nbytes: int) -> Iterator[bytes]:
        """Yield the payloads of records; consecutive ones are read in batches."""
        nahead = max(1, min(_BATCH_RECORDS, batch_nbytes // max(1, self.row_nbytes)))
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        starts = [0, *breaks.tolist()]
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            row, count = int(rows[start]) if stop > start else 0, stop - start
            for done in range(0, count, nahead):
                yield from self.read(row + done, row + min(done + nahead, count))


class StoredTable:
    """All records of a store, in order of time and of the original file.

    `position` of `table` is the order of the original file. File offsets are not set.
    """

    def __init__(
        self, store: FrameStore, plans: Sequence[Mapping[str, Any]], streams: Sequence[StreamId]
    ) -> None:
        self.forms = [StoredForm(store, plan) for plan in plans]
        sizes = [len(form) for form in self.forms]
        self._form = np.repeat(np.arange(len(sizes)), sizes)
        none = [np.zeros(0, np.int64)]
        self._row = np.concatenate([*map(np.arange, sizes), *none])
        order = np.concatenate([*(form.order for form in self.forms), *none])
        ranks = np.argsort(order, kind="stable")
        self._form, self._row = self._form[ranks], self._row[ranks]
        entries = np.zeros(len(ranks), INDEX_ENTRY)
        for form, mine in zip(self.forms, _split(self._form, len(sizes)), strict=True):
            entries["timestamp"][mine] = form.timestamps[self._row[mine]]
            entries["record_type"][mine] = form.record_type
            entries["type_id"][mine], entries["instance_id"][mine] = form.stream_id
        self.table = RecordTable.from_entries(entries, np.zeros(len(ranks), np.int64), streams)

    def __len__(self) -> int:
        return len(self._form)

    def iter_records(self, positions: IntArray) -> Iterator[tuple[StoredForm, int, bytes]]:
        """Yield form, row and payload of records, given by their positions in the file."""
        forms, rows = self._form[positions], self._row[positions]
        share = max(_MIN_BATCH_NBYTES, _MEMORY_NBYTES // max(1, len(self.forms)))
        readers = [
            form.iter_payloads(rows[mine], share)
            for form, mine in zip(self.forms, _split(forms, len(self.forms)), strict=True)
        ]
        for start in range(0, len(positions), _BATCH_RECORDS):
            part = slice(start, start + _BATCH_RECORDS)
            for number, row in zip(forms[part].tolist(), rows[part].tolist(), strict=True):
                yield self.forms[number], row, next(readers[number])


def _columns_of(store: FrameStore, plan: Mapping[str, Any], nrows: int) -> Iterator[StoredColumn]:
    """Yield the columns of a form; an index comes before its pieces."""
    parts = plan.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise damaged("a form without parts")
    columns: dict[str, StoredColumn] = {}
    for part in parts:
        kind = _KINDS.get(str(part.get("kind")))
        if kind is not None:
            column = kind(store, part, nrows)
            columns[column.id] = column
    for part in parts:
        if part.get("kind") == "index":
            ids = part.get("ids")
            pieces = [columns.get(str(id_)) for id_ in ids] if isinstance(ids, list) else [None]
            ragged = [piece for piece in pieces if isinstance(piece, StoredRagged)]
            if len(ragged) < len(pieces):
                raise damaged("an index whose pieces are missing")
            yield StoredIndex(ragged)
        elif part.get("kind") in _KINDS:
            yield columns[text_of(part, "id")]
        else:
            raise damaged(f"a part of kind {part.get('kind')!r:.80}")


def _split(numbers: IntArray, count: int) -> list[IntArray]:
    """Return the positions of each of the numbers 0 to `count` - 1, in order."""
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    return np.split(order, ends[:-1]) if count else []


def _rows_of(table: AnyArray) -> list[bytes]:
    data, nbytes = table.tobytes(), table.shape[1]
    if not nbytes:
        return [b""] * len(table)
    return [data[at : at + nbytes] for at in range(0, len(data), nbytes)]
