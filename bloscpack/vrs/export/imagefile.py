"""Images of recordings as files: the bytes and the suffix of each.

What is a file already is kept byte for byte: JPEG, PNG, JPEG XL. Raw images whose pixels PNG holds
exactly become PNG, those of floats, and colours of more than 8 bits, NumPy's .npy; YUV stays as
its bytes. Video frames are one stream, which only makes sense as a whole.
"""

import io
from typing import NamedTuple

import numpy as np

from ...exceptions import UnsupportedError
from ...media import image
from ...types import BytesLike
from ..block.imagecodec import video_codec
from ..block.pixels import (
    PACKED_FORMATS,
    PLANAR_FORMATS,
    Array,
    ImageFormat,
    ImageSpec,
    PixelFormat,
    image_view,
    unpack_ten_bits,
)

_SUFFIXES = {ImageFormat.JPG: ".jpg", ImageFormat.PNG: ".png", ImageFormat.JXL: ".jxl"}
_YUV = PLANAR_FORMATS | {PixelFormat.YUY2}


class Picture(NamedTuple):
    """An image as a file.

    Attributes
    ----------
    data : bytes-like
        The file.
    suffix : str
        What its name ends in, with the dot.
    is_part : bool
        Whether it is only a part of a stream of video, and belongs behind the parts before it.
    """

    data: BytesLike
    suffix: str
    is_part: bool = False


def picture_of(data: memoryview, spec: ImageSpec) -> Picture:
    """Return an image as a file.

    Parameters
    ----------
    data : memoryview
        The bytes of the block.
    spec : ImageSpec
        Of the block.

    Raises
    ------
    FormatError
        A raw image does not fit its bytes.
    ImportError
        Pillow is missing, and a PNG has to be made.
    """
    kind = spec.image_format
    if kind == ImageFormat.VIDEO:
        codec = video_codec(spec)
        return Picture(data, f".{codec}" if codec else ".video", is_part=True)
    if kind != ImageFormat.RAW:
        return Picture(data, _SUFFIXES.get(kind, ".bin"))
    try:
        pixels = _exact_pixels(data, spec)
    except UnsupportedError:
        return Picture(data, ".bin")
    if pixels is None:
        return Picture(data, ".yuv")
    if pixels.dtype.kind == "f" or (pixels.dtype.itemsize > 1 and pixels.ndim > 2):
        stream = io.BytesIO()
        np.save(stream, np.ascontiguousarray(pixels))
        return Picture(stream.getvalue(), ".npy")
    return Picture(image.encode_png(pixels), ".png")


def _exact_pixels(data: memoryview, spec: ImageSpec) -> Array | None:
    """Return all that a raw image says as an array, None for YUV."""
    pixel = spec.pixel_format
    if pixel in _YUV:
        return None
    if pixel in PACKED_FORMATS:
        return unpack_ten_bits(data, spec)
    pixels = image_view(data, spec)
    return pixels[..., ::-1] if pixel == PixelFormat.BGR8 else pixels
