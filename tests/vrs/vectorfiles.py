"""What the VRS vectors hold, for tests of single modules: definitions and payloads as bytes.

Places and sizes are those of the manifests; of the package, only payloads are decompressed here.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bloscpack.vrs.format import Compression
from bloscpack.vrs.payload import decode_payload

from ..conftest import VECTORS

FOLDER = VECTORS / "vrs"
NAMES = sorted(
    path.relative_to(FOLDER).with_suffix("").as_posix()
    for path in FOLDER.rglob("*.json")
    if path.name != "manifest.json"
)


@dataclass(frozen=True)
class MetadataBlock:
    """A metadata block of a record as the manifest has it, and its bytes with all after them."""

    where: str
    definition: str
    data: bytes
    nbytes: int
    values: list[list[Any]]


class VectorFile:
    """One recording and its manifest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.manifest: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))

    @cached_property
    def data(self) -> bytes:
        first = FOLDER / f"{self.name}.vrs"
        chunks = [first.read_bytes()]
        while len(chunks) < len(self.manifest["chunks"]):
            chunks.append(Path(f"{first}_{len(chunks)}").read_bytes())
        return b"".join(chunks)

    def definitions(self) -> Iterator[tuple[str, str, str]]:
        """Yield stream, tag and text of every layout definition."""
        for stream_id, stream in self.manifest["streams"].items():
            for tag, text in stream["vrs_tags"].items():
                if tag.startswith("DL:"):
                    yield stream_id, tag, text if isinstance(text, str) else _long_text(text)

    def payload(self, record: dict[str, Any]) -> bytes:
        start = record["offset"]
        stored = self.data[start + 32 : start + record["disk_size"]]
        compression = Compression[record["compression"].upper()]
        payload = bytes(decode_payload(stored, compression, record["payload_size"]))
        assert hashlib.sha256(payload).hexdigest() == record["payload_sha256"]
        return payload

    def metadata_blocks(self) -> Iterator[MetadataBlock]:
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
                # Only an unsupported block has no size, and no block after it.
                at += block["size"] or 0


def _long_text(digest: dict[str, Any]) -> str:
    """Find a text of which the manifest has the hash: in whatever file it lies uncompressed."""
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
