"""Metadata section: every JSON value, every checksum, both places of the digest, and damage."""

import json
import struct
import tracemalloc
import zlib
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import (
    ChecksumMismatch,
    FormatError,
    MetadataSectionTooSmall,
    NoSuchChecksum,
    TruncatedError,
    UnsupportedError,
)
from bloscpack.format.checksum import CHECKSUMS, Checksum
from bloscpack.format.metadata import (
    METADATA_HEADER_SIZE,
    MetadataHeader,
    _deflate,
    decode_data,
    encode_values,
    pack_section,
    stored_data,
)

each_checksum = pytest.mark.parametrize("row", CHECKSUMS, ids=lambda row: row.name)
LAST = CHECKSUMS[-1].id


def unpack(section: bytes | bytearray | memoryview) -> Any:
    header = MetadataHeader.unpack(section, last_checksum=LAST)
    return decode_data(stored_data(header, section), header.meta_codec, header.meta_size)


def plain_section(
    data: bytes,
    *,
    magic: bytes = b"JSON",
    options: int = 0,
    checksum: int = 0,
    codec: int = 0,
    level: int = 0,
    size: int | None = None,
    reserved: int | None = None,
    stored: int | None = None,
    user: bytes = b"",
    behind: bytes = b"",
) -> bytes:
    """Return header, data and the bytes `behind`; given fields replace the correct ones."""
    size = len(data) if size is None else size
    stored = len(data) if stored is None else stored
    reserved = len(data) if reserved is None else reserved
    head = struct.pack(
        "<8sBBBBIII8s", magic, options, checksum, codec, level, size, reserved, stored, user
    )
    return head + data + behind


def test_hand_written_bytes_in_both_directions() -> None:
    section = bytes.fromhex(
        "4a534f4e00000000 00 01 00 06 07000000 0a000000 07000000 0000000000000000"
        "7b2261223a317d 000000 09022a08"  # {"a":1}, padding, adler32
    )
    assert pack_section({"a": 1}, codec="None", reserve=10) == section
    header = MetadataHeader.unpack(section)
    assert header == MetadataHeader(b"JSON", 0, CHECKSUMS[1], "None", 6, 7, 10, 7, b"")
    assert header.section_size == len(section)
    assert header.pack() == section[:METADATA_HEADER_SIZE]
    assert unpack(section) == {"a": 1}


def test_every_proper_prefix_is_truncated() -> None:
    section = pack_section([1, 2, 3])
    for length in range(len(section)):
        with pytest.raises(TruncatedError, match="metadata"):
            unpack(section[:length])


def test_trailing_bytes_are_left_alone() -> None:
    section = pack_section([1, 2, 3])
    assert unpack(section + b"rest") == [1, 2, 3]


def test_header_at_a_position() -> None:
    section = pack_section([1, 2, 3])
    assert MetadataHeader.unpack(b"front" + section, 5) == MetadataHeader.unpack(section)


JSON_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    10**300,
    1.5,
    -0.0,
    "",
    "text",
    "\u00e4\u20ac\U0001f600\0",
    "\ud800",
    [],
    {},
    [[], {}, [None]],
    {"a": {"b": [1, {"c": None}]}, "": 1},
    [float("inf"), float("-inf")],
]


@pytest.mark.parametrize("codec", ["None", "zlib"])
@pytest.mark.parametrize("value", JSON_VALUES, ids=str)
def test_every_kind_of_value(value: Any, codec: str) -> None:
    found = unpack(pack_section(value, codec=codec))
    assert found == value
    assert json.dumps(found) == json.dumps(value)


def test_not_a_number_passes() -> None:
    assert str(unpack(pack_section(float("nan")))) == "nan"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    value=json_values,
    row=st.sampled_from(CHECKSUMS),
    codec=st.sampled_from(["None", "zlib"]),
    level=st.integers(0, 9),
    spare=st.integers(0, 50),
)
def test_unpack_undoes_pack(value: Any, row: Checksum, codec: str, level: int, spare: int) -> None:
    section = pack_section(
        value, checksum=row.name, codec=codec, level=level, reserve=lambda n: n + spare
    )
    header = MetadataHeader.unpack(section, last_checksum=LAST)
    assert header.section_size == len(section)
    assert header.meta_checksum is row
    assert unpack(section) == unpack(memoryview(section)) == value


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", {"a": b"b"}, {(1, 2): 3}])
def test_values_that_are_not_json_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        pack_section(value)


