"""Images as VRS stores them: pixel formats, sizes and strides, and views of the bytes as arrays.

A raw image is rows of `row_nbytes` bytes; of the YUV formats with planes, one plane after another.
`image_view` gives an array that shares memory with the bytes, in the shape the reference's Python
reader gives; `image_planes` gives all planes.

Contract: any bytes and any spec give a value, a `FormatError` or an `UnsupportedError`. Numbers of
a spec come from a file: sizes are compared with the bytes present before memory is taken.
Layout: docs/formats/vrs.md.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from ...exceptions import FormatError, TruncatedError, UnsupportedError
from ...types import BytesLike

Array = np.ndarray[Any, np.dtype[Any]]

QUALITY_UNDEFINED = 255
_MAX_QUALITY = 100


class ImageFormat(IntEnum):
    """How an image is coded. The names, in lower case, are stored on disk."""

    UNDEFINED = 0
    RAW = 1
    JPG = 2
    PNG = 3
    VIDEO = 4
    JXL = 5
    CUSTOM_CODEC = 6

    def __str__(self) -> str:
        return self.name.lower()


class PixelFormat(IntEnum):
    """What a pixel is. The numbers and the texts are stored on disk."""

    UNDEFINED = 0
    GREY8 = 1
    BGR8 = 2
    DEPTH32F = 3
    RGB8 = 4
    YUV_I420_SPLIT = 5
    RGBA8 = 6
    RGB10 = 7
    RGB12 = 8
    GREY10 = 9
    GREY12 = 10
    GREY16 = 11
    RGB32F = 12
    SCALAR64F = 13
    YUY2 = 14
    RGB_IR_RAW_4X4 = 15
    RGBA32F = 16
    BAYER8_RGGB = 17
    RAW10 = 18
    RAW10_BAYER_RGGB = 19
    RAW10_BAYER_BGGR = 20
    YUV_420_NV21 = 21
    YUV_420_NV12 = 22
    GREY10PACKED = 23
    BAYER8_BGGR = 24
    BAYER10_GBRG = 25
    BAYER8_GBRG = 26

    def __str__(self) -> str:
        return _PIXEL_TEXTS.get(self, self.name.lower())


_PIXEL_TEXTS = {
    PixelFormat.RGB32F: "rgb32F",
    PixelFormat.SCALAR64F: "scalar64F",
    PixelFormat.RGBA32F: "rgba32F",
    PixelFormat.RGB_IR_RAW_4X4: "rgb_ir_4x4",
}
PIXEL_FORMATS = {str(pixel): pixel for pixel in PixelFormat}
"""Pixel format by the text of format strings."""
IMAGE_FORMATS = {str(image): image for image in ImageFormat}
"""Image format by the text of format strings."""


class ImageConversion(IntEnum):
    """What to do with the images of records; the numbers are the reference's.

    ``OFF`` views raw images and gives others as bytes; ``RAW_BUFFER`` gives all as bytes;
    ``DECOMPRESS`` decodes compressed images; ``NORMALIZE`` makes everything rgb8, rgba8, grey8 or
    grey16, ``NORMALIZE_GREY8`` the same without 16 bits; ``RECORD_UNREAD_BYTES_BACKDOOR`` gives the
    bytes of a record from the first block that cannot be decoded as a grey8 image of one row.
    """

    OFF = 0
    DECOMPRESS = 1
    NORMALIZE = 2
    NORMALIZE_GREY8 = 3
    RAW_BUFFER = 4
    RECORD_UNREAD_BYTES_BACKDOOR = 5


_Shape = tuple[int, ...]
_U1 = np.dtype("u1")
# Formats of whole pixels: dtype of one sample, samples per pixel.
_SAMPLES: dict[PixelFormat, tuple[np.dtype[Any], int]] = {
    pixel: (np.dtype(dtype), samples)
    for dtype, samples, pixels in (
        ("u1", 1, (PixelFormat.GREY8, PixelFormat.RGB_IR_RAW_4X4, PixelFormat.BAYER8_RGGB)),
        ("u1", 1, (PixelFormat.BAYER8_BGGR, PixelFormat.BAYER8_GBRG)),
        ("u1", 3, (PixelFormat.RGB8, PixelFormat.BGR8)),
        ("u1", 4, (PixelFormat.RGBA8,)),
        ("<u2", 1, (PixelFormat.GREY10, PixelFormat.GREY12, PixelFormat.GREY16)),
        ("<u2", 1, (PixelFormat.BAYER10_GBRG,)),
        ("<u2", 3, (PixelFormat.RGB10, PixelFormat.RGB12)),
        ("<f4", 1, (PixelFormat.DEPTH32F,)),
        ("<f4", 3, (PixelFormat.RGB32F,)),
        ("<f4", 4, (PixelFormat.RGBA32F,)),
        ("<f8", 1, (PixelFormat.SCALAR64F,)),
    )
    for pixel in pixels
}
# Groups of four pixels in five bytes.
RAW10_FORMATS = frozenset(
    (PixelFormat.RAW10, PixelFormat.RAW10_BAYER_RGGB, PixelFormat.RAW10_BAYER_BGGR)
)
PACKED_FORMATS = RAW10_FORMATS | {PixelFormat.GREY10PACKED}
_SEMI_PLANAR = frozenset((PixelFormat.YUV_420_NV21, PixelFormat.YUV_420_NV12))
PLANAR_FORMATS = _SEMI_PLANAR | {PixelFormat.YUV_I420_SPLIT}


# No slots: what is computed from a spec is kept with it, as many frames have one spec.
@dataclass(frozen=True)
class ImageSpec:
    """What is known of an image. Numbers are 0 where nothing is said.

    Attributes
    ----------
    width, height : int
        In pixels.
    stride, stride_2 : int
        Bytes from one row to the next of the first plane and of the others, as the file says;
        0 for the smallest possible: see `row_nbytes` and `plane_row_nbytes`.
    pixel_format : PixelFormat
        Of the decoded image, if it is coded.
    image_format : ImageFormat
        How the bytes are coded.
    codec_name : str
        Of video and custom codecs.
    codec_quality : int
        0 to 100, or 255 where nothing is said.
    key_frame_timestamp : float or None
        Of video: when the last key frame was, in seconds.
    key_frame_index : int
        Of video: how many frames ago that was.
    buffer_size : int
        Bytes of the block.
    """

    width: int = 0
    height: int = 0
    stride: int = 0
    stride_2: int = 0
    pixel_format: PixelFormat = PixelFormat.UNDEFINED
    image_format: ImageFormat = ImageFormat.UNDEFINED
    codec_name: str = ""
    codec_quality: int = QUALITY_UNDEFINED
    key_frame_timestamp: float | None = None
    key_frame_index: int = 0
    buffer_size: int = 0

    @property
    def bytes_per_pixel(self) -> int:
        """Bytes of a pixel; 0 for formats whose pixels are no whole bytes."""
        dtype, samples = _SAMPLES.get(self.pixel_format, _NO_SAMPLES)
        return dtype.itemsize * samples

    @property
    def min_row_nbytes(self) -> int:
        """Bytes of the pixels of a row of the first plane; 0 without a pixel format."""
        pixel, width = self.pixel_format, self.width
        if pixel in PACKED_FORMATS:
            return (width + 3) // 4 * 5
        if pixel == PixelFormat.YUY2:
            return (width + 1) // 2 * 4
        if pixel in PLANAR_FORMATS:
            return width
        return width * self.bytes_per_pixel

    @property
    def row_nbytes(self) -> int:
        """Bytes from one row to the next of the first plane."""
        return self.stride or self.min_row_nbytes

    @property
    def nplanes(self) -> int:
        """How many planes there are."""
        if self.pixel_format == PixelFormat.YUV_I420_SPLIT:
            return 3
        return 2 if self.pixel_format in _SEMI_PLANAR else 1

    @property
    def min_plane_row_nbytes(self) -> int:
        """Bytes of the samples of a row of the planes after the first; 0 if there are none."""
        if self.pixel_format == PixelFormat.YUV_I420_SPLIT:
            return (self.width + 1) // 2
        return self.width + self.width % 2 if self.pixel_format in _SEMI_PLANAR else 0

    @property
    def plane_row_nbytes(self) -> int:
        """Bytes from one row to the next of the planes after the first."""
        return self.stride_2 or self.min_plane_row_nbytes

    @cached_property
    def raw_nbytes(self) -> int | None:
        """Bytes of the raw image, all planes; None if size or pixel format are not known."""
        if not (self.width and self.height and self.pixel_format):
            return None
        first = self.row_nbytes * self.height
        return first + (self.nplanes - 1) * self.plane_row_nbytes * ((self.height + 1) // 2)

    @cached_property
    def _geometry(self) -> tuple[int, _Shape, np.dtype[Any], _Shape]:
        """Bytes of the raw image, and shape, dtype and strides of its first plane."""
        nbytes = self.raw_nbytes
        if nbytes is None:
            raise UnsupportedError(
                f"{_text(self)}: a raw image needs width, height and pixel format"
            )
        stride = self.row_nbytes
        if stride < self.min_row_nbytes:
            raise FormatError(
                f"{_text(self)}: rows of {stride} bytes cannot hold {self.width} pixels"
                f" of {self.min_row_nbytes} bytes in all"
            )
        height, width, pixel = self.height, self.width, self.pixel_format
        if pixel in PACKED_FORMATS:
            return nbytes, (height, stride), _U1, (stride, 1)
        if pixel == PixelFormat.YUY2:
            return nbytes, (height, width, 2), _U1, (stride, 2, 1)
        dtype, samples = _SAMPLES.get(pixel, (_U1, 1))
        step = dtype.itemsize
        if samples == 1:
            return nbytes, (height, width), dtype, (stride, step)
        return nbytes, (height, width, samples), dtype, (stride, step * samples, step)

    @property
    def is_quality_known(self) -> bool:
        """Whether `codec_quality` says something."""
        return self.codec_quality <= _MAX_QUALITY


_NO_SAMPLES = np.dtype("V0"), 0


def is_quality_valid(quality: int) -> bool:
    """Return whether `quality` is one: 0 to 100."""
    return 0 <= quality <= _MAX_QUALITY


def image_view(buffer: BytesLike, spec: ImageSpec) -> Array:
    """Return the first plane of a raw image, or coded bytes as they are.

    Parameters
    ----------
    buffer : bytes-like
        The bytes of the block; more than needed are left alone.
    spec : ImageSpec
        Of `ImageFormat.RAW` for pixels.

    Returns
    -------
    ndarray
        A view of `buffer`. Raw: ``(height, width)`` or ``(height, width, samples)`` of uint8,
        uint16, float32 or float64; yuy2 ``(height, width, 2)`` of uint8; formats of five bytes for
        four pixels ``(height, row_nbytes)`` of uint8; planar formats their first plane. Others:
        uint8, one-dimensional.

    Raises
    ------
    FormatError
        The image does not fit `buffer` (`TruncatedError`), or a row its stride.
    UnsupportedError
        A raw image without size or pixel format.
    """
    if spec.image_format != ImageFormat.RAW:
        return np.frombuffer(buffer, np.uint8)
    return _first_plane(buffer, spec)


def _first_plane(buffer: BytesLike, spec: ImageSpec) -> Array:
    nbytes, shape, dtype, strides = spec._geometry
    if len(buffer) < nbytes:
        raise TruncatedError(f"{_text(spec)}: {nbytes} bytes needed, {len(buffer)} there")
    return np.ndarray(shape, dtype, buffer, 0, strides)


def image_planes(buffer: BytesLike, spec: ImageSpec) -> tuple[Array, ...]:
    """Return all planes of a raw image as views of `buffer`.

    Returns
    -------
    tuple of ndarray
        `image_view` and, of planar formats, half as many rows and columns (rounded up) of the
        others: of i420 U and V ``(height, width)``, of nv12 one of U and V pairs and of nv21 one of
        V and U pairs ``(height, width, 2)``.

    Raises
    ------
    FormatError, UnsupportedError
        As `image_view`.
    """
    first = _first_plane(buffer, spec)
    if spec.nplanes == 1:
        return (first,)
    stride = spec.plane_row_nbytes
    if stride < spec.min_plane_row_nbytes:
        raise FormatError(
            f"{_text(spec)}: rows of {stride} bytes cannot hold the"
            f" {spec.min_plane_row_nbytes} bytes of a row of its second plane"
        )
    height, width = (spec.height + 1) // 2, (spec.width + 1) // 2
    start = spec.row_nbytes * spec.height
    if spec.nplanes == 2:
        return first, np.ndarray((height, width, 2), _U1, buffer, start, (stride, 2, 1))
    u, v = (
        np.ndarray((height, width), _U1, buffer, start + i * stride * height, (stride, 1))
        for i in range(2)
    )
    return first, u, v


def unpack_ten_bits(buffer: BytesLike, spec: ImageSpec) -> Array:
    """Return the pixels of an image of four pixels in five bytes.

    Parameters
    ----------
    buffer : bytes-like
        The bytes of the block.
    spec : ImageSpec
        Of raw10, raw10_bayer_rggb, raw10_bayer_bggr (the four high bytes, then their low bits) or
        grey10packed (40 bits, little-endian).

    Returns
    -------
    ndarray
        uint16, ``(height, width)``, values of 0 to 1023; a copy.

    Raises
    ------
    FormatError, UnsupportedError
        As `image_view`; of another pixel format.
    """
    pixel = spec.pixel_format
    if pixel not in PACKED_FORMATS:
        raise UnsupportedError(f"{_text(spec)}: not four pixels in five bytes")
    rows = _first_plane(buffer, spec)[:, : spec.min_row_nbytes]
    groups = rows.reshape(spec.height, -1, 5).astype(np.uint16)
    shifts = np.arange(0, 8, 2, dtype=np.uint16)
    if pixel in RAW10_FORMATS:
        values = groups[..., :4] << 2 | groups[..., 4:] >> shifts & 3
    else:
        values = groups[..., :4] >> shifts | groups[..., 1:] << (8 - shifts)
        values &= 0x3FF
    return values.reshape(spec.height, -1)[:, : spec.width]


def _text(spec: ImageSpec) -> str:
    return f"{spec.image_format} image of {spec.width}x{spec.height} {spec.pixel_format}"
