"""Prepare pictures for encoding: upright RGB, frames of whole tiles, planes of YUV.

Any picture (a file, its bytes, an array, a Pillow image) becomes 8-bit RGB:

* The EXIF orientation is applied, as in frames (`media.image`). ICC profiles are not applied. A
  file with several pictures yields its first one, with a warning.
* Grey becomes three equal channels. Transparency is dropped, as in Benzina's tools: the stored
  colours are kept. Palettes are resolved, and Pillow converts CMYK.
* 16-bit grey is scaled to 8 bits and rounded; for 16-bit colour Pillow returns the upper 8 bits.

Pillow is imported on use. Its readers that start programs or follow file names are not used.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...plugin import (
    ORIENTATION_TAG,
    TURNS,
    UPRIGHT,
    AnyArray,
    CodecError,
    UnsupportedError,
    as_array,
    image,
    import_pillow,
    importing,
    notice,
    turn,
)
from .codecconfig import DEFAULT_MAX_PIXELS

Rgb = np.ndarray[Any, np.dtype[np.uint8]]

# Pillow's names of formats. EPS is left out because it runs a program.
_KINDS = "JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "AVIF", "JPEG2000"
# Rows converted at a time, so that intermediate arrays stay in the caches; an even number.
_BAND = 64
# BT.601 (ITU-T H.273, table 4, 5) in units of 1/65536: weights of R, G and B in Y, and in
# full-range Cb and Cr. Their sums are exact, so that grey stays grey.
_LUMA = 19595, 38470, 7471
_CHROMA = (-11058, -21710, 32768), (32768, -27439, -5329)


def read_picture(picture: Any, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> Rgb:
    """Return a picture as upright RGB.

    Parameters
    ----------
    picture : path, bytes-like, ndarray or PIL.Image.Image
        A file of any image format that Pillow reads in process, or its bytes; an array of shape
        (H, W), (H, W, 1), (H, W, 3), or with alpha (H, W, 2) or (H, W, 4), of uint8, bool or
        uint16; a Pillow image.
    max_pixels : int, optional
        Largest picture, in pixels.

    Returns
    -------
    ndarray
        uint8, shape (H, W, 3), C-contiguous; `picture` itself if it already has this form.

    Raises
    ------
    CodecError
        The file cannot be decoded.
    UnsupportedError
        The picture has too many pixels, or samples of unknown range (32 bits, floating point).
    TypeError, ValueError
        `picture` has another type, or is an array of another shape or dtype, or is empty.
    OSError
        The file cannot be read.
    ImportError
        Pillow is missing.
    """
    if isinstance(picture, np.ndarray):
        _check_pixels(picture.shape[1::-1], max_pixels)
        return _from_array(np.asarray(as_array(picture)))
    if hasattr(picture, "getexif") and hasattr(picture, "mode"):
        with _errors_of_pillow():
            return _from_image(picture, max_pixels)
    if isinstance(picture, str | os.PathLike):
        with open(picture, "rb") as file:
            return _decode(file, max_pixels)
    try:
        data = memoryview(picture)
    except TypeError:
        raise TypeError(
            "a picture must be a path, bytes, an array or a Pillow image, not "
            f"{type(picture).__name__!r}"
        ) from None
    return _decode(io.BytesIO(data), max_pixels)


def _check_pixels(size: tuple[int, ...], max_pixels: int) -> None:
    if len(size) == 2 and size[0] * size[1] > max_pixels:
        raise UnsupportedError(
            f"a picture of {size[0]}x{size[1]} has more than {max_pixels} pixels: make it smaller, "
            "or raise max_pixels"
        )


@contextmanager
def _errors_of_pillow() -> Iterator[None]:
    """Turn the many kinds of errors from Pillow's decoders into one."""
    try:
        yield
    except (CodecError, UnsupportedError, MemoryError):
        raise
    except Exception as err:
        if isinstance(err, OSError) and err.errno is not None:
            raise  # an error of the storage, not of the picture
        name = type(err).__name__
        if name.startswith("DecompressionBomb"):
            raise UnsupportedError(f"picture: {err}") from err
        raise CodecError(f"picture: {err or name}", codec="Pillow") from err


def _decode(file: Any, max_pixels: int) -> Rgb:
    pillow = import_pillow()
    with importing:
        pillow.init()  # imports the readers that `OPEN` lists
    kinds = [kind for kind in _KINDS if kind in pillow.OPEN]
    with _errors_of_pillow(), pillow.open(file, formats=kinds) as found:
        pixels = _from_image(found, max_pixels)
        if found.format in ("JPEG", "MPO", "PNG"):
            file.seek(0)
            image.check(file.read())
        return pixels


def _from_image(image: Any, max_pixels: int) -> Rgb:
    _check_pixels(image.size, max_pixels)
    if (npages := getattr(image, "n_frames", 1)) > 1:
        name = getattr(image, "filename", "") or "picture"
        notice("%s: it has %d pages, and the first is stored", name, npages)
    # Load first: this applies the orientation of a TIFF, and that of a PNG may follow the pixels.
    image.load()
    # For damaged EXIF data, Pillow warns and returns what it can read.
    upright = TURNS.get(image.getexif().get(ORIENTATION_TAG), UPRIGHT)
    return np.ascontiguousarray(turn(_from_array(_samples(image)), *upright))


