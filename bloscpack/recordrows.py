"""Payloads of records from the columns of a store: the way back of recordform.py.

Columns are read for some records at a time and put together as bytes. What the store says of itself
is not believed: clips that are missing, of another length or of other dtypes are a `FormatError`.
Layout: docs/formats/vrs-store.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .exceptions import FormatError
from .frames.protocol import AnyArray, IntArray
from .frames.reader import FrameStore
from .vrs.format import RecordType, StreamId
from .vrs.index import INDEX_ENTRY, RecordTable

_ENTRY = np.dtype("<u4")
# Records that are put together at once, at most.
_BATCH_RECORDS = 1 << 16
# What all columns of a store may hold in memory, and at least each form.
_MEMORY_NBYTES = 64 << 20
_MIN_BATCH_NBYTES = 1 << 16
# Blocks of values that are read at once where one record has many.
_READ_BLOCKS = 16

# Bytes of records: a row for each, or one bytes object for each.
_Lane: TypeAlias = "AnyArray | list[bytes]"


def damaged(what: str) -> FormatError:
    """Return the error for a store that does not hold together as a recording."""
    return FormatError(f"recording in a frame store: {what}")


class StoredColumn:
    """A part of the payloads of a form; base of all kinds.

    Parameters
    ----------
    store : FrameStore
        Where its clips are.
    plan : mapping
        What the store says of it.
    nrows : int
        Records of the form.
    """

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        self.id: str = _text_of(plan, "id")
        self._clip = store[self.id]
        self._nrows = nrows

    def _check_rows(self, count: int) -> None:
        if count != self._nrows:
            raise damaged(f"clip {self.id!r:.80} has {count} rows for {self._nrows} records")

    @property
    def row_nbytes(self) -> int:
        """About how many bytes a record takes."""
        raise NotImplementedError

    def read(self, first: int, last: int) -> _Lane:
        """Return the bytes of records `first` to `last`, the latter not included."""
        raise NotImplementedError


class StoredFixed(StoredColumn):
    """Rows of a clip, as they are."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        super().__init__(store, plan, nrows)
        self._check_rows(len(self._clip))

    @property
    def row_nbytes(self) -> int:
        """Bytes of a row."""
        return self._clip.dtype.itemsize * int(np.prod(self._clip.shape[1:]))

    def read(self, first: int, last: int) -> _Lane:
        """Return the bytes of rows, uint8 (n, nbytes)."""
        return _as_bytes(self._clip.read(slice(first, last)), last - first)


class StoredPixels(StoredFixed):
    """Raw images of pixels and what lies between and behind them."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        super().__init__(store, plan, nrows)
        self._rest = StoredFixed(store, {"id": _text_of(plan, "rest")}, nrows)
        self._height = self._clip.shape[1] if len(self._clip.shape) > 1 else 0
        self._stride = _count_of(plan, "stride")
        self._width = super().row_nbytes // max(1, self._height)
        if not 0 < self._width <= self._stride or (
            self._height * (self._stride - self._width) > self._rest.row_nbytes
        ):
            raise damaged(f"clip {self.id!r:.80}: rows of {self._stride} bytes do not fit")

    @property
    def row_nbytes(self) -> int:
        """Bytes of an image."""
        return super().row_nbytes + self._rest.row_nbytes

    def read(self, first: int, last: int) -> _Lane:
        """Return the bytes of images, uint8 (n, nbytes)."""
        count, height, stride, width = last - first, self._height, self._stride, self._width
        pixels = np.asarray(super().read(first, last)).reshape(count, height, width)
        rest = np.asarray(self._rest.read(first, last))
        raw = np.empty((count, self.row_nbytes), np.uint8)
        rows = raw[:, : height * stride].reshape(count, height, stride)
        behind = height * (stride - width)
        rows[:, :, :width] = pixels
        rows[:, :, width:] = rest[:, :behind].reshape(count, height, stride - width)
        raw[:, height * stride :] = rest[:, behind:]
        return raw


class StoredImages(StoredColumn):
    """JPEG and PNG images."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        super().__init__(store, plan, nrows)
        self._check_rows(len(self._clip))
        if self._clip.read_images([]) is None:
            raise damaged(f"clip {self.id!r:.80} has no images")

    @property
    def row_nbytes(self) -> int:
        """Bytes of an image on average."""
        return self._clip.cbytes // max(1, self._nrows)

    def read(self, first: int, last: int) -> _Lane:
        """Return the images."""
        return self._clip.read_images(slice(first, last)) or []


