"""Checksums: frozen ids, known answers, unknown names and ids."""

import hashlib
import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError, NoSuchChecksum, UnsupportedError
from bloscpack.format.checksum import (
    CHECKSUMS,
    LAST_V3_ID,
    Checksum,
    checksum_by_id,
    checksum_by_name,
)

from ..conftest import SMALL_VECTORS

# Stored on disk: entries are only added to this list.
FROZEN = [
    (0, "None", 0),
    (1, "adler32", 4),
    (2, "crc32", 4),
    (3, "md5", 16),
    (4, "sha1", 20),
    (5, "sha224", 28),
    (6, "sha256", 32),
    (7, "sha384", 48),
    (8, "sha512", 64),
    (9, "xxh3_64", 8),
    (10, "xxh3_128", 16),
]
KNOWN: list[dict[str, Any]] = json.loads((SMALL_VECTORS / "checksums.json").read_text("utf-8"))
each_row = pytest.mark.parametrize("row", CHECKSUMS, ids=lambda row: row.name)


def sanity_buffer(length: int) -> bytes:
    """Return the start of xxHash's test buffer (cli/xsum_sanity_check.c, XSUM_fillTestBuffer)."""
    result, generator = bytearray(), 2654435761
    for _ in range(length):
        result.append(generator >> 56)
        generator = generator * 11400714785074694797 % 2**64
    return bytes(result)


def test_ids_names_and_sizes_are_frozen() -> None:
    assert [(row.id, row.name, row.nbytes) for row in CHECKSUMS] == FROZEN
    assert LAST_V3_ID == 8


def test_every_row_has_known_answers() -> None:
    assert {answer["name"] for answer in KNOWN} == {row.name for row in CHECKSUMS}
    assert all(answer["source"] for answer in KNOWN)


@pytest.mark.parametrize(
    "answer", KNOWN, ids=lambda a: f"{a['name']}-{a.get('ascii', a.get('xxhash_sanity_buffer'))}"
)
def test_known_answer(answer: dict[str, Any]) -> None:
    if "ascii" in answer:
        data = answer["ascii"].encode("ascii")
    else:
        data = sanity_buffer(answer["xxhash_sanity_buffer"])
    if "number" in answer:
        expected = struct.pack("<I", int(answer["number"], 16))
    else:
        expected = bytes.fromhex(answer["digest"])
    assert checksum_by_name(answer["name"]).digest(data) == expected


@each_row
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_and_the_right_size(row: Checksum, kind: type[bytes]) -> None:
    digest = row.digest(kind(b"some bytes"))
    assert type(digest) is bytes
    assert len(digest) == row.nbytes
    assert digest == row.digest(memoryview(b"..some bytes..")[2:-2])


@given(st.binary(max_size=5000), st.integers(0, 100))
def test_fast_sums_are_the_plain_ones(data: bytes, repeat: int) -> None:
    data *= repeat
    assert checksum_by_name("adler32").digest(data) == struct.pack("<I", zlib.adler32(data))
    assert checksum_by_name("crc32").digest(data) == struct.pack("<I", zlib.crc32(data))
    assert checksum_by_name("sha256").digest(data) == hashlib.sha256(data).digest()


@each_row
def test_lookups_agree(row: Checksum) -> None:
    assert checksum_by_id(row.id) is row
    assert checksum_by_name(row.name) is row


def test_without_a_name_there_is_no_checksum() -> None:
    assert checksum_by_name(None) is CHECKSUMS[0]


@pytest.mark.parametrize("name", ["", "none", "CRC32", "crc64", "sha3_256"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(NoSuchChecksum, match="adler32") as caught:
        checksum_by_name(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("number", [len(CHECKSUMS), 127])
def test_unassigned_ids_are_damage(number: int) -> None:
    with pytest.raises(FormatError, match=str(number)):
        checksum_by_id(number)


@pytest.mark.parametrize("number", [128, 255])
def test_private_ids_are_unsupported(number: int) -> None:
    with pytest.raises(UnsupportedError, match="private"):
        checksum_by_id(number)
