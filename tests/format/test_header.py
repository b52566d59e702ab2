"""Header and offset table: hand-written bytes, in both directions."""

import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bloscpack.exceptions import (
    ChecksumMismatch,
    FormatError,
    FormatVersionMismatch,
    NotBloscpackError,
    TruncatedError,
    UnsupportedError,
)
from bloscpack.format.checksum import CHECKSUMS, checksum_by_name
from bloscpack.format.codec import MAX_CHUNK_NBYTES
from bloscpack.format.header import (
    FEATURE_FRAMES,
    MAX_CHUNKS,
    MAX_HEADER_SIZE,
    Header,
    pack_offsets,
    unpack_offsets,
    version_for,
)

from ..reference.file import header as plain_header

NONE, ADLER, SHA512, XXH64, XXH128 = (CHECKSUMS[n] for n in (0, 1, 8, 9, 10))

# Bytes, header: written by hand from docs/formats/bloscpack.md.
V1 = bytes.fromhex("626c706b 01 000000 0500000000000000")
V2 = bytes.fromhex("626c706b 02 01 01 08 00001000 39300000 0300000000000000 0000000000000000")
V2_ODD = bytes.fromhex("626c706b 02 00 08 01 00000000 10270000 0100000000000000 0000000000000000")
V3 = bytes.fromhex("626c706b 03 03 02 04 00001000 39300000 0300000000000000 1e00000000000000")
V3_BARE = bytes.fromhex("626c706b 03 00 00 ff ffffffff ffffffff ffffffffffffffff 0000000000000000")
V3_MOST = bytes.fromhex("626c706b 03 01 08 00 efffff7f efffff7f 0100000000000000 feffffffffffff7f")
V4 = bytes.fromhex(
    "626c706b 04 01 00 08 00001000 39300000 0300000000000000 0000000000000000"
    "424c5058 2000 0a 00 00000000 00000000 0000000000000000 dbaf0cb9ca2df3b4"
)
HEADERS = {
    V1: Header(1, False, False, NONE, 0, -1, -1, 5, 0),
    V2: Header(2, True, False, ADLER, 8, 1 << 20, 12345, 3, 0),
    V2_ODD: Header(2, False, False, SHA512, 1, 0, 10000, 1, 0),
    V3: Header(3, True, True, CHECKSUMS[2], 4, 1 << 20, 12345, 3, 30),
    V3_BARE: Header(3, False, False, NONE, 255, -1, -1, -1, 0),
    V3_MOST: Header(3, True, False, SHA512, 0, 2**31 - 17, 2**31 - 17, 1, 2**63 - 2),
    V4: Header(4, True, False, XXH128, 8, 1 << 20, 12345, 3, 0),
}
NAMES = dict(zip(HEADERS, ["v1", "v2", "v2 odd", "v3", "v3 bare", "v3 most", "v4"], strict=True))
each_header = pytest.mark.parametrize("data", HEADERS, ids=NAMES.get)
each_written = pytest.mark.parametrize("data", [V3, V3_BARE, V3_MOST, V4], ids=NAMES.get)


@each_header
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_unpack(data: bytes, kind: type[bytes]) -> None:
    header = Header.unpack(kind(data))
    assert header == HEADERS[data]
    assert header.size == len(data)
    assert type(header.offsets) is type(header.metadata) is bool


@each_written
def test_pack(data: bytes) -> None:
    assert HEADERS[data].pack() == data


@pytest.mark.parametrize("data", [V1, V2], ids=NAMES.get)
def test_old_versions_are_not_written(data: bytes) -> None:
    with pytest.raises(UnsupportedError, match="read but not written"):
        HEADERS[data].pack()


@each_header
def test_trailing_bytes_are_left_alone(data: bytes) -> None:
    assert Header.unpack(data + b"\xff" * 100) == HEADERS[data]


@each_header
def test_every_proper_prefix_is_truncated(data: bytes) -> None:
    with pytest.raises(NotBloscpackError, match="it is empty"):
        Header.unpack(data[:0])
    for length in range(1, len(data)):
        with pytest.raises(TruncatedError, match=r"header: found .* bytes"):
            Header.unpack(data[:length])


@pytest.mark.parametrize("magic", [b"BLPK", b"blpl", b"\0\0\0\0", b"\x93NUM", b"blp\0"])
def test_another_magic(magic: bytes) -> None:
    for data in (magic, magic + V3[4:]):
        with pytest.raises(NotBloscpackError, match="not a Bloscpack file") as caught:
            Header.unpack(data)
        assert isinstance(caught.value, ValueError)
        assert (caught.value.offset, caught.value.field) == (0, "magic")


@pytest.mark.parametrize("version", [0, 5, 6, 7, 100, 255])
def test_another_version(version: int) -> None:
    for data in (V3, V4):
        with pytest.raises(FormatVersionMismatch, match=f"version is {version}") as caught:
            Header.unpack(data[:4] + bytes([version]) + data[5:])
        assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("bit", range(2, 8))
