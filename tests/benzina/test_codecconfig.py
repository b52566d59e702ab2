"""Decoder configurations and their sequence headers."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.benzina.codec.av1sequence import split_obus, unpack_av1_sequence
from bloscpack.benzina.codec.bitreader import BitReader
from bloscpack.benzina.codec.codecconfig import (
    DEFAULT_MAX_PIXELS,
    check_size,
    join_units,
    pack_av1c,
    pack_avcc,
    pack_hvcc,
    picture_info,
    split_annexb,
    split_units,
    strip_delimiters,
    unpack_config,
)
from bloscpack.benzina.codec.videosequence import unpack_h264_sps, unpack_hevc_sps
from bloscpack.exceptions import FormatError, TruncatedError, UnsupportedError
from tests.benzina.encoded import encoded, muxed

CODECS = ("libx265", "libx264", "libsvtav1")
# Encoder, pixel format, full range, matrix -> depth, chroma, and the declared range and matrix.
FORMS: dict[tuple[str, str, bool, int], tuple[int, int, bool, int]] = {
    ("libx265", "yuv420p", True, 5): (8, 1, True, 5),
    ("libx265", "yuv420p", False, 1): (8, 1, False, 1),
    ("libx265", "yuv422p", False, 9): (8, 2, False, 9),
    ("libx265", "yuv444p", True, 1): (8, 3, True, 1),
    ("libx265", "gray", True, 2): (8, 0, True, 2),
    ("libx265", "yuv420p10le", False, 6): (10, 1, False, 6),
    ("libx265", "gbrp", True, 0): (8, 3, True, 0),
    ("libx264", "yuv420p", True, 5): (8, 1, True, 5),
    ("libx264", "yuv422p", False, 1): (8, 2, False, 1),
    ("libx264", "yuv444p", False, 9): (8, 3, False, 9),
    ("libx264", "yuv420p10le", True, 1): (10, 1, True, 1),
    ("libsvtav1", "yuv420p", True, 5): (8, 1, True, 5),
    ("libsvtav1", "yuv420p10le", False, 1): (10, 1, False, 1),
}


def bits_of(text: str) -> bytes:
    """Return a string of binary digits as bytes, padded with zeros."""
    text = text.replace(" ", "")
    return bytes(int(text[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(text), 8))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_configurations_of_encoders(form: tuple[str, str, bool, int]) -> None:
    codec, pix_fmt, full_range, matrix = form
    picture = encoded(codec, pix_fmt, 64, 64, full_range, matrix)
    info = picture_info(unpack_config(picture.kind, picture.config))
    assert (info.width, info.height, info.coded_width, info.coded_height) == (64, 64, 64, 64)
    assert (info.bit_depth, info.chroma, info.full_range, info.matrix) == FORMS[form]


@pytest.mark.parametrize("codec", CODECS)
def test_cropped_pixels(codec: str) -> None:
    picture = encoded(codec, "yuv420p", 66, 70)
    info = picture_info(unpack_config(picture.kind, picture.config))
    assert (info.width, info.height) == (66, 70)
    coded = (66, 70) if codec == "libsvtav1" else (80, 80)
    assert (info.coded_width, info.coded_height) == coded


@pytest.mark.parametrize("codec", CODECS)
def test_is_built_as_by_ffmpeg(codec: str) -> None:
    data = muxed(codec)
    kind = encoded(codec).kind
    at = data.index(kind)
    theirs = data[at + 4 : at - 4 + int.from_bytes(data[at - 4 : at], "big")]
    units = unpack_config(kind, theirs).units
    if codec == "libsvtav1":
        assert pack_av1c(b"".join(units)) == theirs
    else:
        assert (pack_hvcc if codec == "libx265" else pack_avcc)(units) == theirs


@pytest.mark.parametrize("codec", CODECS)
def test_every_prefix_is_refused(codec: str) -> None:
    picture = encoded(codec)
    whole = picture_info(unpack_config(picture.kind, picture.config))
    last = len(picture.config)
    if codec == "libsvtav1":
        # The bits after the last field are padding.
        last -= 1
    for size in range(last):
        try:
            info = picture_info(unpack_config(picture.kind, picture.config[:size]))
        except FormatError:
            continue
        # Only picture parameter sets, which do not describe the picture, may be missing.
        assert info == whole
        assert size > last // 2


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damage_raises_documented_errors(codec: str, data: st.DataObject) -> None:
    picture = encoded(codec)
    config = bytearray(picture.config)
    for _ in range(data.draw(st.integers(1, 4))):
        config[data.draw(st.integers(0, len(config) - 1))] = data.draw(st.integers(0, 255))
    try:
        info = picture_info(unpack_config(picture.kind, bytes(config)))
        check_size(info)
    except (FormatError, UnsupportedError):
        return
    assert 0 < info.width * info.height <= info.coded_width * info.coded_height
    assert info.coded_width * info.coded_height <= DEFAULT_MAX_PIXELS


@given(st.sampled_from([b"hvcC", b"avcC", b"av1C"]), st.binary(max_size=80))
def test_any_bytes(kind: bytes, config: bytes) -> None:
    for start in (b"", b"\x01", b"\x81"):
        try:
            picture_info(unpack_config(kind, start + config))
        except (FormatError, UnsupportedError):
            continue


@given(st.binary(max_size=200))
def test_any_sequence_header(data: bytes) -> None:
    for unpack in (unpack_hevc_sps, unpack_h264_sps, split_obus):
        try:
            unpack(data)  # type: ignore[operator]
        except FormatError:
            continue
    with contextlib.suppress(FormatError):
        unpack_av1_sequence(split_obus(b"\x08" + data)[0])


def test_unknown_kind_and_versions() -> None:
    with pytest.raises(UnsupportedError, match="vvcC"):
        unpack_config(b"vvcC", b"\0" * 40)
    for codec in CODECS:
        picture = encoded(codec)
        with pytest.raises(UnsupportedError, match="first byte is 9"):
            unpack_config(picture.kind, b"\x09" + picture.config[1:])


def test_no_or_two_sequence_headers() -> None:
    first, other = encoded(), encoded("libx265", "yuv420p", 66, 70)
    units = split_annexb(first.stream)
    with pytest.raises(FormatError, match="no SPS"):
        pack_hvcc(units[:1])
    both = [*units, *split_annexb(other.stream)]
    with pytest.raises(FormatError, match="2 different"):
        picture_info(unpack_config(b"hvcC", pack_hvcc(both)))
    twice = unpack_config(b"hvcC", pack_hvcc([*units, *units]))
    assert picture_info(twice).width == 64
    with pytest.raises(FormatError, match="0 SPS"):
        pack_avcc(units[2:])
    with pytest.raises(FormatError, match="no sequence header"):
        pack_av1c(b"\x12\0")
    with pytest.raises(FormatError, match="exceeds 65535 bytes"):
        pack_hvcc([*units, b"\x44" + bytes(65535)])


def test_sizes_of_three_bytes_are_refused() -> None:
    picture = encoded()
    config = bytearray(picture.config)
    config[21] = config[21] & 0xFC | 2
    with pytest.raises(FormatError, match="3 bytes"):
        unpack_config(picture.kind, bytes(config))


def test_coded_size_is_limited() -> None:
    info = picture_info(unpack_config(b"hvcC", encoded().config))
    check_size(info, 64 * 64)
    with pytest.raises(UnsupportedError, match="64 x 64 pixels"):
        check_size(info, 64 * 64 - 1)


def test_annex_b() -> None:
    stream = b"\0\0\0\1\x40\1\2\0\0\0\1\x42\3\0\0\1\x44\0\0\0"
    units = split_annexb(stream)
    assert units == [b"\x40\1\2", b"\x42\3", b"\x44"]
    assert split_annexb(b"") == split_annexb(b"\0\0\1") == split_annexb(b"abc") == []
    assert split_units(join_units(units)) == units


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
    assert [obu.kind for obu in obus] == [2, 1, 6]
    assert b"".join(obu.data for obu in obus) == stream
    assert [obu.kind for obu in split_obus(strip_delimiters(stream))] == [1, 6]
    # A unit without a size is the last one; in a configuration it gets a size.
    header = obus[1].data
    bare = bytes((header[0] & ~2,)) + header[obus[1].payload_offset :]
    assert pack_av1c(bare) == pack_av1c(stream)
    for damaged in (
        header[:-1],
        header + b"\x80",
        header + b"\x0a" + b"\xff" * 9,
        header + b"\x0e",
    ):
        with pytest.raises(FormatError):
            split_obus(damaged)


def test_exp_golomb_codes() -> None:
    reader = BitReader(bits_of("1 010 011 00100 0001010 1 010 011 00100"), "x")
    assert [reader.unsigned(99, "n") for _ in range(5)] == [0, 1, 2, 3, 9]
    assert [reader.signed("n") for _ in range(4)] == [0, 1, -1, 2]
    with pytest.raises(FormatError, match="n is 9, at most 8"):
        BitReader(bits_of("0001010"), "x").unsigned(8, "n")
    most = BitReader(bits_of("0" * 31 + "1" + "1" * 31), "x")
    assert most.unsigned((1 << 32) - 1, "n") == (1 << 32) - 2
    with pytest.raises(FormatError, match="32 bits"):
        BitReader(bytes(99), "x").unsigned((1 << 64), "n")
    for method, arguments in (("bits", (9,)), ("skip", (9,)), ("signed", ("n",))):
        with pytest.raises(TruncatedError, match="8 bits, but a field needs 9"):
            getattr(BitReader(b"\0", "x"), method)(*arguments)


def hevc_sps(middle: str) -> bytes:
    """Return an SPS of 64 x 64 pixels, 4:2:0, with these bits after the block sizes."""
    start = "0" * 4 + "000" + "1" + "0" * 96 + "1"
    size = "010" + "0000001000001" * 2 + "0" + "11"
    blocks = "1" + "1" + "111" + "111111"
    return b"\x42\x01" + bits_of(start + size + blocks + middle + "0" * 16)


SETS: dict[str, str] = {
    # sps_scaling_list_data: first all predicted, then all explicit and 0 (16 to 65 codes).
    "lists predicted": "11" + "01" * 20 + "00 0" + "1" + "0" + "00",
    "lists given": "11"
    + "".join("1" + "1" * n for n in [16] * 6 + [64] * 6 + [65] * 8)
    + "00 0 1 0 00",
    "pcm": "0 00 1 01110111 1 1 0" + "1" + "0" + "00",
    # One picture before and one after; then a set derived from it that keeps all.
    "derived set": "0 00 0 011" + "010 010 1 1 1 1" + "1 0 1 1 1 1" + "0 00",
    # The same, but one of the three is dropped; a third set keeps both that are left.
    "derived twice": "0 00 0 00100 010 010 1 1 1 1" + "1 0 010 1 00 1" + "1 0 1 1 01 1" + "0 00",
    "long terms": "0 00 0 1 1 010 0000 1 00",
}


@pytest.mark.parametrize("name", SETS)
def test_fields_before_the_colours(name: str) -> None:
    # Usability information: no aspect ratio, no overscan, full range, matrix 9.
    sps = hevc_sps(SETS[name] + "1" + "0 0 1 101 1 1" + "00000001" * 2 + "00001001")
    info = unpack_hevc_sps(sps).picture
    assert (info.width, info.height, info.full_range, info.matrix) == (64, 64, True, 9)


def h264_sps(scaling: str, order: str, frames: str = "1") -> bytes:
    """Return an SPS of profile High, 64 x 64 pixels, with these bits."""
    middle = "1 010 1 1 0" + scaling + "1" + order + "010 0 00100 "
    middle += "00100" if frames == "1" else "010"
    return b"\x67\x64\0\x1e" + bits_of(
        middle + frames + "1 0 1" + "0 0 1 101 1 1" + "0" * 13 + "1" * 3 + "00000110" + "1000"
    )


@pytest.mark.parametrize(
    ("scaling", "order", "frames"),
    [
        ("0", "1 1", "1"),
        ("1" + "0" * 8, "1 1", "1"),
        # The first list ends at once, the second is explicit: 16 codes.
        ("1" + "1 0000 1 0001" + "1" + "1" * 16 + "0" * 6, "1 1", "1"),
        ("0", "010 1 010 011 011 1 1", "1"),
        ("0", "011", "0 1"),
    ],
    ids=["plain", "no lists", "lists", "order 1", "fields"],
)
def test_fields_of_h264(scaling: str, order: str, frames: str) -> None:
    info: Any = unpack_h264_sps(h264_sps(scaling, order, frames)).picture
    assert (info.width, info.height, info.full_range) == (64, 64, True)
