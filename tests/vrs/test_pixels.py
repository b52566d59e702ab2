"""Raw images as arrays: shapes, strides and planes of all pixel formats, and ten-bit pixels."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs.block.normalization import normalize
from bloscpack.vrs.block.pixels import (
    PIXEL_FORMATS,
    ImageFormat,
    ImageSpec,
    PixelFormat,
    image_planes,
    image_view,
    unpack_ten_bits,
)

ALL = [pixel for pixel in PixelFormat if pixel]
each_pixel_format = pytest.mark.parametrize("pixel", ALL, ids=str)


def raw(
    width: int, height: int, pixel: PixelFormat, stride: int = 0, stride_2: int = 0
) -> ImageSpec:
    return ImageSpec(width, height, stride, stride_2, pixel, ImageFormat.RAW)


def test_names_and_numbers() -> None:
    names = """
        undefined grey8 bgr8 depth32f rgb8 yuv_i420_split rgba8 rgb10 rgb12 grey10 grey12 grey16
        rgb32F scalar64F yuy2 rgb_ir_4x4 rgba32F bayer8_rggb raw10 raw10_bayer_rggb raw10_bayer_bggr
        yuv_420_nv21 yuv_420_nv12 grey10packed bayer8_bggr bayer10_gbrg bayer8_gbrg
    """
    assert list(PIXEL_FORMATS) == names.split()
    assert [int(pixel) for pixel in PIXEL_FORMATS.values()] == list(range(27))


@pytest.mark.parametrize(
    ("pixel", "row", "nbytes"),
    [
        ("grey8", 5, 15),
        ("rgb_ir_4x4", 5, 15),
        ("bayer8_gbrg", 5, 15),
        ("grey10", 10, 30),
        ("bayer10_gbrg", 10, 30),
        ("bgr8", 15, 45),
        ("rgba8", 20, 60),
        ("depth32f", 20, 60),
        ("rgb12", 30, 90),
        ("scalar64F", 40, 120),
        ("rgb32F", 60, 180),
        ("rgba32F", 80, 240),
        ("raw10_bayer_bggr", 10, 30),
        ("grey10packed", 10, 30),
        ("yuy2", 12, 36),
        ("yuv_i420_split", 5, 15 + 2 * 3 * 2),
        ("yuv_420_nv12", 5, 15 + 6 * 2),
        ("yuv_420_nv21", 5, 15 + 6 * 2),
    ],
)
def test_sizes_of_odd_images(pixel: str, row: int, nbytes: int) -> None:
    spec = raw(5, 3, PIXEL_FORMATS[pixel])
    assert (spec.row_nbytes, spec.raw_nbytes) == (row, nbytes)


@each_pixel_format
@pytest.mark.parametrize("padding", [0, 3])
def test_views_show_the_bytes(pixel: PixelFormat, padding: int) -> None:
    tight = raw(5, 3, pixel)
    spec = raw(5, 3, pixel, tight.row_nbytes + padding, tight.min_plane_row_nbytes + padding)
    data = np.arange(spec.raw_nbytes or 0, dtype=np.uint8)
    view = image_view(data.data, spec)
    assert np.shares_memory(view, data)
    assert len(view) == 3
    for number, row in enumerate(view):
        start = number * spec.row_nbytes
        assert row.tobytes() == data.tobytes()[start : start + row.nbytes]
    planes = image_planes(data.data, spec)
    assert len(planes) == spec.nplanes
    start = spec.row_nbytes * 3
    for plane in planes[1:]:
        assert plane.shape[:2] == (2, 3)
        for row in plane:
            assert row.tobytes() == data.tobytes()[start : start + row.nbytes]
            start += spec.plane_row_nbytes
    assert start == spec.raw_nbytes


@each_pixel_format
def test_images_that_do_not_fit(pixel: PixelFormat) -> None:
    spec = raw(5, 3, pixel)
    nbytes = spec.raw_nbytes or 0
    image_view(bytes(nbytes + 1), spec)
    for short in (0, nbytes - 1):
        with pytest.raises(TruncatedError, match=f"needs {nbytes} bytes, found {short}"):
            image_view(bytes(short), spec)
    narrow = raw(5, 3, pixel, spec.row_nbytes - 1)
    with pytest.raises(FormatError, match="cannot hold"):
        image_view(bytes(nbytes), narrow)
    if spec.nplanes > 1:
        narrow = raw(5, 3, pixel, 0, spec.plane_row_nbytes - 1)
        with pytest.raises(FormatError, match="second plane"):
            image_planes(bytes(nbytes), narrow)


@given(
    st.builds(
        raw,
        width=st.integers(0, 0xFFFFFFFF),
        height=st.integers(0, 0xFFFFFFFF),
        pixel=st.sampled_from(PixelFormat),
        stride=st.integers(0, 0xFFFFFFFF),
        stride_2=st.integers(0, 0xFFFFFFFF),
    ),
    st.binary(max_size=50),
)
def test_any_spec_with_any_bytes(spec: ImageSpec, data: bytes) -> None:
    with suppress(FormatError, UnsupportedError):
        assert all(plane.nbytes <= 2 * len(data) for plane in image_planes(data, spec))


@given(st.integers(1, 9), st.integers(1, 4), st.sampled_from(["raw10", "grey10packed"]), st.data())
def test_ten_bits(width: int, height: int, pixel: str, data: st.DataObject) -> None:
    """Compare with the definition of the formats in plain arithmetic."""
    padding = data.draw(st.integers(0, 3))
    tight = raw(width, height, PIXEL_FORMATS[pixel])
    spec = raw(width, height, PIXEL_FORMATS[pixel], tight.row_nbytes + padding)
    stored = data.draw(st.binary(min_size=spec.raw_nbytes, max_size=spec.raw_nbytes))
    values = unpack_ten_bits(stored, spec)
    assert values.shape == (height, width)
    for y in range(height):
        for x in range(width):
            start = y * spec.row_nbytes + x // 4 * 5
            group = stored[start : start + 5]
            if pixel == "raw10":
                expected = group[x % 4] << 2 | group[4] >> 2 * (x % 4) & 3
            else:
                expected = int.from_bytes(group, "little") >> 10 * (x % 4) & 0x3FF
            assert values[y, x] == expected


def test_ten_bits_of_another_format() -> None:
    with pytest.raises(UnsupportedError, match="five bytes"):
        unpack_ten_bits(bytes(16), raw(4, 4, PixelFormat.GREY8))


@pytest.mark.parametrize(("width", "pixel"), [(4, PixelFormat.GREY16), (5, PixelFormat.RAW10)])
def test_raw10_becomes_grey16_where_the_reference_does_it(width: int, pixel: PixelFormat) -> None:
    spec = raw(width, 2, PixelFormat.RAW10)
    data = bytes(range(spec.raw_nbytes or 0))
    pixels, made = normalize(image_view(data, spec), spec)
    assert made.pixel_format == pixel
    if pixel == PixelFormat.GREY16:
        assert pixels.tolist() == (unpack_ten_bits(data, spec) << 6).tolist()


def test_floats_are_stretched() -> None:
    spec = raw(3, 2, PixelFormat.DEPTH32F)
    depth = np.array([[1, np.nan, 3], [2, 1.5, np.nan]], "<f4")
    pixels, made = normalize(depth, spec)
    assert pixels.tolist() == [[0, 0, 255], [127, 63, 0]]
    assert (made.pixel_format, made.buffer_size) == (PixelFormat.GREY8, 6)
    for constant in (np.nan, 7.0):
        pixels, _ = normalize(np.full((2, 3), constant, "<f4"), spec)
        assert not pixels.any()
    infinite, _ = normalize(np.array([[0, 1, np.inf], [0, 0, -np.inf]], "<f8"), spec)
    assert infinite.shape == (2, 3)


def test_coded_images_are_bytes() -> None:
    spec = ImageSpec(5, 3, image_format=ImageFormat.JPG)
    assert image_view(b"abc", spec).tolist() == [97, 98, 99]