@pytest.mark.parametrize("version", [2, 3])
def test_unknown_options(version: int, bit: int) -> None:
    data = plain_header(version=version, options=1 << bit)
    with pytest.raises(FormatError, match="options") as caught:
        Header.unpack(data)
    assert (caught.value.offset, caught.value.field) == (5, "options")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("checksum", [9, 10, 127, 128, 255])
def test_checksums_of_version_4_are_refused_in_others(version: int, checksum: int) -> None:
    with pytest.raises(FormatError, match=f"checksum {checksum} is not 0 to 8") as caught:
        Header.unpack(plain_header(version=version, checksum=checksum))
    assert caught.value.offset == 6


def test_checksum_ids() -> None:
    for number, found in enumerate(CHECKSUMS[:9]):
        assert Header.unpack(plain_header(checksum=number)).checksum is found


@pytest.mark.parametrize(
    ("fields", "field", "offset"),
    [
        ({"chunk_size": -2}, "chunk_size", 8),
        ({"chunk_size": MAX_CHUNK_NBYTES + 1}, "chunk_size", 8),
        ({"chunk_size": 2**31 - 1}, "chunk_size", 8),
        ({"last_chunk": -2}, "last_chunk", 12),
        ({"last_chunk": MAX_CHUNK_NBYTES + 1, "chunk_size": -1}, "last_chunk", 12),
        ({"last_chunk": 11, "chunk_size": 10}, "last_chunk", 12),
        ({"last_chunk": 0, "nchunks": 2}, "last_chunk", 12),
        ({"nchunks": -2}, "nchunks", 16),
        ({"nchunks": -(2**63)}, "nchunks", 16),
        ({"spare": -1, "options": 1}, "max_app_chunks", 24),
        ({"spare": 1}, "max_app_chunks", 24),
        ({"nchunks": -1, "options": 1}, "nchunks", 16),
        ({"nchunks": -1, "spare": 1}, "nchunks", 16),
        ({"nchunks": 2, "spare": MAX_CHUNKS - 1, "options": 1}, "nchunks", 16),
        ({"nchunks": MAX_CHUNKS, "spare": 1, "options": 1}, "nchunks", 16),
    ],
)
def test_fields_out_of_range(fields: dict[str, int], field: str, offset: int) -> None:
    with pytest.raises(FormatError, match=field) as caught:
        Header.unpack(plain_header(**fields))
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_header_that_is_written_is_checked_too() -> None:
    header = HEADERS[V3]
    for wrong, field in (
        (header._replace(typesize=256), "typesize"),
        (header._replace(typesize=-1), "typesize"),
        (header._replace(nchunks=MAX_CHUNKS + 1), "nchunks"),
    ):
        with pytest.raises(FormatError, match=field):
            wrong.check()


class TestVersion1:
    def test_reserved_bytes(self) -> None:
        for position in (5, 6, 7):
            data = bytearray(V1)
            data[position] = 1
            with pytest.raises(FormatError, match="reserved"):
                Header.unpack(data)
            with pytest.raises(FormatError, match="reserved"):
                Header.unpack(bytes(data).ljust(64, b"\0"))

    def test_negative_count(self) -> None:
        with pytest.raises(FormatError, match="nchunks"):
            Header.unpack(V1[:8] + struct.pack("<q", -1))


class TestVersion2:
    def test_has_no_metadata(self) -> None:
        with pytest.raises(FormatError, match="no metadata"):
            Header.unpack(plain_header(version=2, options=2))

    def test_has_no_spare_offsets(self) -> None:
        with pytest.raises(FormatError, match="reserved"):
            Header.unpack(plain_header(version=2, options=1, spare=1))

    def test_last_chunk_may_exceed_the_others(self) -> None:
        header = Header.unpack(plain_header(version=2, chunk_size=10, last_chunk=11))
        assert (header.chunk_size, header.last_chunk) == (10, 11)


