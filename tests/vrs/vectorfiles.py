"""Definitions and payloads in the VRS vectors as bytes, for tests of single modules.

Offsets and sizes are those of the manifests, see `manifests`. Package code only unpacks headers and
decompresses payloads.
"""

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from bloscpack.vrs.format.compression import decode_payload
from bloscpack.vrs.format.format import RECORD_HEADER_SIZE, FileHeader, RecordHeader

from . import manifests
from .manifests import FOLDER

NAMES = list(manifests.listed())


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
