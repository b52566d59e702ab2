"""Declarations of the blocks of a record to write: images, audio, custom bytes.

A declaration holds the block's part of the record format and turns values into the bytes of a
block. A value is a numpy array of exactly the declared shape and type, or bytes, which are written
unchanged. Anything else raises `TypeError` or `ValueError` before a byte is written. Arrays with
the memory layout of the file are not copied.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import index
from typing import Any, Literal, TypeVar

import numpy as np

from ...plugin import AnyArray, BytesLike, encode_jpeg, encode_png
from ..block.audio import (
    AUDIO_FORMATS,
    SAMPLE_FORMATS,
    AudioFormat,
    AudioSpec,
    SampleFormat,
    audio_view,
)
from ..block.pixels import (
    IMAGE_FORMATS,
    PIXEL_FORMATS,
    QUALITY_UNDEFINED,
    ImageFormat,
    ImageSpec,
    PixelFormat,
    image_planes,
    is_quality_valid,
)
from ..format.recordformat import ContentBlock, ContentType, custom_format_name

_JPEG_QUALITY = 90
_UINT32 = 0xFFFFFFFF


def as_bytes(value: object, what: str) -> memoryview:
    """Return a view of bytes or of a one-dimensional array of uint8."""
    try:
        view = memoryview(value)  # type: ignore[arg-type]  # raises TypeError for other objects
    except TypeError:
        raise TypeError(f"{what}: expected bytes, not {type(value).__name__}") from None
    if view.ndim > 1 or view.itemsize != 1:
        raise TypeError(f"{what}: expected bytes, not {view.ndim} dimensions of {view.format!r}")
    if not view.c_contiguous:
        raise ValueError(f"{what}: the bytes are not contiguous")
    return view.cast("B")


def _array_bytes(array: AnyArray) -> memoryview:
    """Return the little-endian bytes in C order; a view if the array has that layout."""
    stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return stored.reshape(-1).view(np.uint8).data if stored.size else memoryview(b"")


def _check_array(array: AnyArray, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    if array.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise TypeError(f"{what}: an array of {array.dtype}, expected {dtype}")
    if array.shape != shape:
        raise ValueError(f"{what}: an array of shape {array.shape}, expected {shape}")


def _as_number(name: str, value: int, limit: int = _UINT32) -> int:
    """Return an integer as an int, in which products of numpy's integers cannot overflow."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} {value!r:.80}: expected an integer") from None
    if not 0 <= number <= limit:
        raise ValueError(f"{name} {number}: expected 0 to {limit}")
    return number


def _as_size(size: int | None) -> int | None:
    """Return the size of a block, None if unknown; ValueError if it does not fit a record."""
    return None if size is None else _as_number("size", size)


def _check_nbytes(view: memoryview, expected: int | None, what: str) -> memoryview:
    if expected is not None and view.nbytes != expected:
        raise ValueError(f"{what}: {view.nbytes} bytes, expected {expected}")
    return view


_Member = TypeVar("_Member")


def _named(table: dict[str, _Member], of: object, what: str) -> _Member:
    """Return the enum member with this text; a member returns itself."""
    found = table.get(str(of))
    if found is None:
        raise ValueError(f"{what} {of!r}: expected one of {', '.join(table)}")
    return found


