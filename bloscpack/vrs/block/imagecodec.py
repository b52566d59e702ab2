"""Decoding of images to pixels: raw, JPEG, PNG, JPEG XL and video.

JPEG and PNG are decoded by media/image.py, which limits the memory of an image before decoding it;
video by PyAV and JPEG XL by a plugin of Pillow, with the same limits on the declared size. The
packages are optional and imported on use. An image that cannot be decoded raises and names the
package to install; it is never silently empty.
"""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...plugin import (
    AnyArray,
    BytesLike,
    CodecError,
    FormatError,
    UnsupportedError,
    ffmpeg_message,
    image,
    import_av,
    import_pillow,
    importing,
    optional_library,
)
from . import jxl
from .normalization import normalize, planar_to_rgb
from .pixels import ImageConversion, ImageFormat, ImageSpec, PixelFormat, image_planes, image_view

# PyAV's decoders by the codec names of recordings, in lower case without dots and hyphens.
_VIDEO_CODECS = {
    "h264": "h264",
    "avc": "h264",
    "h265": "hevc",
    "hevc": "hevc",
    "vp8": "vp8",
    "vp9": "vp9",
    "av1": "av1",
    "mjpeg": "mjpeg",
}
_NORMALIZING = ImageConversion.NORMALIZE, ImageConversion.NORMALIZE_GREY8
_RGBA_NBYTES = 4
# Pixels by which a coded frame may exceed the shown one per side: the largest block of a codec.
_MAX_PADDING = 128


def convert_image(
    data: memoryview, spec: ImageSpec, conversion: ImageConversion
) -> tuple[AnyArray, ImageSpec]:
    """Return the pixels of an image that does not depend on other frames, and their spec.

    A `conversion` other than `NORMALIZE` and `NORMALIZE_GREY8` acts as `DECOMPRESS`.
    """
    if spec.image_format == ImageFormat.RAW:
        if conversion in _NORMALIZING and _has_whole_blocks(spec):
            return planar_to_rgb(image_planes(data, spec), spec)
        pixels, new_spec = _without_padding(image_view(data, spec), spec)
    elif spec.image_format in (ImageFormat.JPG, ImageFormat.PNG):
        pixels = image.decode(data, fast=False)
        new_spec = _spec_of(pixels, is_jpeg=image.probe(data).kind == "jpeg")
        pixels = _plain(pixels)
    elif spec.image_format == ImageFormat.JXL:
        pixels = _plain(_decode_jxl(data))
        new_spec = _spec_of(pixels, is_jpeg=False)
    elif spec.image_format == ImageFormat.CUSTOM_CODEC:
        raise UnsupportedError(
            f"image of the custom codec {spec.codec_name!a}: only the program that made it decodes"
            " it; the bytes are in Block.data"
        )
    else:
        raise UnsupportedError(
            f"image of format {spec.image_format}: the recording does not say how it is coded"
        )
    return _normalized(pixels, new_spec, conversion)


def _has_whole_blocks(spec: ImageSpec) -> bool:
    """Return whether the image is planar and has an even width and height."""
    return spec.nplanes > 1 and not (spec.width % 2 or spec.height % 2)


def _normalized(
    pixels: AnyArray, spec: ImageSpec, conversion: ImageConversion
) -> tuple[AnyArray, ImageSpec]:
    if conversion == ImageConversion.NORMALIZE:
        return normalize(pixels, spec)
    if conversion == ImageConversion.NORMALIZE_GREY8:
        return normalize(pixels, spec, grey16=False)
    return pixels, spec


def _without_padding(pixels: AnyArray, spec: ImageSpec) -> tuple[AnyArray, ImageSpec]:
    """Return an image of one plane without the padding of its rows."""
    if spec.nplanes > 1 or not spec.stride:
        return pixels, spec
    tight = replace(spec, stride=0)
    tight = replace(tight, buffer_size=tight.raw_nbytes or 0)
    if pixels.shape[1] == spec.stride and pixels.ndim == 2 and not spec.bytes_per_pixel:
        pixels = pixels[:, : tight.row_nbytes]
    return pixels, tight


_PIXELS = {
    ("|u1", ()): PixelFormat.GREY8,
    ("<u2", ()): PixelFormat.GREY16,
    ("|b1", ()): PixelFormat.GREY8,
    ("|u1", (2,)): PixelFormat.RGBA8,
    ("|u1", (3,)): PixelFormat.RGB8,
    ("|u1", (4,)): PixelFormat.RGBA8,
}


