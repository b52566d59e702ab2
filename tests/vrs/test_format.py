"""File header and record header, compared with bytes written by hand."""

from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs.format.format import (
    RECORD_HEADER_DTYPE,
    Compression,
    FileHeader,
    RecordHeader,
    RecordType,
    StreamId,
    normal_type_id,
    normal_type_ids,
)
from bloscpack.vrs.format.typenames import TYPE_NAMES, type_name

FILE_HEADER = (
    b"VisionRe"
    + (0x1122334455667788).to_bytes(8, "little")
    + bytes((80, 0, 0, 0, 32, 0, 0, 0))
    + (1100).to_bytes(8, "little")
    + (80).to_bytes(8, "little")
    + (839).to_bytes(8, "little")
    + bytes(24)
    + b"cordVRS2"
)
RECORD_HEADER = (
    bytes.fromhex("44000000 39000000 f1000000 07000000")
    + bytes.fromhex("000000000000f83f")
    + bytes.fromhex("0300 03 02 f4010000")
)


def replaced(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def test_file_header_both_ways() -> None:
    header = FileHeader(
        0x1122334455667788, index_offset=1100, first_record_offset=839, version="VRS2"
    )
    assert FileHeader.unpack(FILE_HEADER + b"trailing") == header
    assert header.pack() == FILE_HEADER
    longer = header._replace(file_header_size=100)
    assert FileHeader.unpack(longer.pack()) == longer
    assert len(longer.pack()) == 100


def test_every_prefix_of_a_file_header_is_truncated() -> None:
    for nbytes in range(len(FILE_HEADER)):
        with pytest.raises(TruncatedError, match=f"{nbytes} of 80 bytes"):
            FileHeader.unpack(FILE_HEADER[:nbytes])


@pytest.mark.parametrize(
    ("at", "new", "message"),
    [
        (0, b"X", "it starts with b'XisionRe'"),
        (7, b"X", "not a VRS file"),
        (72, b"C", "b'Cord' instead of b'cord' at byte 72"),
        (16, b"\x4f", "a file header of 79 bytes"),
        (16, b"\x19\x01", "a file header of 281 bytes"),
        (20, b"\x1f", "record headers of 31 bytes"),
        (20, b"\xe9", "record headers of 233 bytes"),
    ],
)
def test_bytes_that_are_not_a_file_header(at: int, new: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        FileHeader.unpack(replaced(FILE_HEADER, at, new))


@pytest.mark.parametrize(
    ("at", "new", "message"),
    [
        (76, b"VRS4", "'VRS4'"),
        (76, b"\xff\xfe\0\0", "this release reads VRS1, VRS2, VRS3"),
        (20, b"\x28", "record headers of 40 bytes at byte 20"),
    ],
)
def test_file_headers_of_the_future(at: int, new: bytes, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        FileHeader.unpack(replaced(FILE_HEADER, at, new))


def test_record_header_both_ways() -> None:
    header = RecordHeader(68, 57, StreamId(241, 3), 7, 1.5, RecordType.DATA, Compression.ZSTD, 500)
    assert RecordHeader.unpack(b"ab" + RECORD_HEADER + b"trailing", 2) == header
    assert header.pack() == RECORD_HEADER
    for nbytes in range(len(RECORD_HEADER)):
        with pytest.raises(TruncatedError, match=f"{nbytes} of 32 bytes"):
            RecordHeader.unpack(RECORD_HEADER[:nbytes])


def test_record_headers_as_an_array() -> None:
    row = np.frombuffer(RECORD_HEADER, RECORD_HEADER_DTYPE)[0]
    assert row.item() == (68, 57, 241, 7, 1.5, 3, 3, 2, 500)


def test_a_number_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="record header"):
        RecordHeader(1 << 32, 0, StreamId(1, 1), 1, 0.0, 3).pack()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"size": 31}, "size"),
        ({"previous_size": 31}, "previous_size"),
        ({"previous_size": 1}, "previous_size"),
        ({"record_type": 0}, "record_type"),
        ({"record_type": 5}, "record_type"),
        ({"compression": 3}, "compression"),
        # Largest compressed payloads, for uncompressed sizes below 200 bytes and from 200 on.
        ({"uncompressed_size": 100, "size": 32 + 150}, "uncompressed_size"),
        ({"uncompressed_size": 199, "size": 32 + 298}, "uncompressed_size"),
        ({"uncompressed_size": 200, "size": 32 + 300}, "uncompressed_size"),
        ({"uncompressed_size": 4000, "size": 32 + 4200}, "uncompressed_size"),
    ],
)
def test_headers_that_cannot_be(changes: dict[str, Any], field: str) -> None:
    header = RecordHeader(68, 57, StreamId(241, 1), 1, 0.0, 3)._replace(**changes)
    with pytest.raises(FormatError, match="record at byte 1234") as caught:
        header.check(1234)
    assert (caught.value.offset, caught.value.field) == (1234, field)
    if field == "uncompressed_size":
        header._replace(size=header.size - 1).check(0)
        header._replace(stream_id=StreamId(1, 1)).check(0)  # an index may have slack


def test_the_least_header() -> None:
    RecordHeader(32, 0, StreamId(0, 0), 0, float("nan"), 1).check(0)
    RecordHeader(32, 32, StreamId(65535, 65535), 0, 0.0, 4).check(0)


def test_stream_ids() -> None:
    assert str(StreamId(1201, 1)) == "1201-1"
    assert StreamId.parse("1201-1") == (1201, 1)
    assert StreamId.parse("65535-0") == (65535, 0)
    assert sorted([StreamId(241, 1), StreamId(30, 2)]) == [(30, 2), (241, 1)]
    for text in (
        "1201",
        "1201-",
        "-1",
        "1201-1 ",
        "1201+1",
        "65536-1",
        "1-65536",
        "\u0661-1",
        "1-1\n",
    ):
        with pytest.raises(ValueError, match="expected TYPE-INSTANCE"):
            StreamId.parse(text)


def test_legacy_type_ids() -> None:
    pairs = {0: 0, 241: 241, 65535: 65535, 99999: 34463, 100000: 65500, 100002: 65502, -1: 65535}
    for stored, expected in pairs.items():
        assert normal_type_id(stored) == expected
        assert StreamId.from_stored(stored, 7) == (expected, 7)
    found = normal_type_ids(np.array(list(pairs), np.int32))
    assert found.tolist() == list(pairs.values())


def test_type_names() -> None:
    assert type_name(241) == "IMU Data Class"
    assert type_name(7) == "<Unknown device type '7'>"
    assert all(0 < type_id < 65536 for type_id in TYPE_NAMES)
