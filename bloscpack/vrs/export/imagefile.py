"""Images of recordings as files: bytes and suffix of each.

JPEG, PNG and JPEG XL images are copied byte for byte. Raw images become PNG if PNG holds their
pixels exactly. Floats, and colours of more than 8 bits, become NumPy's .npy; YUV stays raw bytes.
Video frames are parts of one stream, which can only be played as a whole.
"""

import io
from typing import NamedTuple

import numpy as np

from ...plugin import AnyArray, BytesLike, UnsupportedError, image
from ..block.imagecodec import video_codec
from ..block.pixels import (
    PACKED_FORMATS,
    PLANAR_FORMATS,
    ImageFormat,
    ImageSpec,
    PixelFormat,
    image_view,
    unpack_ten_bits,
)

_SUFFIXES = {ImageFormat.JPG: ".jpg", ImageFormat.PNG: ".png", ImageFormat.JXL: ".jxl"}
_YUV = PLANAR_FORMATS | {PixelFormat.YUY2}


class Picture(NamedTuple):
    """Bytes and suffix of an image file."""

    data: BytesLike  # content of the file
    suffix: str  # suffix of the file name, with the dot
    # Whether the image is part of a video stream, to be appended to the parts before it.
    is_part: bool = False


def picture_of(data: memoryview, spec: ImageSpec) -> Picture:
    """Return an image as a file; a PNG that has to be made needs Pillow."""
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


def _exact_pixels(data: memoryview, spec: ImageSpec) -> AnyArray | None:
    """Return the pixels of a raw image without loss as an array, or None for YUV."""
    pixel = spec.pixel_format
    if pixel in _YUV:
        return None
    if pixel in PACKED_FORMATS:
        return unpack_ten_bits(data, spec)
    pixels = image_view(data, spec)
    return pixels[..., ::-1] if pixel == PixelFormat.BGR8 else pixels
