"""Import of records as columns: reads and cuts the records of one stream, type and version.

A *form* is the records of such a group whose payloads have the same parts: the fields of their
metadata, pixels of one size, coded images, samples, or plain bytes.
"""

from array import array
from collections.abc import Iterator
from typing import TypeAlias, cast

import numpy as np

from ...plugin import BytesLike, FrameStore, IntArray
from ..block.pixels import ImageSpec
from ..format.format import RecordType
from ..layout.datalayout import DataLayout
from ..read.content import Content
from ..read.record import Block, Record
from ..read.recordset import RecordSet
from .clipcolumns import (
    MAX_LABEL_LENGTH,
    Columns,
    FixedColumns,
    ImageColumn,
    IndexColumn,
    PixelColumn,
    Plan,
    RaggedColumn,
    item_of,
)
from .payloadsplit import RAW, Key, cut, fixed_layouts

# Limit of columns in a group, as each has an open file. Further forms are stored as bytes.
_MAX_COLUMNS = 256
_MAX_FORMS = 16
# Bytes of records that are cut together.
_BATCH_NBYTES = 1 << 20
_BATCH_RECORDS = 4096

_Batch: TypeAlias = list[tuple[int, float, bytes]]


class Form:
    """Records whose payloads have the same parts, during an import.

    `folder` is for temporary files; `blocks` are those of one of the records.
    """

    def __init__(self, folder: str, key: Key, blocks: tuple[Block, ...]) -> None:
        self.key = key
        self.rows = array("q")
        self.parts: list[tuple[int, Columns]] = []
        self.columns: list[Columns] = []
        if key == RAW:
            self._put(-1, RaggedColumn(folder, "payload", np.uint8))
        for number, (part, block) in enumerate(zip(key, blocks, strict=False)):
            if part[0] == "metadata":
                self._put_metadata(folder, number, cast(DataLayout, block.spec))
            elif part[0] == "pixels":
                self._put(number, PixelColumn(folder, cast(ImageSpec, block.spec)))
            elif part[0] == "images":
                self._put(number, ImageColumn(folder))
            elif part[0] == "samples":
                self._put(number, RaggedColumn(folder, "audio", part[1], (part[2],)))
            elif part[0] == "bytes":
                self._put(number, RaggedColumn(folder, block.kind, np.uint8))

    def _put(self, number: int, column: Columns) -> None:
        self.parts.append((number, column))
        self.columns.append(column)

    def _put_metadata(self, folder: str, number: int, layout: DataLayout) -> None:
        if layout.fixed_nbytes:
            self._put(number, FixedColumns(folder, layout))
        if layout.variable:
            pieces = [
                RaggedColumn(folder, key[:MAX_LABEL_LENGTH], *item_of(piece))
                for key, piece in layout.variable
            ]
            self.parts.append((number, IndexColumn(folder, pieces)))
            self.columns += pieces

    def add(self, row: int, parts: list[BytesLike]) -> None:
        """Add a record: its row, and the bytes for each column."""
        self.rows.append(row)
        for column, part in zip(self.columns, parts, strict=True):
            column.add(part)

    def append_to(self, store: FrameStore, prefix: str, headers: Plan) -> Plan:
        """Append all columns, and return the plan to rebuild the records."""
        nrows = len(self.rows)
        parts: list[Plan] = []
        for number, column in self.parts:
            where = prefix if number < 0 else f"{prefix}/{number}"
            parts += column.append_to(store, where, nrows)
        return {**headers, "prefix": prefix, "records": nrows, "parts": parts}

    def close(self) -> None:
        """Close and remove temporary files."""
        for column in self.columns:
            column.spool.close()


