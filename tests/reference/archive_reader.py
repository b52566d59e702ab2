"""Reader of archives in plain Python, from docs/formats/archive.md alone."""

import struct
from typing import Any, NamedTuple

from xxhash import xxh3_64_digest

from . import array_reader
from .array_reader import CHECKSUMS, read_header, read_metadata, sha256
from .chunk_decoder import decode_chunk, unpack_header
from .refused import need

ARCHIVE = 0x10
MAX_NAME, MAX_BUNDLE = 4096, 32768


class Member(NamedTuple):
    """Place of a member, in its bundle if it has one, and its file."""

    place: dict[str, int]
    file: bytes


def read_archive(file: bytes) -> tuple[Any, dict[str, Member]]:
    """Return the attrs, and the members by name."""
    header = read_header(file, ARCHIVE)
    need(header.features == ARCHIVE, "unsupported", "not an archive")
    metadata, front = read_metadata(file, 64, 9)
    need(file[-40:-32] == b"BLPKARCH", "truncated", "no index")
    version, _, count, start, nbytes = struct.unpack("<HHIQQ", file[-32:-8])
    need(start + nbytes == len(file) and start >= front, "format", "the index is elsewhere")
    index = file[start:]
    need(xxh3_64_digest(index[:-8]) == index[-8:], "checksum", "index")
    need(version == 1, "unsupported", f"version {version} of the index")
    members: dict[str, Member] = {}
    at, end, nparts = 0, front, 0
    while at < len(index) - 40:
        magic, place, size, length, kind, digest = struct.unpack_from("<8sQQII8s", index, at)
        name = index[at + 40 : at + 40 + length]
        need(magic == b"BLPKMEMB" and length <= MAX_NAME, "format", "record")
        need(xxh3_64_digest(index[at : at + 32] + name) == digest, "checksum", "record")
        need(place == end, "format", "a gap, or members that overlap")
        need(kind in (0, 1), "unsupported", f"a record of kind {kind}")
        offset = place + 40 + length
        end, at, nparts = offset + size, at + 40 + length, nparts + 1
        part = file[offset:end]
        found = [(name, Member({"offset": offset}, part))]
        for each, member in read_bundle(name, part, offset) if kind else found:
            need(each.decode() not in members, "format", "two members of one name")
            members[each.decode()] = member
    need((nparts, end) == (count, start), "format", "another number of members")
    return metadata["attrs"], members


def read_bundle(directory: bytes, chunk: bytes, offset: int) -> list[tuple[bytes, Member]]:
    """Return the names and the members in a bundle."""
    need(len(directory) >= 12, "format", "directory")
    digest, total = struct.unpack_from("<8sI", directory)
    need(xxh3_64_digest(chunk) == digest, "checksum", "bundle")
    rows, files = decoded(directory[12:], MAX_NAME), decoded(chunk, MAX_BUNDLE)
    found, at, start = [], 0, 0
    while at < len(rows):
        need(at + 4 <= len(rows), "format", "directory")
        nbytes, length = struct.unpack_from("<HH", rows, at)
        at += 4 + length
        need(at <= len(rows), "format", "directory")
        file = files[start : start + nbytes]
        found.append((rows[at - length : at], Member({"offset": offset, "start": start}, file)))
        start += nbytes
    need(start == total == len(files), "format", "sizes of files")
    return found


def decoded(chunk: bytes, limit: int) -> bytes:
    """Return the content of a Blosc chunk."""
    need(unpack_header(chunk).nbytes <= limit, "format", "size of a chunk")
    return decode_chunk(chunk)


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
                **place,
                "nbytes": len(data),
                "sha256": sha256(data),
                "array": array_reader.describe(data)["array"],
            }
            for name, (place, data) in members.items()
        ],
    }