def _spec_of(pixels: AnyArray, *, is_jpeg: bool) -> ImageSpec:
    pixel_format = _PIXELS.get((pixels.dtype.str, pixels.shape[2:]))
    if pixel_format is None or (is_jpeg and pixel_format == PixelFormat.RGBA8):
        raise UnsupportedError(
            f"image of {pixels.dtype} {pixels.shape}: VRS has no pixel format for it"
        )
    height, width = pixels.shape[:2]
    spec = ImageSpec(width, height, pixel_format=pixel_format, image_format=ImageFormat.RAW)
    return replace(spec, buffer_size=spec.raw_nbytes or 0)


def _plain(pixels: AnyArray) -> AnyArray:
    """Convert pixels of one bit to grey8, and grey with alpha to rgba8."""
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * np.uint8(255)
    if pixels.shape[2:] == (2,):
        return np.ascontiguousarray(pixels[..., [0, 0, 0, 1]])
    return pixels


def _decode_jxl(data: BytesLike) -> AnyArray:
    need = "JPEG XL images need a Pillow plugin"
    with importing, optional_library("pillow-jxl-plugin", "vrs", need):
        import pillow_jxl  # noqa: F401 - importing it registers the plugin with Pillow
    pillow = import_pillow()
    width, height = jxl.image_size(data)
    if _RGBA_NBYTES * width * height > max(image.MAX_NBYTES, image.MAX_EXPANSION * len(data)):
        raise FormatError(
            f"JPEG XL image of {width}x{height}: {len(data)} stored bytes cannot hold it"
        )
    try:
        with pillow.open(io.BytesIO(data), formats=["JXL"]) as opened:
            return np.asarray(opened).copy()
    except MemoryError:
        raise
    except Exception as err:  # Pillow's decoders raise many types
        raise CodecError(f"JPEG XL: {err}", codec="jxl") from err


def video_codec(spec: ImageSpec) -> str | None:
    """Return PyAV's name of a video codec, such as ``"h264"``; None if it is unknown."""
    return _VIDEO_CODECS.get(spec.codec_name.replace(".", "").replace("-", "").lower())


def decode_video(
    frames: Sequence[BytesLike], spec: ImageSpec, conversion: ImageConversion
) -> tuple[AnyArray, ImageSpec]:
    """Return the pixels of the last of `frames` and their spec; the first is a key frame.

    `spec` is that of the last frame. Pixels other than grey become rgb8. All frames are decoded:
    the time grows with their number.
    """
    stored = sum(map(len, frames))
    nbytes = 3 * spec.width * spec.height
    if not nbytes or nbytes > max(image.MAX_NBYTES, image.MAX_EXPANSION * stored):
        raise FormatError(
            f"video frame of {spec.width}x{spec.height}: {stored} stored bytes cannot hold it"
        )
    name = video_codec(spec)
    if name is None:
        raise UnsupportedError(
            f"video of codec {spec.codec_name!a}: no decoder exists for it"
            f" (supported: {', '.join(sorted(_VIDEO_CODECS))})"
        )
    av = import_av()
    try:
        frame = _last_frame(av, name, frames, spec)
        is_grey = frame.format.name.startswith("gray") or spec.pixel_format == PixelFormat.GREY8
        pixels = frame.to_ndarray(format="gray" if is_grey else "rgb24")
    except av.error.FFmpegError as err:
        raise CodecError(f"video frame: {ffmpeg_message(err)}", codec=name) from err
    pixels = np.ascontiguousarray(pixels)
    return _normalized(pixels, _spec_of(pixels, is_jpeg=False), conversion)


def _last_frame(av: Any, name: str, frames: Sequence[BytesLike], spec: ImageSpec) -> Any:
    context = av.CodecContext.create(name, "r")
    context.thread_count = 1
    context.options = {
        "max_pixels": str((spec.width + _MAX_PADDING) * (spec.height + _MAX_PADDING))
    }
    last = None
    for number, data in enumerate((*frames, None)):
        packet = None
        if data is not None:
            packet = av.Packet(bytes(data))
            packet.pts = packet.dts = number
        for frame in context.decode(packet):
            # Decoders hold frames back, and may return them in another order.
            if frame.pts == len(frames) - 1:
                last = frame
    if last is None:
        raise CodecError("video frame: the decoder gave no picture for it", codec=name)
    if (last.width, last.height) != (spec.width, spec.height):
        raise CodecError(
            f"video frame of {last.width}x{last.height}, the recording says"
            f" {spec.width}x{spec.height}",
            codec=name,
        )
    if last.is_corrupt:  # FFmpeg conceals missing parts instead of failing
        raise CodecError("video frame: damaged, or a frame before it is", codec=name)
    return last
