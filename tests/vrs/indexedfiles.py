"""The vectors as the tests of descriptions and indexes need them: manifest and joined bytes."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import zstandard

from bloscpack.vrs.format import RECORD_HEADER_SIZE, Compression, FileHeader, RecordHeader

from ..conftest import VECTORS

FOLDER = VECTORS / "vrs"
MANIFESTS = sorted(
    path
    for path in (*FOLDER.glob("*.json"), *FOLDER.glob("upstream/*.json"))
    if path.stem != "manifest"
)
NAMES = [path.stem for path in MANIFESTS]


@dataclass(frozen=True)
class IndexedFile:
    """A vector, its chunks put together."""

    manifest: dict[str, Any]
    chunks: tuple[bytes, ...]

    @classmethod
    def load(cls, name: str) -> "IndexedFile":
        path = next(path for path in MANIFESTS if path.stem == name)
        manifest = json.loads(path.read_text("utf-8"))
        first = path.with_suffix(".vrs")
        more = [Path(f"{first}_{i}") for i in range(1, len(manifest["chunks"]))]
        return cls(manifest, tuple(part.read_bytes() for part in (first, *more)))

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
        """Return the decoded payloads of all records of a type, by going from one to the next."""
        found, offset = [], self.header.file_header_size
        while offset < len(self.data):
            header, payload = self.record(offset)
            if header.record_type == record_type:
                if header.compression == Compression.ZSTD:
                    payload = zstandard.ZstdDecompressor().decompress(payload)
                found.append(payload)
            offset += header.size
        return found


def is_tag(text: str, expected: object) -> bool:
    """Return whether a tag is the one of the manifest, where long ones are digests."""
    if not isinstance(expected, dict):
        return text == expected
    if "$hex" in expected:
        return text.encode("utf-8", "surrogateescape").hex() == expected["$hex"]
    digest = hashlib.sha256(json.dumps(text).encode()).hexdigest()
    return len(text) == expected["$len"] and digest == expected["$sha256_of_json"]