class GroupImport:
    """Import of the records of one stream, type and version into a store, open for appending."""

    def __init__(
        self, store: FrameStore, folder: str, content: Content, records: RecordSet, version: int
    ) -> None:
        self._store = store
        self._folder = folder
        self._content = content
        self._records = records
        self._version = version
        self._decoder = records.decoder(version)
        self._forms: dict[Key, Form] = {}
        stream_id = content.table.streams[records.ordinal]
        kind = RecordType(records.record_type).name.lower()
        self._label = f"{stream_id}/{kind}-{version}"
        self._plan: Plan = {"stream": str(stream_id), "type": kind, "version": version}

    def run(self, chosen: IntArray) -> Iterator[Plan | int]:
        """Read the records; yield the number of records done at intervals, and each plan of a form.

        `chosen` are the records of the stream and type that have the version.
        """
        rows = self._records.rows[chosen]
        self._compressions = dict(
            zip(rows.tolist(), self._records.headers.compressions[chosen].tolist(), strict=True)
        )
        fixed = fixed_layouts(self._decoder)
        try:
            batch: _Batch = []
            nbytes = 0
            for row, (*_, timestamp, payload) in self._content.reader.iter_records(rows):
                batch.append((row, timestamp, payload))
                nbytes += len(payload)
                if nbytes >= _BATCH_NBYTES or len(batch) >= _BATCH_RECORDS:
                    yield from self._take(batch, fixed)
                    batch, nbytes = [], 0
            yield from self._take(batch, fixed)
            for form in list(self._forms.values()):
                yield self._finish(form)
        finally:
            for form in self._forms.values():
                form.close()

    def _take(self, batch: _Batch, fixed: list[DataLayout] | None) -> Iterator[Plan | int]:
        if not batch:
            return
        if fixed is not None and self._take_fixed(batch, fixed):
            yield len(batch)
            return
        for row, timestamp, payload in batch:
            record = Record(self._decoder, timestamp, row, payload)
            key, blocks, parts = cut(record)
            form = self._forms.get(key) or self._open(key, blocks)
            form.add(row, parts if form.key == key else [payload])
        yield len(batch)

    def _take_fixed(self, batch: _Batch, layouts: list[DataLayout]) -> bool:
        """Take records whose payloads are only fields of fixed size; return whether they are."""
        total = sum(layout.fixed_nbytes for layout in layouts)
        if not total or any(len(payload) != total for _, _, payload in batch):
            return False
        key: Key = (("metadata",),) * len(layouts)
        form = self._forms.get(key)
        if form is None:
            row, timestamp, payload = batch[0]
            record = Record(self._decoder, timestamp, row, payload)
            form = self._open(key, record.blocks)
            if form.key != key:
                return False
        data = np.frombuffer(b"".join([payload for *_, payload in batch]), np.uint8)
        table, at = data.reshape(len(batch), total), 0
        form.rows.extend([row for row, *_ in batch])
        sizes = (layout.fixed_nbytes for layout in layouts if layout.fixed_nbytes)
        for column, nbytes in zip(form.columns, sizes, strict=True):
            column.add(table[:, at : at + nbytes].tobytes())
            at += nbytes
        return True

    def _open(self, key: Key, blocks: tuple[Block, ...]) -> Form:
        """Return the form for payloads of these blocks: a new one, or the form of bytes."""
        form = Form(self._folder, key, blocks)
        ncolumns = sum(len(each.columns) for each in self._forms.values()) + len(form.columns)
        if key != RAW and (ncolumns > _MAX_COLUMNS or len(self._forms) >= _MAX_FORMS):
            return self._forms.get(RAW) or self._open(RAW, ())
        self._forms[key] = form
        return form

    def _finish(self, form: Form) -> Plan:
        del self._forms[form.key]
        try:
            name = f"{self._label}.raw" if form.key == RAW else self._label
            prefix, number = name, 1
            while f"{prefix}/timestamp" in self._store:
                number += 1
                prefix = f"{name}.{number}"
            rows = np.frombuffer(form.rows, np.int64)
            table, store = self._content.table, self._store
            store.append(f"{prefix}/timestamp", table.timestamp[rows])
            store.append(f"{prefix}/order", table.position[rows])
            codes = [self._compressions[row] for row in form.rows]
            store.append(f"{prefix}/compression", np.array(codes, np.uint8))
            return form.append_to(store, prefix, self._plan)
        finally:
            form.close()
