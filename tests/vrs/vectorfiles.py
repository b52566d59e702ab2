"""Definitions and payloads in the VRS vectors as bytes, for tests of single modules.

Offsets and sizes are those of the manifests, see `manifests`. Package code only unpacks headers and
decompresses payloads.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bloscpack.vrs.format.format import RECORD_HEADER_SIZE, Compression, FileHeader, RecordHeader
from bloscpack.vrs.format.payload import decode_payload

from . import manifests
from .manifests import FOLDER

NAMES = list(manifests.listed())


@dataclass(frozen=True)
class MetadataBlock:
    """A metadata block in the manifest, and its bytes with all following ones."""

    where: str
    definition: str
    data: bytes
    nbytes: int
    values: list[list[Any]]


class VectorFile:
    """One recording and its manifest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.manifest: dict[str, Any] = manifests.load(name)

    @cached_property
    def chunks(self) -> list[bytes]:
        first = FOLDER / f"{self.name}.vrs"
        more = [Path(f"{first}_{i}") for i in range(1, len(self.manifest["chunks"]))]
        return [path.read_bytes() for path in (first, *more)]

    @cached_property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    @cached_property
    def header(self) -> FileHeader:
        return FileHeader.unpack(self.data)

    def record(self, offset: int) -> tuple[RecordHeader, bytes]:
        """Return the header and the stored payload of a record."""
        header = RecordHeader.unpack(self.data, offset)
        return header, self.data[offset + RECORD_HEADER_SIZE : offset + header.size]

    def payloads_of_type(self, record_type: int) -> list[bytes]:
        """Return the decoded payloads of all records of a type, found from one to the next."""
        found, offset = [], self.header.file_header_size
        while offset < len(self.data):
            header, stored = self.record(offset)
            if header.record_type == record_type:
                nbytes = header.uncompressed_size or len(stored)
                found.append(bytes(decode_payload(stored, header.compression, nbytes)))
            offset += header.size
        return found

    def definitions(self) -> Iterator[tuple[str, str, str]]:
        """Yield stream, tag and text of every layout definition."""
        for stream_id, stream in self.manifest["streams"].items():
            for tag, text in stream["vrs_tags"].items():
                if tag.startswith("DL:"):
                    yield stream_id, tag, text if isinstance(text, str) else _long_text(text)

    def payload(self, record: dict[str, Any]) -> bytes:
        """Return the decoded payload of a record of the manifest."""
        start = record["offset"]
        stored = self.data[start + RECORD_HEADER_SIZE : start + record["disk_size"]]
        compression = Compression[record["compression"].upper()]
        payload = bytes(decode_payload(stored, compression, record["payload_size"]))
        assert hashlib.sha256(payload).hexdigest() == record["payload_sha256"]
        return payload

    def metadata_blocks(self) -> Iterator[MetadataBlock]:
        """Yield the metadata blocks of all records that the manifest lists."""
        texts = {(stream, tag): text for stream, tag, text in self.definitions()}
        for record in self.manifest["records"]:
            if all(block["kind"] != "metadata" for block in record["blocks"]):
                continue
            payload, at = self.payload(record), 0
            for index, block in enumerate(record["blocks"]):
                if block["kind"] == "metadata":
                    tag = f"DL:{record['type'].title()}:{record['format_version']}:{index}"
                    yield MetadataBlock(
                        f"{self.name}, record at {record['offset']}, block {index}",
                        texts[record["stream_id"], tag],
                        payload[at:],
                        block["size"],
                        block["values"],
                    )
                # Only an unsupported block has no size, and it is the last one.
                at += block["size"] or 0


def is_tag(text: str, expected: object) -> bool:
    """Return whether a tag equals the manifest's, which has digests of long tags."""
    if not isinstance(expected, dict):
        return text == expected
    if "$hex" in expected:
        return text.encode("utf-8", "surrogateescape").hex() == expected["$hex"]
    return len(text) == expected["$len"] and text == manifests.Digest(expected["$sha256_of_json"])


def _long_text(digest: dict[str, Any]) -> str:
    """Find the text for a hash in the manifest: it is uncompressed in one of the files."""
    for path in ("cxx_all_pieces", "cpy_types", "enc_types"):
        data = (FOLDER / f"{path}.vrs").read_bytes()
        start = data.find(b'{"data_layout"')
        while start >= 0:
            end = start + int.from_bytes(data[start - 4 : start], "little")
            text = data[start:end].decode("utf-8", "replace")
            if hashlib.sha256(json.dumps(text).encode()).hexdigest() == digest["$sha256_of_json"]:
                return text
            start = data.find(b'{"data_layout"', start + 1)
    raise LookupError(digest)
