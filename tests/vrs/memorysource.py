"""Recordings of a few records in memory, for tests of blocks: tags as text, payloads as bytes."""

from collections.abc import Mapping
from typing import Any

from bloscpack.vrs.format.format import RecordType
from bloscpack.vrs.layout.datalayout import DataLayout
from bloscpack.vrs.layout.pieces import Piece
from bloscpack.vrs.read.decoding import StreamDecoder
from bloscpack.vrs.read.record import Record

U8, U32, F64 = "DataPieceValue<uint8_t>", "DataPieceValue<uint32_t>", "DataPieceValue<double>"


def layout(**values: str) -> str:
    """Return a definition of pieces, given as label=type name."""
    pieces = [Piece(label, type_name) for label, type_name in values.items()]
    return DataLayout(pieces).to_json()


def encode(definition: str, **values: Any) -> bytes:
    return DataLayout.from_json(definition).encode(values)


class MemorySource:
    """Records of one stream: ``(record type, version, timestamp, payload)``."""

    def __init__(
        self, tags: Mapping[str, str], *records: tuple[RecordType, int, float, bytes]
    ) -> None:
        self.records = records
        self.tags = tags
        self.decoders: dict[tuple[RecordType, int], StreamDecoder] = {}
        self.nread = 0

    def __getitem__(self, index: int) -> Record:
        record_type, version, timestamp, _ = self.records[index]
        key = record_type, version
        if key not in self.decoders:
            self.decoders[key] = StreamDecoder("214-1", record_type, version, self.tags, self)
        return Record(self.decoders[key], timestamp, index)

    def read_payload(self, index: int) -> bytes:
        self.nread += 1
        return self.records[index][3]

    def _before(self, index: int, record_type: RecordType) -> Record | None:
        indexes = (i for i in range(index - 1, -1, -1) if self.records[i][0] == record_type)
        found = next(indexes, None)
        return None if found is None else self[found]

    def configuration_before(self, index: int) -> Record | None:
        return self._before(index, RecordType.CONFIGURATION)

    def data_before(self, index: int) -> Record | None:
        return self._before(index, RecordType.DATA)


def data_record(tags: Mapping[str, str], payload: bytes) -> Record:
    """Return a record of version 1, the only one of its stream."""
    return MemorySource(tags, (RecordType.DATA, 1, 1.0, payload))[0]


def formatted(text: str, payload: bytes, **layouts: str) -> Record:
    """Return a data record of format `text`; ``_0=`` is the definition of block 0."""
    tags = {f"DL:Data:1:{key[1:]}": value for key, value in layouts.items()}
    return data_record({"RF:Data:1": text, **tags}, payload)