class Image:
    """Declaration of an image block.

    A raw image is written from an array of the shape that readers return: ``(height, width)`` or
    ``(height, width, samples)``. Planar formats take a sequence of all planes, as `image_planes`
    returns them. Formats of four pixels in five bytes take ``(height, row bytes)`` of uint8. Coded
    images are bytes; ``"jpg"`` and ``"png"`` also encode an array. Bytes are always written
    unchanged.

    Parameters
    ----------
    image_format : str or ImageFormat, optional
        ``"raw"``, ``"jpg"``, ``"png"``, ``"jxl"``, ``"video"`` or ``"custom_codec"``.
    width, height : int, optional
        In pixels. If a raw image leaves them out, a layout in the record or in the last
        configuration record must give them (`ImageLayout`).
    pixel_format : str or PixelFormat, optional
        ``"grey8"``, ``"rgb8"``, ...
    stride, stride_2 : int, optional
        Bytes from one row to the next, of the first plane and of the others; by default the
        bytes of one row.
    codec_name : str, optional
        Codec of video and custom images.
    codec_quality : int, optional
        0 to 100; for ``"jpg"`` the quality that arrays are encoded with, 90 by default.
    key_frame_timestamp : float, optional
        Time of the key frame of a video in seconds, if it is the same in all records.
    key_frame_index : int, optional
        Position of a video frame after its key frame, if it is the same in all records.
    size : int, optional
        Bytes of the block, if all records have the same number.

    Attributes
    ----------
    block : ContentBlock
        The block's part of the record format.

    Raises
    ------
    TypeError
        A number is not an integer.
    ValueError
        The format is unknown, or a number is out of range.
    """

    def __init__(
        self,
        image_format: str | ImageFormat = ImageFormat.RAW,
        width: int = 0,
        height: int = 0,
        pixel_format: str | PixelFormat = PixelFormat.UNDEFINED,
        *,
        stride: int = 0,
        stride_2: int = 0,
        codec_name: str = "",
        codec_quality: int | None = None,
        key_frame_timestamp: float | None = None,
        key_frame_index: int = 0,
        size: int | None = None,
    ) -> None:
        given = {"width": width, "height": height, "stride": stride, "stride_2": stride_2}
        numbers = {name: _as_number(name, number) for name, number in given.items()}
        if codec_quality is not None and not is_quality_valid(codec_quality):
            raise ValueError(f"codec_quality {codec_quality}: expected 0 to 100")
        size = _as_size(size)
        spec = ImageSpec(
            **numbers,
            pixel_format=_named(PIXEL_FORMATS, pixel_format, "pixel format"),
            image_format=_named(IMAGE_FORMATS, image_format, "image format"),
            codec_name=codec_name,
            codec_quality=QUALITY_UNDEFINED if codec_quality is None else codec_quality,
            key_frame_timestamp=key_frame_timestamp,
            key_frame_index=_as_number("key_frame_index", key_frame_index),
        )
        self.block = ContentBlock(ContentType.IMAGE, size, image=spec)
        self._what = f"{spec.image_format} image"
        is_raw = spec.image_format == ImageFormat.RAW
        # Shape and dtype of each plane, known if all raw images have the same form.
        self._planes: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...] = ()
        self._is_dense = False
        self._nbytes = size
        if is_raw and (nbytes := spec.raw_nbytes) is not None:
            _as_size(nbytes)
            if size not in (None, nbytes):
                raise ValueError(f"size {size}: the image has {nbytes} bytes")
            self._nbytes = nbytes
            # Only the shapes are used: the memory is never touched.
            planes = image_planes(np.empty(nbytes, np.uint8).data, spec)
            self._planes = tuple((plane.shape, plane.dtype) for plane in planes)
            self._is_dense = planes[0].nbytes == nbytes and planes[0].flags.c_contiguous

    def encode(self, value: Any) -> memoryview:
        """Return the bytes of the block; a view of the value where no copy is needed.

        Raises
        ------
        TypeError, ValueError
            The value does not fit the declaration.
        """
        if isinstance(value, np.ndarray) and (value.ndim != 1 or value.dtype != np.uint8):
            value = self._encode_array(value)
        elif self._planes and isinstance(value, list | tuple):
            value = self._encode_planes(value)
        return _check_nbytes(as_bytes(value, self._what), self._nbytes, self._what)

    def _encode_array(self, array: AnyArray) -> BytesLike:
        image_format = self.block.image.image_format
        if self._planes:
            return self._encode_planes([array])
        if image_format == ImageFormat.JPG:
            spec = self.block.image
            quality = spec.codec_quality if spec.is_quality_known else _JPEG_QUALITY
            return encode_jpeg(array, quality=quality)
        if image_format == ImageFormat.PNG:
            return encode_png(array)
        if image_format == ImageFormat.RAW:
            return _array_bytes(array)
        raise TypeError(f"{self._what}: expected bytes, not an array of shape {array.shape}")

    def _encode_planes(self, planes: Sequence[AnyArray]) -> BytesLike:
        if len(planes) != len(self._planes):
            raise ValueError(f"{self._what}: {len(planes)} planes, expected {len(self._planes)}")
        arrays = [np.asarray(plane) for plane in planes]
        for array, plane in zip(arrays, self._planes, strict=True):
            _check_array(array, *plane, self._what)
        if self._is_dense:
            return _array_bytes(arrays[0])
        buffer = np.zeros(self._nbytes or 0, np.uint8)
        for target, array in zip(image_planes(buffer.data, self.block.image), arrays, strict=True):
            target[...] = array
        return buffer.data


