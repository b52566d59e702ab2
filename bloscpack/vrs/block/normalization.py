"""Conversion of raw images to 8 or 16 bits per sample, for display.

The rules are those of the reference (1.4.0, ``PixelFrame::normalizeFrame``). Integers keep their
high bits. Floats are scaled per channel, the smallest value to 0 and the largest to 255; NaN
becomes 0. Bayer patterns are not demosaiced. Planar YUV becomes rgb8 if width and height are even,
as in the PyPI package ``vrs`` 1.2.2; otherwise its first plane, the brightness, is used.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...plugin import AnyArray
from .pixels import PACKED_FORMATS, PLANAR_FORMATS, ImageSpec, PixelFormat, unpack_ten_bits
from .pixels import RAW10_FORMATS as _RAW10


def normalize(
    pixels: AnyArray, spec: ImageSpec, *, grey16: bool = True
) -> tuple[AnyArray, ImageSpec]:
    """Convert a raw image to rgb8, rgba8, grey8 or grey16, as the reference does.

    `pixels` is the result of `image_view` or a contiguous copy of it; it is returned itself if it
    needs no conversion. With `grey16`, grey of more than 8 bits may become grey16, and raw10 whose
    width is not a multiple of 4 is not converted, as in the reference.
    """
    pixel = spec.pixel_format
    if pixel in _GREY_BITS:
        return _normalize_grey(pixels, spec, _GREY_BITS[pixel], grey16=grey16)
    if pixel in PACKED_FORMATS:
        if grey16 and spec.width % 4 and pixel in _RAW10:
            return pixels, spec
        tight = np.ascontiguousarray(pixels[:, : spec.min_row_nbytes])
        values = unpack_ten_bits(tight.data.cast("B"), replace(spec, stride=0))
        return _normalize_grey(values, spec, 10, grey16=grey16)
    if pixel in _CONVERSIONS:
        convert, result = _CONVERSIONS[pixel]
        return _result(convert(pixels), spec, result)
    return pixels, spec


def _normalize_grey(
    values: AnyArray, spec: ImageSpec, bits: int, *, grey16: bool
) -> tuple[AnyArray, ImageSpec]:
    if grey16:
        return _result(values << (16 - bits), spec, PixelFormat.GREY16)
    return _result((values >> (bits - 8)).astype(np.uint8), spec, PixelFormat.GREY8)


def _result(
    pixels: AnyArray, spec: ImageSpec, pixel_format: PixelFormat
) -> tuple[AnyArray, ImageSpec]:
    pixels = np.ascontiguousarray(pixels)
    new_spec = replace(
        spec, pixel_format=pixel_format, stride=0, stride_2=0, buffer_size=pixels.nbytes
    )
    return pixels, new_spec


def _same(pixels: AnyArray) -> AnyArray:
    return pixels


def _stretch_channels(pixels: AnyArray) -> AnyArray:
    """Stretch red, green and blue separately; drop alpha."""
    return np.stack([_stretch(pixels[..., i]) for i in range(3)], axis=-1)


def _stretch(values: AnyArray) -> AnyArray:
    """Scale floats to uint8, the smallest to 0 and the largest to 255; all 0 if they are equal."""
    known = ~np.isnan(values)
    out = np.zeros(values.shape, np.uint8)
    if not known.any():
        return out
    least, greatest = values[known].min(), values[known].max()
    if not least < greatest:
        return out
    # Infinities give NaN here; the mask below leaves those pixels at 0.
    with np.errstate(all="ignore"):
        scaled = (values - least) * (values.dtype.type(255) / (greatest - least))
    known = np.isfinite(scaled)
    out[known] = scaled[known].astype(np.uint8)
    return out


def _yuy2_to_rgb(pixels: AnyArray) -> AnyArray:
    """Convert YUY2 to rgb8; the last column of an odd width stays black."""
    height, width = pixels.shape[:2]
    even = width // 2 * 2
    pairs = pixels[:, :even].reshape(height, -1, 4)
    out = np.zeros((height, width, 3), np.uint8)
    out[:, :even] = _to_rgb(pairs[..., 0::2], pairs[..., 1:2], pairs[..., 3:4]).reshape(
        height, even, 3
    )
    return out


def planar_to_rgb(planes: tuple[AnyArray, ...], spec: ImageSpec) -> tuple[AnyArray, ImageSpec]:
    """Convert the planes of a planar YUV image of even width and height to rgb8.

    The package ``vrs`` 1.2.2 uses less precise arithmetic: its samples differ by up to 4.
    """
    first = planes[0]
    if len(planes) == 3:
        blue, red = planes[1:]
    elif spec.pixel_format == PixelFormat.YUV_420_NV21:
        red, blue = planes[1][..., 0], planes[1][..., 1]
    else:
        blue, red = planes[1][..., 0], planes[1][..., 1]
    height, width = first.shape
    # Blocks of two by two pixels share their chroma.
    blocks = first.reshape(height // 2, 2, width // 2, 2)
    chroma = blue[:, None, :, None], red[:, None, :, None]
    return _result(_to_rgb(blocks, *chroma).reshape(height, width, 3), spec, PixelFormat.RGB8)


def _to_rgb(luma: AnyArray, blue: AnyArray, red: AnyArray) -> AnyArray:
    """Convert BT.601 samples, black to white as 16 to 235, to rgb8."""
    bright = 298 * (luma.astype(np.int32) - 16) + 128
    blue, red = blue.astype(np.int32) - 128, red.astype(np.int32) - 128
    channels = bright + 409 * red, bright - 100 * blue - 208 * red, bright + 516 * blue
    return np.stack(
        [np.clip(channel >> 8, 0, 255).astype(np.uint8) for channel in channels], axis=-1
    )


# Bits per pixel of grey formats with more than 8 bits.
_GREY_BITS = {
    PixelFormat.GREY10: 10,
    PixelFormat.BAYER10_GBRG: 10,
    PixelFormat.GREY12: 12,
    PixelFormat.GREY16: 16,
}
_CONVERSIONS: dict[PixelFormat, tuple[Callable[[AnyArray], AnyArray], PixelFormat]] = {
    PixelFormat.BAYER8_RGGB: (_same, PixelFormat.GREY8),
    PixelFormat.BAYER8_BGGR: (_same, PixelFormat.GREY8),
    PixelFormat.BAYER8_GBRG: (_same, PixelFormat.GREY8),
    PixelFormat.BGR8: (lambda pixels: pixels[..., ::-1], PixelFormat.RGB8),
    PixelFormat.RGB10: (lambda pixels: (pixels >> 2).astype(np.uint8), PixelFormat.RGB8),
    PixelFormat.RGB12: (lambda pixels: (pixels >> 4).astype(np.uint8), PixelFormat.RGB8),
    PixelFormat.RGB32F: (_stretch_channels, PixelFormat.RGB8),
    PixelFormat.RGBA32F: (_stretch_channels, PixelFormat.RGB8),
    PixelFormat.DEPTH32F: (_stretch, PixelFormat.GREY8),
    PixelFormat.SCALAR64F: (_stretch, PixelFormat.GREY8),
    PixelFormat.RGB_IR_RAW_4X4: (
        lambda pixels: np.repeat(pixels[..., None], 3, axis=-1),
        PixelFormat.RGB8,
    ),
    PixelFormat.YUY2: (_yuy2_to_rgb, PixelFormat.RGB8),
    **dict.fromkeys(PLANAR_FORMATS, (_same, PixelFormat.GREY8)),
}
