"""Reader of archives in plain Python, from docs/formats/archive.md alone."""

import struct
from typing import Any

from xxhash import xxh3_64_digest

from . import array_reader
from .array_reader import CHECKSUMS, read_header, read_metadata, sha256
from .refused import need

ARCHIVE = 0x10


def read_archive(file: bytes) -> tuple[Any, dict[str, tuple[int, bytes]]]:
    """Return the attrs, and of each member its offset and the bytes of its file, by name."""
    header = read_header(file, ARCHIVE)
    need(header.features == ARCHIVE, "unsupported", "not an archive")
    metadata, front = read_metadata(file, 64, 9)
    need(file[-40:-32] == b"BLPKARCH", "truncated", "no index")
    version, _, count, start, nbytes = struct.unpack("<HHIQQ", file[-32:-8])
    need(start + nbytes == len(file) and start >= front, "format", "the index is elsewhere")
    index = file[start:]
    need(xxh3_64_digest(index[:-8]) == index[-8:], "checksum", "index")
    need(version == 1, "unsupported", f"version {version} of the index")
    members: dict[str, tuple[int, bytes]] = {}
    at, end = 0, front
    while at < len(index) - 40:
        magic, place, size, length, _, digest = struct.unpack_from("<8sQQII8s", index, at)
        name = index[at + 40 : at + 40 + length]
        need(magic == b"BLPKMEMB" and length <= 4096, "format", "record")
        need(xxh3_64_digest(index[at : at + 32] + name) == digest, "checksum", "record")
        need(place == end, "format", "a gap, or members that overlap")
        offset = place + 40 + length
        end, at = offset + size, at + 40 + length
        need(name.decode() not in members, "format", "two members of one name")
        members[name.decode()] = offset, file[offset:end]
    need((len(members), end) == (count, start), "format", "another number of members")
    return metadata["attrs"], members


def describe(file: bytes) -> dict[str, Any]:
    """Return everything that a reader must find in an archive."""
    attrs, members = read_archive(file)
    header = read_header(file, ARCHIVE)
    return {
        "kind": "archive",
        "header": {
            "format_version": header.version,
            "checksum": CHECKSUMS[header.checksum],
            "features": header.features,
        },
        "attrs": attrs,
        "members": [
            {
                "name": name,
                "offset": offset,
                "nbytes": len(data),
                "sha256": sha256(data),
                "array": array_reader.describe(data)["array"],
            }
            for name, (offset, data) in members.items()
        ],
    }
