"""Records made from a manifest, for tests of blocks without a reader of files."""

from collections.abc import Iterator
from typing import Any

from bloscpack.vrs.decoding import StreamDecoder
from bloscpack.vrs.format import RECORD_HEADER_SIZE, Compression, RecordHeader, RecordType
from bloscpack.vrs.payload import decode_payload
from bloscpack.vrs.record import Record

from .vectorfiles import VectorFile


class ManifestSource:
    """The records that a manifest lists, in its order; behind them, all configuration records."""

    def __init__(self, name: str) -> None:
        self.file = VectorFile(name)
        self.listed: list[dict[str, Any]] = self.file.manifest["records"]
        # A manifest that lists some records only may leave out the configuration of one.
        self.entries = self.listed + list(self._configurations())
        definitions = {(stream, tag): text for stream, tag, text in self.file.definitions()}
        self.tags = {
            stream_id: {
                tag: definitions.get((stream_id, tag), text)
                for tag, text in stream["vrs_tags"].items()
            }
            for stream_id, stream in self.file.manifest["streams"].items()
        }
        self.decoders: dict[tuple[str, str, int], StreamDecoder] = {}
        self.npayloads = 0

    def __len__(self) -> int:
        return len(self.listed)

    def __iter__(self) -> Iterator[Record]:
        return map(self.__getitem__, range(len(self)))

    def _configurations(self) -> Iterator[dict[str, Any]]:
        at = self.file.manifest["file_header_size"]
        while at + RECORD_HEADER_SIZE <= len(self.file.data):
            header = RecordHeader.unpack(self.file.data, at)
            if header.size < RECORD_HEADER_SIZE:
                break
            if header.record_type == RecordType.CONFIGURATION:
                yield {
                    "stream_id": str(header.stream_id),
                    "type": "configuration",
                    "timestamp": header.timestamp,
                    "format_version": header.format_version,
                    "offset": at,
                    "disk_size": header.size,
                    "compression": Compression(header.compression).name.lower(),
                    "payload_size": header.payload_nbytes,
                }
            at += header.size

    def __getitem__(self, index: int) -> Record:
        entry = self.entries[index]
        key = entry["stream_id"], entry["type"], entry["format_version"]
        if key not in self.decoders:
            record_type = RecordType[entry["type"].upper()]
            self.decoders[key] = StreamDecoder(
                entry["stream_id"], record_type, key[2], self.tags[entry["stream_id"]], self
            )
        timestamp = entry["timestamp"]
        timestamp = float(timestamp["$f"]) if isinstance(timestamp, dict) else timestamp
        return Record(self.decoders[key], timestamp, index)

    def read_payload(self, index: int) -> bytes:
        self.npayloads += 1
        entry = self.entries[index]
        start = entry["offset"]
        stored = self.file.data[start + 32 : start + entry["disk_size"]]
        compression = Compression[entry["compression"].upper()]
        return bytes(decode_payload(stored, compression, entry["payload_size"]))

    def configuration_before(self, index: int) -> Record | None:
        entry = self.entries[index]
        found = None
        for i in range(len(self), len(self.entries)):
            other = self.entries[i]
            if other["stream_id"] == entry["stream_id"] and when(other) <= when(entry):
                found = i if found is None or when(other) >= when(self.entries[found]) else found
        return None if found is None else self[found]

    def data_before(self, index: int) -> Record | None:
        stream_id = self.entries[index]["stream_id"]
        for i in range(index - 1, -1, -1):
            if (self.entries[i]["stream_id"], self.entries[i]["type"]) == (stream_id, "data"):
                return self[i]
        return None


def when(entry: dict[str, Any]) -> tuple[float, int]:
    return entry["timestamp"], entry["offset"]