class Audio:
    """Declaration of an audio block.

    PCM is written from arrays ``(samples, channels)``, or ``(samples,)`` for one channel. The dtype
    is the one that readers return: that of the sample format, int32 or uint32 for 24 bits. Arrays
    of any byte order are accepted. Bytes are written unchanged.

    Parameters
    ----------
    sample_format : str or SampleFormat, optional
        ``"int16le"``, ``"float32le"``, ... If it is left out, a layout right before the block or
        in the last configuration record must give it (`AudioLayout`).
    channels : int, optional
        Samples per frame, at most 255.
    rate : int, optional
        Frames per second.
    samples : int, optional
        Frames in a block, if all have the same number.
    stride : int, optional
        Bytes from one frame to the next, at most 255; by default the bytes of one frame.
    audio_format : str or AudioFormat, optional
        ``"pcm"`` or ``"opus"``.
    size : int, optional
        Bytes of the block, if all records have the same number.

    Attributes
    ----------
    block : ContentBlock
        The block's part of the record format.

    Raises
    ------
    TypeError
        A number is not an integer.
    ValueError
        The format is unknown, or a number is out of range.
    """

    def __init__(
        self,
        sample_format: str | SampleFormat = SampleFormat.UNDEFINED,
        channels: int = 0,
        rate: int = 0,
        *,
        samples: int = 0,
        stride: int = 0,
        audio_format: str | AudioFormat = AudioFormat.PCM,
        size: int | None = None,
    ) -> None:
        channels, rate = _as_number("channels", channels, 0xFF), _as_number("rate", rate)
        samples, stride = _as_number("samples", samples), _as_number("stride", stride, 0xFF)
        size = _as_size(size)
        spec = AudioSpec(
            _named(AUDIO_FORMATS, audio_format, "audio format"),
            _named(SAMPLE_FORMATS, sample_format, "sample format"),
            channels,
            rate,
            samples,
            stride,
        )
        if stride and stride < spec.min_frame_nbytes:
            raise ValueError(f"stride {stride}: a frame has {spec.min_frame_nbytes} bytes")
        self.block = ContentBlock(ContentType.AUDIO, size, audio=spec)
        self._what = f"{spec.audio_format} audio"
        is_pcm = spec.audio_format == AudioFormat.PCM
        self._is_known = is_pcm and spec.min_frame_nbytes > 0
        nbytes = spec.pcm_nbytes if self._is_known else None
        _as_size(nbytes)
        if nbytes is not None and size not in (None, nbytes):
            raise ValueError(f"size {size}: the samples have {nbytes} bytes")
        self._nbytes = size if nbytes is None else nbytes
        if self._is_known:
            one = replace(spec, sample_count=1)
            self._dtype = audio_view(bytes(spec.frame_nbytes), one).dtype

    def encode(self, value: Any) -> memoryview:
        """Return the bytes of the block; a view of the value where no copy is needed.

        Raises
        ------
        TypeError, ValueError
            The value does not fit the declaration.
        """
        if isinstance(value, np.ndarray):
            if self._is_known:
                value = self._encode_samples(value)
            elif self.block.audio.audio_format == AudioFormat.PCM:
                value = _array_bytes(value)
        view = as_bytes(value, self._what)
        if self._is_known and view.nbytes % self.block.audio.frame_nbytes:
            raise ValueError(
                f"{self._what}: {view.nbytes} bytes is not a whole number of frames of"
                f" {self.block.audio.frame_nbytes} bytes"
            )
        return _check_nbytes(view, self._nbytes, self._what)

    def _encode_samples(self, array: AnyArray) -> memoryview:
        spec = self.block.audio
        if array.ndim == 1 and spec.channel_count == 1:
            array = array[:, np.newaxis]
        shape = spec.sample_count or len(array), spec.channel_count
        _check_array(array, shape, self._dtype, self._what)
        order: Literal["<", ">"] = ">" if str(spec.sample_format).endswith("be") else "<"
        if spec.bytes_per_sample == 3:
            stored = self._narrow(array, order)
        else:
            stored = np.ascontiguousarray(array, array.dtype.newbyteorder(order))
        frames = stored.reshape(-1).view(np.uint8).reshape(len(array), spec.min_frame_nbytes)
        if spec.frame_nbytes > spec.min_frame_nbytes:
            padded = np.zeros((len(array), spec.frame_nbytes), np.uint8)
            padded[:, : spec.min_frame_nbytes] = frames
            frames = padded
        return frames.reshape(-1).data

    def _narrow(self, array: AnyArray, order: Literal["<", ">"]) -> AnyArray:
        """Pack 24-bit samples into three bytes each."""
        signed = self._dtype.kind == "i"
        low, high = (-(1 << 23), 1 << 23) if signed else (0, 1 << 24)
        if array.size and not (low <= int(array.min()) and int(array.max()) < high):
            raise ValueError(f"{self._what}: samples of 24 bits are {low} to {high - 1}")
        four = np.ascontiguousarray(array, array.dtype.newbyteorder(order))
        parts = four.view(np.uint8).reshape(*array.shape, 4)
        return np.ascontiguousarray(parts[..., :3] if order == "<" else parts[..., 1:])


class Custom:
    """Declaration of a custom block: bytes that only the program that wrote them understands.

    Parameters
    ----------
    custom_format : str, optional
        Name of the content: letters, digits and some punctuation.
    size : int, optional
        Bytes of the block, if all records have the same number.

    Attributes
    ----------
    block : ContentBlock
        The block's part of the record format.

    Raises
    ------
    TypeError
        The size is not an integer.
    ValueError
        A record format cannot hold the name, or the size is out of range.
    """

    def __init__(self, custom_format: str = "", *, size: int | None = None) -> None:
        size = _as_size(size)
        if custom_format_name(custom_format) != custom_format:
            raise ValueError(f"custom format {custom_format!r}: not a name for a record format")
        self.block = ContentBlock(ContentType.CUSTOM, size, custom_format=custom_format)

    def encode(self, value: Any) -> memoryview:
        """Return the bytes of a value.

        Raises
        ------
        TypeError, ValueError
            The value is not bytes, or does not have the declared size.
        """
        return _check_nbytes(as_bytes(value, "custom block"), self.block.size, "custom block")
