"""Valid files to be damaged, and their content."""

import hashlib
import json
import sys
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from mutation import Layout

import bloscpack as bp
from bloscpack.exceptions import UnsupportedError

# Importable from a test run and from the worker.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conftest import ReferenceFolder

# Most cases use small files, which are read in microseconds and have every field of large ones.
SMALL_NBYTES = 4096
ADLER32 = 1
FILES = ReferenceFolder("bloscpack")


@dataclass(frozen=True)
class Vector:
    """File of the original.

    `is_sealed` and `is_meta_sealed`: whether a checksum covers its chunks and its metadata.
    """

    name: str
    data: bytes
    payload_sha256: str
    metadata: Any
    is_array: bool
    is_sealed: bool
    is_meta_sealed: bool
    layout: Layout

    @property
    def is_small(self) -> bool:
        return len(self.data) <= SMALL_NBYTES

    def is_blind_to(self, damaged: bytes) -> bool:
        """Return whether the checksum cannot detect the damage.

        Swapping two runs of bytes with the same sum does not change adler32.
        """
        if self.data[6] != ADLER32:
            return False
        for offset, cbytes in self.layout.chunks:
            one, two = self.data[offset : offset + cbytes], damaged[offset : offset + cbytes]
            if one != two and zlib.adler32(one) == zlib.adler32(two):
                return True
        return False

    @cached_property
    def payload(self) -> bytes | None:
        """Content; None if this build of C-Blosc lacks the codec."""
        try:
            payload, metadata = bp.unpack_bytes_from_bytes(self.data)
        except UnsupportedError:
            return None
        assert hashlib.sha256(payload).hexdigest() == self.payload_sha256, self.name
        assert metadata == self.metadata, self.name
        return payload

    @cached_property
    def array(self) -> np.ndarray[Any, Any] | None:
        """Result of `bloscpack.load`; bytes as uint8."""
        return None if self.payload is None else bp.load(self.data)

    @cached_property
    def fields(self) -> list[tuple[int, int]]:
        return [field for field in self.layout.fields() if sum(field) <= len(self.data)]


def load_vectors() -> list[Vector]:
    manifest = json.loads((FILES / "manifest.json").read_text("utf-8"))
    found = [_vector(FILES.path, entry) for entry in manifest["vectors"]]
    return found + [_legacy(FILES.path, entry) for entry in manifest["malformed"]]


def _vector(folder: Path, entry: dict[str, Any]) -> Vector:
    header, meta = entry["header"], entry["metadata_header"]
    start = 32
    if meta is not None:
        nbytes = {"None": 0, "adler32": 4, "crc32": 4, "md5": 16, "sha1": 20}
        nbytes |= {"sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}
        start += 32 + meta["max_meta_size"] + nbytes[meta["meta_checksum"]]
    return Vector(
        name=entry["name"],
        data=(folder / entry["file"]).read_bytes(),
        payload_sha256=entry["payload"]["sha256"],
        metadata=entry["metadata"],
        is_array=entry["kind"] == "ndarray",
        is_sealed=header["checksum"] != "None",
        is_meta_sealed=meta is None or meta["meta_checksum"] != "None",
        layout=Layout(
            chunks=tuple((chunk[0], chunk[1]) for chunk in entry["chunks"]),
            offsets=(start, header["nchunks"] if header["offsets"] else 0),
            metadata=None if meta is None else 32,
        ),
    )


def _legacy(folder: Path, entry: dict[str, Any]) -> Vector:
    data = (folder / entry["file"]).read_bytes()
    is_sealed = entry["format_version"] == 2 and data[6] != 0
    first = 16 if entry["format_version"] == 1 else 32
    return Vector(
        name=entry["name"],
        data=data,
        payload_sha256=entry["original"]["sha256"],
        metadata=None,
        is_array=False,
        is_sealed=is_sealed,
        is_meta_sealed=True,
        layout=Layout(chunks=((first, 16),), offsets=(32, 0), metadata=None),
    )