class StoredRagged(StoredColumn):
    """Values, as many for each record as it has."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        super().__init__(store, plan, nrows)
        offsets = read_column(store, _text_of(plan, "offsets"), np.dtype(np.int64), nrows + 1)
        shape = self._clip.shape
        if len(shape) < 2:
            raise damaged(f"clip {self.id!r:.80} has values in no blocks")
        self._block = shape[1]
        self._item_nbytes = self._clip.dtype.itemsize * int(np.prod(shape[2:]))
        if offsets[0] or (np.diff(offsets) < 0).any() or offsets[-1] > shape[0] * shape[1]:
            raise damaged(f"clip {self.id!r:.80}: the offsets do not fit its values")
        self._offsets = offsets

    @property
    def row_nbytes(self) -> int:
        """Bytes of a record on average."""
        return int(self._offsets[-1]) * self._item_nbytes // max(1, self._nrows)

    def sizes(self, first: int, last: int) -> IntArray:
        """Return the bytes of each record, int64."""
        return np.diff(self._offsets[first : last + 1]) * self._item_nbytes

    def iter_bytes(self, row: int) -> Iterator[bytes]:
        """Yield the values of one record as bytes, some at a time."""
        at, end = (int(each) for each in self._offsets[row : row + 2])
        while at < end:
            block, start = divmod(at, self._block)
            last = min(block + _READ_BLOCKS, -(-end // self._block))
            taken = min(end, last * self._block) - at
            data = self._clip.read(slice(block, last)).tobytes()
            yield data[start * self._item_nbytes : (start + taken) * self._item_nbytes]
            at += taken

    def read(self, first: int, last: int) -> _Lane:
        """Return the values of each record as bytes."""
        ends = self._offsets[first : last + 1]
        if ends[0] == ends[-1]:
            return [b""] * (last - first)
        block = int(ends[0]) // self._block
        blocks = self._clip.read(slice(block, -(-int(ends[-1]) // self._block)))
        data = blocks.tobytes()
        places = ((ends - block * self._block) * self._item_nbytes).tolist()
        return [data[at:end] for at, end in zip(places, places[1:], strict=False)]


class _StoredIndex(StoredColumn):
    """The index of variable pieces, from how long these are."""

    def __init__(self, pieces: list[StoredRagged]) -> None:
        self._pieces = pieces

    @property
    def row_nbytes(self) -> int:
        """Bytes of the index."""
        return 2 * _ENTRY.itemsize * len(self._pieces)

    def read(self, first: int, last: int) -> _Lane:
        """Return offsets and sizes, uint8 (n, nbytes)."""
        entries = np.zeros((last - first, len(self._pieces), 2), np.int64)
        for number, piece in enumerate(self._pieces):
            entries[:, number, 1] = piece.sizes(first, last)
        np.cumsum(entries[:, :-1, 1], axis=1, out=entries[:, 1:, 0])
        return _as_bytes(entries.astype(_ENTRY), last - first)


_KINDS: dict[str, type[StoredColumn]] = {
    "fixed": StoredFixed,
    "pixels": StoredPixels,
    "images": StoredImages,
    "ragged": StoredRagged,
}


class StoredForm:
    """Records of a store whose payloads have the same parts.

    Parameters
    ----------
    store : FrameStore
        The store.
    plan : mapping
        What it says of the form.

    Attributes
    ----------
    stream_id, record_type, version
        Of all its records.
    timestamps : ndarray of float64, shape (N,)
        In seconds.
    order : ndarray of int64, shape (N,)
        Place in the order of the file.
    compressions : ndarray of uint8, shape (N,)
        How the payloads were stored.

    Raises
    ------
    FormatError
        Clips are missing, or do not fit.
    """

    def __init__(self, store: FrameStore, plan: Mapping[str, Any]) -> None:
        prefix, kind = _text_of(plan, "prefix"), _text_of(plan, "type")
        self.version = _count_of(plan, "version")
        nrows = _count_of(plan, "records")
        try:
            self.stream_id = StreamId.parse(_text_of(plan, "stream"))
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
        """Return the payloads of some records."""
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
        """Yield the payloads of records, reading those ahead that follow each other."""
        nahead = max(1, min(_BATCH_RECORDS, batch_nbytes // max(1, self.row_nbytes)))
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        starts = [0, *breaks.tolist()]
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            row, count = int(rows[start]) if stop > start else 0, stop - start
            for done in range(0, count, nahead):
                yield from self.read(row + done, row + min(done + nahead, count))


class StoredTable:
    """All records of a store, in the order of time and of the file.

    Attributes
    ----------
    forms : list of StoredForm
        What they are read from.
    table : RecordTable
        Times, types and streams in the order of time; `position` counts the order of the file, and
        there are no places in a file.
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
        self.table = RecordTable.from_entries(entries, 0, streams)

    def __len__(self) -> int:
        return len(self._form)

    def iter_records(self, positions: IntArray) -> Iterator[tuple[StoredForm, int, bytes]]:
        """Yield form, row and payload of records, given by their places in the order of the file."""
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