def _samples(image: Any) -> AnyArray:
    """Return the pixels of a Pillow image as an array that `_from_array` accepts."""
    mode: str = image.mode
    if mode in ("1", "L", "LA", "RGB", "RGBA") or mode.startswith("I;16"):
        return np.asarray(image)
    if mode == "I" and image.format == "PPM":  # Pillow scales these to 16 bits
        return np.asarray(image).astype(np.uint16)
    if mode in ("I", "F"):
        raise UnsupportedError(
            f"picture: mode {mode!r} has samples of 32 bits, whose range is unknown: scale them to "
            "8 or 16 bits"
        )
    # Convert through RGBA, so that a transparent palette entry keeps its colour.
    return np.asarray(image.convert("RGBA" if mode in ("P", "PA", "La", "RGBa") else "RGB"))


def _from_array(array: AnyArray) -> Rgb:
    """Return an array of any accepted form as uint8, (H, W, 3)."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 2, 3, 4)):
        raise ValueError(
            f"a picture must be (H, W), or (H, W, C) with 1 to 4 channels, not {array.shape}"
        )
    if not array.size:
        raise ValueError(f"a picture of shape {array.shape} has no pixels")
    if array.dtype == np.uint8 and array.shape[2:] == (3,):
        return np.ascontiguousarray(array)
    samples = array[..., np.newaxis] if array.ndim == 2 else array
    # The last of two or four channels is alpha.
    samples = samples[..., :3] if samples.shape[2] > 2 else samples[..., :1]
    if samples.dtype == np.bool_:
        samples = samples * np.uint8(255)
    elif samples.dtype.kind == "u" and samples.dtype.itemsize == 2:
        samples = ((samples.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    elif samples.dtype != np.uint8:
        raise ValueError(
            f"a picture must be uint8, uint16 or bool, not {array.dtype}: scale it to uint8"
        )
    if samples.shape[2] == 1:
        samples = np.repeat(samples, 3, axis=2)
    return np.ascontiguousarray(samples)


def frame_size(width: int, height: int, tile: int) -> tuple[int, int]:
    """Return width and height in pixels of the whole tiles that cover a picture."""
    return -(-width // tile) * tile, -(-height // tile) * tile


def thumbnail_size(width: int, height: int, tile: int) -> tuple[int, int]:
    """Return width and height of the thumbnail; its longer edge has `tile` pixels.

    A picture that fits keeps its size. The other edge is rounded, and has at least one pixel.
    (Benzina's tools truncate, get 511 for some longer edges, and fail if an edge becomes 0.)
    """
    longest = max(width, height)
    if longest <= tile:
        return width, height
    return (
        max(1, (2 * width * tile + longest) // (2 * longest)),
        max(1, (2 * height * tile + longest) // (2 * longest)),
    )


def thumbnail(rgb: Rgb, tile: int) -> Rgb | None:
    """Return the bicubic thumbnail of a picture, like the reference's; None if it fits a tile."""
    height, width = rgb.shape[:2]
    size = thumbnail_size(width, height, tile)
    if size == (width, height):
        return None
    pillow = import_pillow()
    return np.asarray(pillow.fromarray(rgb).resize(size, pillow.Resampling.BICUBIC))


def pad(pixels: AnyArray, width: int, height: int) -> AnyArray:
    """Return pixels at the top left of a larger frame, repeating the last column and row.

    New memory, or `pixels` itself if it fills the frame.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    frame = np.empty((height, width, *pixels.shape[2:]), pixels.dtype)
    rows, columns = pixels.shape[:2]
    frame[:rows, :columns] = pixels
    frame[:rows, columns:] = pixels[:, -1:]
    frame[rows:] = frame[rows - 1]
    return frame


def yuv_planes(rgb: Rgb, width: int, height: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the planes of a padded picture: BT.601, full range, 4:2:0.

    `width` and `height` of the frame are even, and not less than the picture's. Y has their shape,
    Cb and Cr half of both sides. Chroma is the exact average of four pixels, including padding,
    rounded once.
    """
    # Convert just enough of the padding; the rest repeats its last row and column.
    columns = min(width, rgb.shape[1] + rgb.shape[1] % 2 + 2)
    rows = min(height, rgb.shape[0] + rgb.shape[0] % 2 + 2)
    even = pad(rgb, columns, rows)
    luma = np.empty((rows, columns), np.uint8)
    chroma = np.empty((2, rows // 2, columns // 2), np.uint8)
    for top in range(0, rows, _BAND):
        band = even[top : top + _BAND]
        # One array per channel is several times as fast as strided access.
        channels = [band[..., number].astype(np.int32) for number in range(3)]
        luma[top : top + _BAND] = _weighted_sum(channels, _LUMA, 16)
        pairs = [channel[::2] + channel[1::2] for channel in channels]
        quads = [pair[:, ::2] + pair[:, 1::2] for pair in pairs]
        for plane, weights in zip(chroma, _CHROMA, strict=True):
            found = _weighted_sum(quads, weights, 18, 128)
            plane[top // 2 : (top + _BAND) // 2] = np.minimum(found, 255, out=found)
    return (
        pad(luma, width, height),
        pad(chroma[0], width // 2, height // 2),
        pad(chroma[1], width // 2, height // 2),
    )


def _weighted_sum(
    channels: list[AnyArray], weights: tuple[int, ...], bits: int, base: int = 0
) -> AnyArray:
    """Return the weighted sum of the channels divided by 2**bits and rounded, plus `base`."""
    total: AnyArray = channels[0] * weights[0]
    total += channels[1] * weights[1]
    total += channels[2] * weights[2]
    total += (base << bits) + (1 << bits - 1)
    total >>= bits
    return total
