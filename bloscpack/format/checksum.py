"""Table of checksums: on-disk id, name, digest size and function.

Ids 0 to 8 are those of bloscpack 0.16 and frozen. Higher ids need format version 4, as a reader
of version 3 would fail on them. The ids are stored on disk: never renumber or reuse them. 128 to
255 are private and never written by us. To add a checksum, add a row.

Digests are represented by their stored bytes: adler32 and crc32 as little-endian u32, the hashes in
their own byte order, XXH3 in its canonical (big-endian) form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import xxhash
from zlib_ng.zlib_ng import adler32, crc32  # 20 times as fast as those of zlib

from ..exceptions import FormatError, NoSuchChecksum, UnsupportedError
from ..parallel.imports import importing
from ..types import BytesLike

Digest = Callable[[BytesLike], bytes]

# Largest id that a reader of format version 3 knows.
LAST_V3_ID = 8


@dataclass(frozen=True, slots=True)
class Checksum:
    """Row of the table."""

    id: int  # stored on disk
    name: str  # as in bloscpack 0.16, ``"None"`` for no checksum
    nbytes: int  # size of the digest in bytes
    digest: Digest  # function from a buffer to the stored bytes of its digest

    def __reduce__(self) -> tuple[Callable[[int], "Checksum"], tuple[int]]:
        """Pickle as the id, because the function cannot be pickled."""
        return checksum_by_id, (self.id,)


def _none(data: BytesLike) -> bytes:
    return b""


def _adler32(data: BytesLike) -> bytes:
    return adler32(data).to_bytes(4, "little")


def _crc32(data: BytesLike) -> bytes:
    return crc32(data).to_bytes(4, "little")


@cache
def _import_hashlib() -> Any:
    """Return hashlib, on use: OpenSSL takes 3 ms to load, and few files need it."""
    with importing:  # threads compare checksums while the process may fork
        import hashlib
    return hashlib


def _hashlib(name: str) -> Digest:
    def digest(data: BytesLike) -> bytes:
        # The flag, as systems in FIPS mode refuse md5 otherwise.
        found: bytes = _import_hashlib().new(name, data, usedforsecurity=False).digest()
        return found

    return digest


CHECKSUMS = (
    Checksum(0, "None", 0, _none),
    Checksum(1, "adler32", 4, _adler32),
    Checksum(2, "crc32", 4, _crc32),
    Checksum(3, "md5", 16, _hashlib("md5")),
    Checksum(4, "sha1", 20, _hashlib("sha1")),
    Checksum(5, "sha224", 28, _hashlib("sha224")),
    Checksum(6, "sha256", 32, _hashlib("sha256")),
    Checksum(7, "sha384", 48, _hashlib("sha384")),
    Checksum(8, "sha512", 64, _hashlib("sha512")),
    Checksum(9, "xxh3_64", 8, xxhash.xxh3_64_digest),
    Checksum(10, "xxh3_128", 16, xxhash.xxh3_128_digest),
)

_BY_NAME = {row.name: row for row in CHECKSUMS}


def checksum_by_id(id_: int) -> Checksum:
    """Return the row of an id from a file.

    Raises
    ------
    FormatError
        The id is not assigned.
    UnsupportedError
        The id is private (128 to 255).
    """
    if id_ < len(CHECKSUMS):
        return CHECKSUMS[id_]
    if id_ >= 128:
        raise UnsupportedError(f"checksum: id {id_} is private to another program")
    raise FormatError(f"checksum: id {id_} is not assigned", field="checksum")


def checksum_by_name(name: str | None) -> Checksum:
    """Return the row of a name; None means ``"None"``.

    Raises
    ------
    NoSuchChecksum
        No row has this name.
    """
    row = _BY_NAME.get("None" if name is None else name)
    if row is None:
        raise NoSuchChecksum(f"checksum {name!r} does not exist; choose from {', '.join(_BY_NAME)}")
    return row