class TestVersion4:
    def test_old_readers_find_a_checksum_they_know(self) -> None:
        for row in CHECKSUMS:
            packed = HEADERS[V4]._replace(checksum=row).pack()
            assert packed[4] == 4
            assert packed[6] == 0
            assert len(packed) == MAX_HEADER_SIZE
            assert Header.unpack(packed).checksum is row

    def test_damage_of_any_bit_is_noticed(self) -> None:
        for bit in range(8 * len(V4)):
            data = bytearray(V4)
            data[bit // 8] ^= 1 << bit % 8
            with pytest.raises((FormatError, UnsupportedError)):
                Header.unpack(data)

    @staticmethod
    def signed(extension: bytes, front: bytes = V4[:32]) -> bytes:
        return front + extension + checksum_by_name("xxh3_64").digest(front + extension)

    def test_unknown_features(self) -> None:
        for number in (8, 9, 1 << 31):
            extension = V4[32:40] + struct.pack("<I", number) + V4[44:56]
            with pytest.raises(UnsupportedError, match="features"):
                Header.unpack(self.signed(extension))

    def test_feature_of_frame_stores(self) -> None:
        frames = HEADERS[V4]._replace(features=FEATURE_FRAMES)
        extension = V4[32:40] + struct.pack("<I", FEATURE_FRAMES) + V4[44:56]
        assert frames.pack() == self.signed(extension)
        assert Header.unpack(frames.pack(), known_features=FEATURE_FRAMES) == frames
        with pytest.raises(UnsupportedError, match="a frame store"):
            Header.unpack(frames.pack())
        assert Header.unpack(V4, known_features=FEATURE_FRAMES) == HEADERS[V4]

    def test_compatible_features_are_ignored(self) -> None:
        extension = V4[32:44] + struct.pack("<I", 2**32 - 1) + V4[48:56]
        assert Header.unpack(self.signed(extension)) == HEADERS[V4]

    def test_checksum_byte_of_old_readers_stays_0(self) -> None:
        front = V4[:6] + b"\x01" + V4[7:32]
        with pytest.raises(FormatError, match="checksum must be 0"):
            Header.unpack(self.signed(V4[32:56], front))

    @pytest.mark.parametrize(
        ("number", "error"),
        [(len(CHECKSUMS), FormatError), (127, FormatError), (128, UnsupportedError)],
    )
    def test_unknown_checksum(self, number: int, error: type[Exception]) -> None:
        extension = V4[32:38] + bytes([number]) + V4[39:56]
        with pytest.raises(error, match=str(number)):
            Header.unpack(self.signed(extension))

    def test_another_extension(self) -> None:
        for extension in (b"BLPY" + V4[36:56], V4[32:36] + b"\x21\x00" + V4[38:56]):
            with pytest.raises(FormatError, match="extended header"):
                Header.unpack(self.signed(extension))

    def test_digest_is_reported(self) -> None:
        with pytest.raises(ChecksumMismatch) as caught:
            Header.unpack(V4[:-1] + b"\0")
        error = caught.value
        assert (error.name, error.actual, error.index) == ("xxh3_64", V4[-8:], None)
        assert error.offset == 56


def test_version_follows_from_the_checksum() -> None:
    assert [version_for(row) for row in CHECKSUMS] == [3] * 9 + [4] * len(CHECKSUMS[9:])


sizes = st.one_of(st.integers(-1, 1000), st.integers(-1, MAX_CHUNK_NBYTES))


@st.composite
def headers(draw: st.DrawFn) -> Header:
    checksum = draw(st.sampled_from(CHECKSUMS))
    offsets = draw(st.booleans())
    nchunks = draw(st.integers(0 if offsets else -1, MAX_CHUNKS))
    chunk_size, last_chunk = draw(sizes), draw(sizes)
    assume(nchunks <= 1 or (last_chunk != 0 and chunk_size != 0))
    return Header(
        draw(st.sampled_from([3, 4])) if checksum.id < 9 else 4,
        offsets,
        draw(st.booleans()),
        checksum,
        draw(st.integers(0, 255)),
        chunk_size,
        min(last_chunk, chunk_size) if chunk_size >= 0 else last_chunk,
        nchunks,
        draw(st.integers(0, MAX_CHUNKS - nchunks)) if offsets else 0,
    )


@given(headers())
def test_unpack_undoes_pack(header: Header) -> None:
    header.check()
    packed = header.pack()
    assert len(packed) == header.size
    assert Header.unpack(packed) == header
    if header.format_version == 3:
        assert packed == plain_header(
            options=header.offsets + 2 * header.metadata,
            checksum=header.checksum.id,
            typesize=header.typesize,
            chunk_size=header.chunk_size,
            last_chunk=header.last_chunk,
            nchunks=header.nchunks,
            spare=header.max_app_chunks,
        )


@given(st.binary(max_size=80), st.sampled_from([b"", b"blpk", V1[:5], V2[:5], V3[:5], V4[:5], V4]))
def test_any_bytes_give_a_header_or_a_documented_error(data: bytes, front: bytes) -> None:
    try:
        header = Header.unpack(front + data)
    except (FormatError, UnsupportedError):
        return
    header.check()
    assert 0 <= header.table_size < 2**67


def test_table_size() -> None:
    assert Header.unpack(V3).table_size == 8 * 33
    assert Header.unpack(V3_BARE).table_size == 0
    assert Header.unpack(V3_MOST).table_size == 8 * (2**63 - 1)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_offsets(offsets: list[int]) -> None:
    packed = pack_offsets(offsets)
    assert packed == b"".join(struct.pack("<q", offset) for offset in offsets)
    assert list(unpack_offsets(packed)) == list(unpack_offsets(memoryview(packed))) == offsets