@pytest.mark.parametrize(
    "value", [{1: "a", "1": "b"}, [{None: 1, "null": 2}], {"x": ({True: 1, "true": 2},)}]
)
def test_keys_that_are_one_in_json_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="keys that are equal as text"):
        pack_section(value)
    with pytest.raises(TypeError, match="keys that are equal as text"):
        encode_values(value, "attrs")
    assert pack_section({1: "a", "2": "b"}) == pack_section({"1": "a", "2": "b"})


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    for data in (b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
        with pytest.raises(FormatError, match="not JSON"):
            unpack(plain_section(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"nul",
        b"{'a':1}",
        b"1 2",
        b'{"a":1}x',
        b'{"a":1}\0',
        b'"\xff"',
        b"\xff\xfe1\0",
        b'"\xed\xa0\x80"',
        b"1" * 5000,
    ],
)
def test_data_that_are_not_json(data: bytes) -> None:
    with pytest.raises(FormatError, match="not JSON"):
        unpack(plain_section(data))


def test_space_around_a_value() -> None:
    assert unpack(plain_section(b' {"a": 1}\n')) == {"a": 1}


class TestDigest:
    DATA = b'{"a":1}'

    @each_checksum
    def test_behind_the_padding(self, row: Checksum) -> None:
        digest = row.digest(self.DATA)
        section = plain_section(self.DATA, checksum=row.id, reserved=20, behind=bytes(13) + digest)
        assert unpack(section) == {"a": 1}

    @each_checksum
    def test_behind_the_data(self, row: Checksum) -> None:
        digest = row.digest(self.DATA)
        section = plain_section(self.DATA, checksum=row.id, reserved=20, behind=digest + bytes(13))
        assert unpack(section) == {"a": 1}

    @each_checksum
    def test_damage_is_reported(self, row: Checksum) -> None:
        section = pack_section({"a": 1}, checksum=row.name, codec="None", reserve=20)
        for position in (32, 38, len(section) - 1):
            damaged = bytearray(section)
            damaged[position] ^= 1
            if row.nbytes:
                with pytest.raises(ChecksumMismatch, match=f"metadata: {row.name}") as caught:
                    unpack(damaged)
                assert caught.value.name == row.name
                assert len(caught.value.expected or b"") == row.nbytes
                assert caught.value.index is None

    def test_padding_is_not_covered(self) -> None:
        section = bytearray(pack_section({"a": 1}, codec="None", reserve=20))
        section[45] = 99
        assert unpack(section) == {"a": 1}

    @pytest.mark.parametrize("number", [9, 10])
    def test_xxh3_needs_version_4(self, number: int) -> None:
        section = plain_section(b"1", checksum=number)
        with pytest.raises(FormatError, match=f"meta_checksum {number} is not 0 to 8"):
            MetadataHeader.unpack(section)
        MetadataHeader.unpack(section, last_checksum=10)

    def test_unassigned(self) -> None:
        for number in (len(CHECKSUMS), 127, 128, 255):
            with pytest.raises((FormatError, UnsupportedError), match=str(number)):
                MetadataHeader.unpack(plain_section(b"1", checksum=number), last_checksum=LAST)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"magic": b"YAML"}, UnsupportedError, "magic_format"),
        ({"magic": b""}, UnsupportedError, "magic_format"),
        ({"magic": b"JSON    "}, UnsupportedError, "magic_format"),
        ({"codec": 2}, FormatError, "meta_codec 2"),
        ({"codec": 255}, FormatError, "meta_codec 255"),
        ({"level": 10}, FormatError, "meta_level 10"),
        ({"reserved": 6}, FormatError, "meta_comp_size 7 exceeds max_meta_size 6"),
        ({"size": 8}, FormatError, "meta_size 8"),
        ({"size": 6}, FormatError, "meta_size 6"),
        ({"size": 2**32 - 1, "codec": 1}, FormatError, "exceeds 64 times"),
        ({"stored": 2**32 - 1, "reserved": 2**32 - 1, "size": 2**32 - 1}, TruncatedError, "found"),
        ({"reserved": 2**32 - 1}, TruncatedError, "found"),
    ],
)
def test_fields_out_of_range(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        unpack(plain_section(b'{"a":1}', **fields))


def test_magic_may_have_nuls_on_both_sides() -> None:
    assert unpack(plain_section(b"1", magic=b"\0\0JSON")) == 1


def test_user_codec_is_kept() -> None:
    header = MetadataHeader.unpack(plain_section(b"1", user=b"mine"))
    assert header.user_codec == b"mine"
    assert header.pack() == plain_section(b"1", user=b"mine")[:32]


class TestZlib:
    def test_what_does_not_shrink_is_stored(self) -> None:
        header = MetadataHeader.unpack(pack_section(1))
        assert (header.meta_codec, header.meta_level) == ("None", 6)
        assert (header.meta_size, header.meta_comp_size) == (1, 1)

    def test_what_shrinks_is_compressed(self) -> None:
        section = pack_section(["same"] * 100, level=9)
        header = MetadataHeader.unpack(section)
        assert (header.meta_codec, header.meta_level) == ("zlib", 9)
        assert header.meta_comp_size < 100 < header.meta_size == len('"same",') * 100 + 1
        assert zlib.decompress(section[32 : 32 + header.meta_comp_size])

    @pytest.mark.parametrize("wrong", [-1, 1, 1000])
    def test_another_size_than_declared(self, wrong: int) -> None:
        data = json.dumps(["same"] * 100).encode()
        section = plain_section(zlib.compress(data), codec=1, size=len(data) + wrong)
        with pytest.raises(FormatError, match="does not decompress to the declared"):
            unpack(section)

    def test_damaged_streams(self) -> None:
        data = zlib.compress(json.dumps(["same"] * 100).encode())
        for length in range(len(data)):
            with pytest.raises(FormatError):
                unpack(plain_section(data[:length], codec=1, size=801))
        with pytest.raises(FormatError):
            unpack(plain_section(b"no stream", codec=1))

    @pytest.mark.parametrize("declared", [100, 16 << 20, 2**32 - 1])
    def test_bomb_does_not_go_off(self, declared: int) -> None:
        compressor = zlib.compressobj(9)
        block = bytes(1 << 20)
        front = compressor.compress(block) + compressor.flush(zlib.Z_FULL_FLUSH)
        # After a full flush the same block has the same bytes, so 1.6 GB are made quickly.
        bomb = front + 1600 * (compressor.compress(block) + compressor.flush(zlib.Z_FULL_FLUSH))
        assert 1_600_000 < len(bomb) < 1_700_000
        assert len(zlib.decompressobj().decompress(bomb, 40 << 20)) == 40 << 20
        section = plain_section(bomb, codec=1, size=declared)
        tracemalloc.start()
        try:
            with pytest.raises(FormatError):
                unpack(section)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()

    @given(st.integers(0, 2**32), st.integers(0, 512), st.integers(0, 500), st.integers(1, 8))
    def test_small_data_are_compressed_to_the_bytes_of_zlib(
        self, seed: int, nbytes: int, distance: int, bits: int
    ) -> None:
        """Also if a match is as far away as possible, and if hardly any byte repeats."""
        rng = Random(seed)
        noise = bytes(rng.getrandbits(bits) for _ in range(nbytes))
        for data in (noise, (noise[:distance] + noise)[:512], (noise + noise[:12])[:512]):
            assert _deflate(data, 6) == zlib.compress(data, 6)

    def test_we_read_everything_that_we_write(self) -> None:
        value = " " * (17 << 20)  # compresses better than a reader accepts
        section = pack_section(value, reserve=lambda n: n)
        assert MetadataHeader.unpack(section).meta_codec == "None"
        assert unpack(section) == value


class TestReserve:
    def test_default_is_ten_times_the_size(self) -> None:
        header = MetadataHeader.unpack(pack_section({"a": 1}))
        assert header.max_meta_size == 70

    def test_number_and_callable(self) -> None:
        for reserve in (50, lambda nbytes: 43 + nbytes):
            header = MetadataHeader.unpack(pack_section({"a": 1}, reserve=reserve))
            assert header.max_meta_size == 50

    def test_just_enough(self) -> None:
        section = pack_section({"a": 1}, checksum=None, reserve=7)
        assert len(section) == 32 + 7
        assert unpack(section) == {"a": 1}

    def test_compressed_data_may_fit_where_the_value_does_not(self) -> None:
        header = MetadataHeader.unpack(pack_section(["same"] * 100, reserve=100))
        assert header.meta_comp_size <= header.max_meta_size == 100 < header.meta_size

    @pytest.mark.parametrize("reserve", [0, 6, -1, lambda _: 3])
    def test_too_small(self, reserve: Any) -> None:
        with pytest.raises(MetadataSectionTooSmall, match="7 bytes do not fit"):
            pack_section({"a": 1}, reserve=reserve)

    @pytest.mark.parametrize("reserve", ["10", 1.5, lambda _: None])
    def test_no_number(self, reserve: Any) -> None:
        with pytest.raises(TypeError, match="max_meta_size"):
            pack_section({"a": 1}, reserve=reserve)

    def test_too_large(self) -> None:
        with pytest.raises(ValueError, match="at most 4294967295"):
            pack_section({"a": 1}, reserve=2**32)


def test_unknown_checksum_name() -> None:
    with pytest.raises(NoSuchChecksum):
        pack_section(1, checksum="crc64")


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_give_a_value_or_a_documented_error(data: bytes, fix_magic: bool) -> None:
    section = b"JSON\0\0\0\0\0" + data if fix_magic else data
    try:
        unpack(section)
    except (FormatError, UnsupportedError):
        return