def read_column(store: FrameStore, id_: str, dtype: np.dtype[Any], count: int) -> AnyArray:
    """Return a clip of `count` numbers.

    Raises
    ------
    FormatError, NotFoundError
        There is no such clip, or it is another one.
    """
    clip = store[id_]
    if clip.shape != (count,) or clip.dtype != dtype:
        raise damaged(f"clip {id_!r:.80} is {clip.dtype} {clip.shape}, not {dtype} ({count},)")
    return clip.read()


def _columns_of(store: FrameStore, plan: Mapping[str, Any], nrows: int) -> Iterator[StoredColumn]:
    """Yield the columns of a form; an index stands before the pieces that it is of."""
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
                raise damaged("an index of pieces that are not there")
            yield _StoredIndex(ragged)
        elif part.get("kind") in _KINDS:
            yield columns[_text_of(part, "id")]
        else:
            raise damaged(f"a part of kind {part.get('kind')!r:.80}")


def _text_of(plan: Mapping[str, Any], name: str) -> str:
    value = plan.get(name)
    if not isinstance(value, str):
        raise damaged(f"{name} is {value!r:.80}, no text")
    return value


def _count_of(plan: Mapping[str, Any], name: str) -> int:
    value = plan.get(name)
    if type(value) is not int or value < 0:
        raise damaged(f"{name} is {value!r:.80}, no number")
    return value


def _split(numbers: IntArray, count: int) -> list[IntArray]:
    """Return where each of the numbers up to `count` is, in order."""
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    return np.split(order, ends[:-1]) if count else []


def _as_bytes(rows: AnyArray, count: int) -> AnyArray:
    """Return the bytes of the items of an array, uint8 (n, nbytes)."""
    return np.ascontiguousarray(rows).reshape(count, -1).view(np.uint8)


def _rows_of(table: AnyArray) -> list[bytes]:
    """Return the rows of a table of bytes."""
    data, nbytes = table.tobytes(), table.shape[1]
    if not nbytes:
        return [b""] * len(table)
    return [data[at : at + nbytes] for at in range(0, len(data), nbytes)]
