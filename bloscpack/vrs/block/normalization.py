"""Raw images converted to 8 or 16 bits per sample, for display.

The rules are those of the reference (1.4.0, ``PixelFrame::normalizeFrame``): of integers the high
bits are kept; of floats the least becomes 0 and the greatest 255, per channel, and NaN 0; Bayer
patterns are left as they are. Planar YUV becomes rgb8 if width and height are even, as in the PyPI
package ``vrs`` 1.2.2; else its first plane is used, which is its brightness.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .pixels import PACKED_FORMATS, PLANAR_FORMATS, ImageSpec, PixelFormat, unpack_ten_bits
from .pixels import RAW10_FORMATS as _RAW10

Array = np.ndarray[Any, np.dtype[Any]]


def normalize(pixels: Array, spec: ImageSpec, *, grey16: bool = True) -> tuple[Array, ImageSpec]:
    """Convert a raw image to rgb8, rgba8, grey8 or grey16, as the reference does.

    Parameters
    ----------
    pixels : ndarray
        What `image_view` gives for `spec`, or a contiguous copy of it.
    spec : ImageSpec
        Of the image.
    grey16 : bool
        Whether grey of more than 8 bits may become grey16.

    Returns
    -------
    pixels : ndarray
        `pixels` itself if nothing has to be done: raw10 whose width is no multiple of 4 is left
        alone by the reference if `grey16`; else a copy.
    spec : ImageSpec
        Of the result.
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
        return _made(convert(pixels), spec, result)
    return pixels, spec


def _normalize_grey(
    values: Array, spec: ImageSpec, bits: int, *, grey16: bool
) -> tuple[Array, ImageSpec]:
    if grey16:
        return _made(values << (16 - bits), spec, PixelFormat.GREY16)
    return _made((values >> (bits - 8)).astype(np.uint8), spec, PixelFormat.GREY8)


def _made(pixels: Array, spec: ImageSpec, pixel_format: PixelFormat) -> tuple[Array, ImageSpec]:
    pixels = np.ascontiguousarray(pixels)
    made = replace(spec, pixel_format=pixel_format, stride=0, stride_2=0, buffer_size=pixels.nbytes)
    return pixels, made


def _same(pixels: Array) -> Array:
    return pixels


def _swap_red_and_blue(pixels: Array) -> Array:
    return pixels[..., ::-1]


def _high_of_ten(pixels: Array) -> Array:
    return (pixels >> 2).astype(np.uint8)


def _high_of_twelve(pixels: Array) -> Array:
    return (pixels >> 4).astype(np.uint8)


def _repeat_thrice(pixels: Array) -> Array:
    return np.repeat(pixels[..., None], 3, axis=-1)


def _stretch_channels(pixels: Array) -> Array:
    """Return red, green and blue, each stretched for itself, without alpha."""
    return np.stack([_stretch(pixels[..., i]) for i in range(3)], axis=-1)


def _stretch(values: Array) -> Array:
    """Return floats as uint8, the least as 0 and the greatest as 255; equal ones all as 0."""
    known = ~np.isnan(values)
    out = np.zeros(values.shape, np.uint8)
    if not known.any():
        return out
    least, greatest = values[known].min(), values[known].max()
    if not least < greatest:
        return out
    # Infinities make NaN here, which the mask below leaves 0.
    with np.errstate(all="ignore"):
        scaled = (values - least) * (values.dtype.type(255) / (greatest - least))
    known = np.isfinite(scaled)
    out[known] = scaled[known].astype(np.uint8)
    return out


def _yuy2_to_rgb(pixels: Array) -> Array:
    """Return rgb8 for Y and chroma in turn; of an odd width the last column stays black."""
    height, width = pixels.shape[:2]
    even = width // 2 * 2
    pairs = pixels[:, :even].reshape(height, -1, 4)
    out = np.zeros((height, width, 3), np.uint8)
    out[:, :even] = _to_rgb(pairs[..., 0::2], pairs[..., 1:2], pairs[..., 3:4]).reshape(
        height, even, 3
    )
    return out


def planar_to_rgb(planes: tuple[Array, ...], spec: ImageSpec) -> tuple[Array, ImageSpec]:
    """Convert a planar YUV image of even width and height to rgb8.

    Parameters
    ----------
    planes : tuple of ndarray
        What `image_planes` gives for `spec`.
    spec : ImageSpec
        Of the image.

    Notes
    -----
    The package ``vrs`` 1.2.2 does so, with less precise arithmetic: its samples are up to 4 away.
    """
    first = planes[0]
    if len(planes) == 3:
        blue, red = planes[1:]
    elif spec.pixel_format == PixelFormat.YUV_420_NV21:
        red, blue = planes[1][..., 0], planes[1][..., 1]
    else:
        blue, red = planes[1][..., 0], planes[1][..., 1]
    height, width = first.shape
    # Blocks of two by two pixels have their chroma in common.
    blocks = first.reshape(height // 2, 2, width // 2, 2)
    chroma = blue[:, None, :, None], red[:, None, :, None]
    return _made(_to_rgb(blocks, *chroma).reshape(height, width, 3), spec, PixelFormat.RGB8)


def _to_rgb(luma: Array, blue: Array, red: Array) -> Array:
    """Return rgb8 for samples of BT.601 with 16 to 235 for black to white."""
    bright = 298 * (luma.astype(np.int32) - 16) + 128
    blue, red = blue.astype(np.int32) - 128, red.astype(np.int32) - 128
    channels = bright + 409 * red, bright - 100 * blue - 208 * red, bright + 516 * blue
    return np.stack(
        [np.clip(channel >> 8, 0, 255).astype(np.uint8) for channel in channels], axis=-1
    )


# Bits of a grey pixel of more than 8.
_GREY_BITS = {
    PixelFormat.GREY10: 10,
    PixelFormat.BAYER10_GBRG: 10,
    PixelFormat.GREY12: 12,
    PixelFormat.GREY16: 16,
}
_CONVERSIONS: dict[PixelFormat, tuple[Callable[[Array], Array], PixelFormat]] = {
    PixelFormat.BAYER8_RGGB: (_same, PixelFormat.GREY8),
    PixelFormat.BAYER8_BGGR: (_same, PixelFormat.GREY8),
    PixelFormat.BAYER8_GBRG: (_same, PixelFormat.GREY8),
    PixelFormat.BGR8: (_swap_red_and_blue, PixelFormat.RGB8),
    PixelFormat.RGB10: (_high_of_ten, PixelFormat.RGB8),
    PixelFormat.RGB12: (_high_of_twelve, PixelFormat.RGB8),
    PixelFormat.RGB32F: (_stretch_channels, PixelFormat.RGB8),
    PixelFormat.RGBA32F: (_stretch_channels, PixelFormat.RGB8),
    PixelFormat.DEPTH32F: (_stretch, PixelFormat.GREY8),
    PixelFormat.SCALAR64F: (_stretch, PixelFormat.GREY8),
    PixelFormat.RGB_IR_RAW_4X4: (_repeat_thrice, PixelFormat.RGB8),
    PixelFormat.YUY2: (_yuy2_to_rgb, PixelFormat.RGB8),
    **dict.fromkeys(PLANAR_FORMATS, (_same, PixelFormat.GREY8)),
}
