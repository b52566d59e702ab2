"""Decoder configurations, and the units in them and in payloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.benzina.codec.codecconfig import (
    sequence_header,
    split_obus,
    split_units,
    unit_kind,
    unpack_config,
)
from bloscpack.benzina.codec.decoder import Decoder
from bloscpack.exceptions import BloscpackError, CodecError, FormatError, UnsupportedError
from tests.benzina.encoded import encoded, join_units

CODECS = ("libx265", "libx264", "libsvtav1")


@pytest.mark.parametrize("codec", CODECS)
def test_every_prefix_is_refused(codec: str) -> None:
    picture, decoder = encoded(codec), Decoder()
    wanted = decoder.decode(picture.kind, picture.config, picture.payload)
    for size in range(len(picture.config)):
        try:
            found = decoder.decode(picture.kind, picture.config[:size], picture.payload)
        except BloscpackError:
            continue
        # Only the padding behind the last field may be missing.
        assert size > len(picture.config) // 2
        assert (found.y == wanted.y).all()


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damage_raises_documented_errors(codec: str, data: st.DataObject) -> None:
    picture, decoder = encoded(codec), Decoder()
    config = bytearray(picture.config)
    for _ in range(data.draw(st.integers(1, 4))):
        config[data.draw(st.integers(0, len(config) - 1))] = data.draw(st.integers(0, 255))
    try:
        planes = decoder.decode(picture.kind, bytes(config), picture.payload, (64, 64))
    except (FormatError, CodecError, UnsupportedError):
        return
    assert planes.y.shape == (64, 64)


@given(st.sampled_from([b"hvcC", b"avcC", b"av1C"]), st.binary(max_size=80))
def test_any_bytes(kind: bytes, config: bytes) -> None:
    for start in (b"", b"\x01", b"\x81"):
        try:
            Decoder().decode(kind, start + config, b"payload")
        except (FormatError, CodecError, UnsupportedError):
            continue


@given(st.binary(max_size=200))
def test_any_units(data: bytes) -> None:
    for split in (split_units, split_obus):
        try:
            split(data)
        except FormatError:
            continue


def test_unknown_kind_and_versions() -> None:
    with pytest.raises(UnsupportedError, match="vvcC"):
        unpack_config(b"vvcC", b"\0" * 40)
    for codec in CODECS:
        picture = encoded(codec)
        with pytest.raises(UnsupportedError, match="first byte is 9"):
            unpack_config(picture.kind, b"\x09" + picture.config[1:])


def test_no_or_two_sequence_headers() -> None:
    first, other = encoded(), encoded("libx265", "yuv420p", 66, 70)
    units = unpack_config(first.kind, first.config).units
    others = unpack_config(other.kind, other.config).units
    for found in (units, [*units, *units]):
        assert sequence_header("hevc", found) == units[1]
    assert sequence_header("hevc", [units[0], units[2]]) is None
    with pytest.raises(FormatError, match="2 different"):
        sequence_header("hevc", [*units, *others])
    for count, message in ((b"\0\0", "no sequence header"), (b"\0\2", "2 different")):
        sets = b"".join(len(sps).to_bytes(2, "big") + sps for sps in (units[1], others[1]))
        array = b"\1\x21" + count + sets * bool(count[1])
        with pytest.raises(FormatError, match=message):
            Decoder().decode(b"hvcC", first.config[:22] + array, first.payload)
    with pytest.raises(FormatError, match="2 different"):
        Decoder().decode(first.kind, first.config, join_units([*units, *others]) + first.payload)


def test_sizes_of_three_bytes_are_refused() -> None:
    picture = encoded()
    config = bytearray(picture.config)
    config[21] = config[21] & 0xFC | 2
    with pytest.raises(FormatError, match="3 bytes"):
        unpack_config(picture.kind, bytes(config))


@pytest.mark.parametrize(
    "payload", [b"\0\0\0\4abc", b"\0\0\0", b"\0\0\0\0", b"\xff\xff\xff\xff" + bytes(9)]
)
def test_wrong_sizes(payload: bytes) -> None:
    with pytest.raises(FormatError, match="NAL unit at byte 0"):
        split_units(payload)
    with pytest.raises(FormatError, match="NAL unit at byte 5"):
        split_units(memoryview(b"\0\0\0\1a" + payload))


@given(st.lists(st.binary(min_size=1, max_size=40)), st.integers(1, 4))
def test_units_round_trip(units: list[bytes], size: int) -> None:
    payload = b"".join(len(unit).to_bytes(size, "big") + unit for unit in units)
    assert split_units(payload, size) == units
    assert [bytes(unit) for unit in split_units(memoryview(payload), size)] == units


def test_obus() -> None:
    stream = encoded("libsvtav1").stream
    obus = split_obus(stream)
    assert [unit_kind("av1", obu) for obu in obus] == [2, 1, 6]
    assert b"".join(obus) == stream
    # A unit without a size is the last one.
    header = obus[1]
    bare = bytes((header[0] & ~2,)) + header[2:]
    assert split_obus(obus[0] + bare) == [obus[0], bare]
    for damaged in (
        header[:-1],
        header + b"\x80",
        header + b"\x0a" + b"\xff" * 9,
        header + b"\x0e",
    ):
        with pytest.raises(FormatError):
            split_obus(damaged)
