"""Valid arrays and bytes to be damaged, and their content."""

import hashlib
import json
import sys
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from array_vectors import plan_fields
from mutation import Layout

import bloscpack as bp
from bloscpack.format.arraychunk import ArrayChunkHead
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.codec import ARRAY_CHUNK_VERSION
from bloscpack.format.header import FEATURE_ARRAY_CHUNKS, FEATURE_GRID, FEATURE_LOG

# Importable from a test run and from the worker.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conftest import SMALL_VECTORS, ReferenceFolder

# Most cases use small files, which are read in microseconds and have every field of large ones.
SMALL_NBYTES = 4096
ADLER32 = 1
FILES = ReferenceFolder("bloscpack")
CONFORMANCE = SMALL_VECTORS.parent / "conformance"


@dataclass(frozen=True)
class Vector:
    """File of the original or of the conformance set.

    `is_sealed` and `is_meta_sealed`: whether a checksum covers its chunks and its metadata.
    """

    name: str
    data: bytes
    payload_sha256: str
    metadata: Any
    is_sealed: bool
    is_meta_sealed: bool
    layout: Layout
    features: int = 0

    @property
    def is_small(self) -> bool:
        return len(self.data) <= SMALL_NBYTES

    @property
    def has_grid(self) -> bool:
        """Whether the chunks form a grid, so that 0.16's functions for bytes refuse the file."""
        return bool(self.features & FEATURE_GRID)

    @property
    def has_array_chunks(self) -> bool:
        return bool(self.features & FEATURE_ARRAY_CHUNKS)

    def checksum_id(self, data: bytes) -> int:
        """Return the id of the checksum that `data`, this file or damaged, declares for chunks."""
        return int.from_bytes(data[38:39] if data[4:5] == b"\4" else data[6:7])

    def is_blind_to(self, damaged: bytes) -> bool:
        """Return whether the checksum cannot detect the damage.

        Swapping two runs of bytes with the same sum does not change adler32.
        """
        if self.checksum_id(self.data) != ADLER32:
            return False
        for offset, cbytes in self.layout.chunks:
            one, two = self.data[offset : offset + cbytes], damaged[offset : offset + cbytes]
            if one != two and zlib.adler32(one) == zlib.adler32(two):
                return True
        return False

    @cached_property
    def payload(self) -> bytes:
        if self.has_grid:
            with bp.open(self.data) as array:
                payload, metadata = b"".join(array.iter_chunks()), array._container.metadata
        else:
            payload, metadata = bp.unpack_bytes_from_bytes(self.data)
        assert hashlib.sha256(payload).hexdigest() == self.payload_sha256, self.name
        assert metadata == self.metadata, self.name
        return payload

    @cached_property
    def array(self) -> np.ndarray[Any, Any]:
        """Result of `bloscpack.load`; bytes as uint8."""
        return bp.load(self.data)

    @cached_property
    def fields(self) -> list[tuple[int, int]]:
        found = self.layout.fields()
        for offset, cbytes in self.layout.chunks:
            if self.data[offset] == ARRAY_CHUNK_VERSION:
                plan = ArrayChunkHead.unpack(self.data[offset : offset + cbytes]).plan
                found += [(offset + at, size) for at, size in plan_fields(plan)]
        return [field for field in found if sum(field) <= len(self.data)]


def load_vectors() -> list[Vector]:
    """Return the valid files of the conformance set, and those of the original if available."""
    twins = [json.loads(path.read_text("utf-8")) for path in sorted(CONFORMANCE.glob("*.json"))]
    found = [_conforming(twin) for twin in twins if twin["kind"] in ("array", "bytes")]
    if FILES:
        manifest = json.loads((FILES / "manifest.json").read_text("utf-8"))
        found += [_vector(FILES.path, entry) for entry in manifest["vectors"]]
    return found


def _conforming(twin: dict[str, Any]) -> Vector:
    data = (CONFORMANCE / twin["file"]).read_bytes()
    version = twin["header"]["format_version"]
    header_nbytes = {1: 16, 4: 64}.get(version, 32)
    start, offsets = header_nbytes, twin["offsets"] or ()
    features = int.from_bytes(data[40:44], "little") if version == 4 else 0
    is_log = features & FEATURE_LOG
    if is_log and "chunks" in twin["metadata"]:
        features |= FEATURE_GRID  # its own header is in the node
    # That of a log has the digest of the node.
    has_metadata = twin["metadata"] is not None and not is_log
    if has_metadata:
        checksum = data[start + 9]
        reserved = int.from_bytes(data[start + 16 : start + 20], "little")
        start += 32 + reserved + CHECKSUMS[checksum].nbytes
    return Vector(
        name=twin["file"].removesuffix(".blp"),
        data=data,
        payload_sha256=twin["content"]["sha256"],
        metadata=twin["metadata"],
        is_sealed=twin["header"]["checksum"] != "None",
        is_meta_sealed=not has_metadata or checksum != 0,
        layout=Layout(
            chunks=tuple((chunk["offset"], chunk["cbytes"]) for chunk in twin["chunks"]),
            offsets=(start, len(offsets)),
            metadata=header_nbytes if has_metadata else None,
            header_nbytes=header_nbytes,
        ),
        features=features,
    )


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
        is_sealed=header["checksum"] != "None",
        is_meta_sealed=meta is None or meta["meta_checksum"] != "None",
        layout=Layout(
            chunks=tuple((chunk[0], chunk[1]) for chunk in entry["chunks"]),
            offsets=(start, header["nchunks"] if header["offsets"] else 0),
            metadata=None if meta is None else 32,
        ),
    )
