"""Image blocks of VRS: pixel formats, sizes and strides, and views of the bytes as arrays.

A raw image is rows of `row_nbytes` bytes; planar YUV formats store one plane after another.
`image_view` returns an array that shares memory with the bytes, in the shape of the reference's
Python reader; `image_planes` returns all planes.

Contract: any bytes and any spec give a value, a `FormatError` or an `UnsupportedError`. The numbers
of a spec come from a file: sizes are compared with the available bytes before memory is allocated.
Layout: docs/formats/vrs.md.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from ...plugin import AnyArray, BytesLike, FormatError, TruncatedError, UnsupportedError

QUALITY_UNDEFINED = 255
_MAX_QUALITY = 100


class ImageFormat(IntEnum):
    """Coding of an image. The names, in lower case, are stored on disk."""

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
    """Format of a pixel. The numbers and the texts are stored on disk."""

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
"""Pixel format by its text in format strings."""
IMAGE_FORMATS = {str(image): image for image in ImageFormat}
"""Image format by its text in format strings."""


class ImageConversion(IntEnum):
    """Conversion of the images of records; the numbers are the reference's.

    - ``OFF``: raw images as views, other images as bytes.
    - ``RAW_BUFFER``: all images as bytes.
    - ``DECOMPRESS``: compressed images decoded.
    - ``NORMALIZE``: all images as rgb8, rgba8, grey8 or grey16.
    - ``NORMALIZE_GREY8``: as ``NORMALIZE``, but grey16 as grey8.
    - ``RECORD_UNREAD_BYTES_BACKDOOR``: the bytes of a record, from the first block that cannot be
      decoded to its end, as a grey8 image of one row.
    """

    OFF = 0
    DECOMPRESS = 1
    NORMALIZE = 2
    NORMALIZE_GREY8 = 3
    RAW_BUFFER = 4
    RECORD_UNREAD_BYTES_BACKDOOR = 5


_Shape = tuple[int, ...]
_U1 = np.dtype("u1")
# Formats whose pixels are whole samples: dtype of a sample, samples per pixel.
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
# Formats that store four pixels in five bytes.
RAW10_FORMATS = frozenset(
    (PixelFormat.RAW10, PixelFormat.RAW10_BAYER_RGGB, PixelFormat.RAW10_BAYER_BGGR)
)
PACKED_FORMATS = RAW10_FORMATS | {PixelFormat.GREY10PACKED}
_SEMI_PLANAR = frozenset((PixelFormat.YUV_420_NV21, PixelFormat.YUV_420_NV12))
PLANAR_FORMATS = _SEMI_PLANAR | {PixelFormat.YUV_I420_SPLIT}


# No slots: many frames share one spec, so the derived sizes are cached in its __dict__.
@dataclass(frozen=True)
class ImageSpec:
    """Properties of an image. Numbers are 0 if unknown.

    Attributes
    ----------
    width, height : int
        In pixels.
    stride, stride_2 : int
        Bytes from one row to the next, of the first plane and of the other planes, as stored; 0 for
        the smallest possible, see `row_nbytes` and `plane_row_nbytes`.
    pixel_format : PixelFormat
        Pixel format of the raw or decoded image.
    image_format : ImageFormat
        Coding of the bytes.
    codec_name : str
        Name of a video or custom codec.
    codec_quality : int
        0 to 100, or 255 if unknown.
    key_frame_timestamp : float or None
        Video: time of the last key frame in seconds.
    key_frame_index : int
        Video: number of frames since the last key frame.
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
        """Bytes of a pixel; 0 for formats whose pixels are not whole bytes."""
        dtype, samples = _SAMPLES.get(self.pixel_format, _NO_SAMPLES)
        return dtype.itemsize * samples

    @property
    def min_row_nbytes(self) -> int:
        """Bytes of the pixels in a row of the first plane; 0 without a pixel format."""
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
        """Bytes from one row of the first plane to the next."""
        return self.stride or self.min_row_nbytes

    @property
    def nplanes(self) -> int:
        """Number of planes."""
        if self.pixel_format == PixelFormat.YUV_I420_SPLIT:
            return 3
        return 2 if self.pixel_format in _SEMI_PLANAR else 1

    @property
    def min_plane_row_nbytes(self) -> int:
        """Bytes of the samples in a row of a plane after the first; 0 for a single plane."""
        if self.pixel_format == PixelFormat.YUV_I420_SPLIT:
            return (self.width + 1) // 2
        return self.width + self.width % 2 if self.pixel_format in _SEMI_PLANAR else 0

    @property
    def plane_row_nbytes(self) -> int:
        """Bytes from one row to the next in the planes after the first."""
        return self.stride_2 or self.min_plane_row_nbytes

    @cached_property
    def raw_nbytes(self) -> int | None:
        """Bytes of all planes of the raw image; None if the size or pixel format is unknown."""
        if not (self.width and self.height and self.pixel_format):
            return None
        first = self.row_nbytes * self.height
        return first + (self.nplanes - 1) * self.plane_row_nbytes * ((self.height + 1) // 2)

    @cached_property
    def _geometry(self) -> tuple[int, _Shape, np.dtype[Any], _Shape]:
        """Bytes of the raw image; shape, dtype and strides of its first plane."""
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
        """Whether `codec_quality` is set."""
        return self.codec_quality <= _MAX_QUALITY


_NO_SAMPLES = np.dtype("V0"), 0


def is_quality_valid(quality: int) -> bool:
    """Return whether `quality` is in the valid range, 0 to 100."""
    return 0 <= quality <= _MAX_QUALITY


def image_view(buffer: BytesLike, spec: ImageSpec) -> AnyArray:
    """Return the first plane of a raw image, or the bytes of a coded image.

    Parameters
    ----------
    buffer : bytes-like
        The bytes of the block; bytes after the image are ignored.
    spec : ImageSpec
        Spec of the image.

    Returns
    -------
    ndarray
        A view of `buffer`. Raw: ``(height, width)`` or ``(height, width, samples)`` of uint8,
        uint16, float32 or float64; yuy2 ``(height, width, 2)`` of uint8; formats of four pixels in
        five bytes ``(height, row_nbytes)`` of uint8; planar formats their first plane. Coded:
        uint8, one-dimensional.

    Raises
    ------
    FormatError
        The image does not fit into `buffer` (`TruncatedError`), or a row is longer than its stride.
    UnsupportedError
        A raw image without size or pixel format.
    """
    if spec.image_format != ImageFormat.RAW:
        return np.frombuffer(buffer, np.uint8)
    return _first_plane(buffer, spec)


def _first_plane(buffer: BytesLike, spec: ImageSpec) -> AnyArray:
    nbytes, shape, dtype, strides = spec._geometry
    if len(buffer) < nbytes:
        raise TruncatedError(f"{_text(spec)}: needs {nbytes} bytes, found {len(buffer)}")
    return np.ndarray(shape, dtype, buffer, 0, strides)


def image_planes(buffer: BytesLike, spec: ImageSpec) -> tuple[AnyArray, ...]:
    """Return all planes of a raw image as views of `buffer`.

    Returns
    -------
    tuple of ndarray
        The plane of `image_view`, then the chroma planes of planar formats. These have half as many
        rows and columns, rounded up: i420 has U and V ``(height, width)``, nv12 one plane of
        U and V pairs and nv21 one of V and U pairs ``(height, width, 2)``.

    Raises
    ------
    FormatError, UnsupportedError
        As for `image_view`.
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


def unpack_ten_bits(buffer: BytesLike, spec: ImageSpec) -> AnyArray:
    """Unpack an image that stores four pixels in five bytes to uint16, values of 0 to 1023.

    Pixel formats raw10, raw10_bayer_rggb and raw10_bayer_bggr have four high bytes, then a byte of
    their low bits; grey10packed has 40 bits, little-endian.
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
