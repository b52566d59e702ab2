"""JPEG and PNG images: bytes to arrays and back.

simplejpeg (libjpeg-turbo) decodes JPEG directly into the caller's memory and without the GIL;
Pillow decodes PNG. Both are optional and imported on use; `probe` needs neither.

This module reads the headers itself, so that shape, dtype and memory are known before a library
gets the bytes. An image may take 64 MiB, or 2048 times its stored bytes if that is more, and have
100 scans. Gray images are ``(H, W)``, others ``(H, W, C)``, with C as in the file: 3 for RGB, 4 for
RGBA and CMYK. CMYK values are as stored (most programs store them inverted). With
``upright=True``, as in frame stores, images are turned by the orientation in their EXIF data.
"""

import io
import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from .._ext.jpeg import header, segments
from ..array.arraylike import as_array
from ..exceptions import CodecError, FormatError, UnsupportedError
from ..parallel.imports import import_pillow, import_simplejpeg
from ..types import BytesLike

Array = np.ndarray[Any, np.dtype[Any]]

# Largest decoded size that every image may have, and the largest ratio of decoded to stored bytes
# above it. At best, JPEG takes 1 bit per 8x8 block of a component (512 times), and deflate reaches
# 1032 times.
MAX_NBYTES = 64 << 20
MAX_EXPANSION = 2048
# A progressive JPEG has about ten scans. Each costs a pass over the image, even if it is tiny.
MAX_SCANS = 100

_JPEG_MAGIC = b"\xff\xd8\xff"
_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_SINGLE_SCAN_FRAMES = frozenset((0xC0, 0xC1, 0xC9))  # baseline, extended; the same, arithmetic
_EOI, _SOS, _APP2 = 0xD9, 0xDA, 0xE2
_JPEG_DATA, JPEG_END = b"\xff\xda", b"\xff\xd9"
_END_AS_NUMBER = int.from_bytes(JPEG_END, "little")
_JPEG_SHAPES: dict[int, tuple[int, ...]] = {1: (), 3: (3,), 4: (4,)}
_JPEG_COLORS = {2: "GRAY", 3: "RGB", 4: "CMYK"}  # colour space to decode to, by the last axis
_MAX_JPEG_SIDE = 65500  # libjpeg's own limit
_REDUCTIONS = (1, 2, 4, 8)

# PNG colour types: samples per pixel.
_PNG_SAMPLES = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_IHDR = struct.Struct(">IIBBBBB")
# Pillow's mode for writing an array, by dtype and samples per pixel.
_PNG_MODES = {("|u1", 1): "L", ("|u1", 3): "RGB", ("|u1", 4): "RGBA", ("<u2", 1): "I;16"}

Kind = Literal["jpeg", "png"]


class Turn(NamedTuple):
    """Turn that makes an image upright: arguments of `turn`."""

    rotation: int = 0
    flipped: bool = False


UPRIGHT = Turn()
TURNS = {
    2: Turn(180, True),
    3: Turn(180, False),
    4: Turn(0, True),
    5: Turn(90, True),
    6: Turn(90, False),
    7: Turn(270, True),
    8: Turn(270, False),
}
"""Turn of each EXIF orientation (CIPA DC-008, "Orientation"); all others are upright."""
ORIENTATION_TAG = 0x0112


class ImageInfo(NamedTuple):
    """Fields of an image header."""

    kind: Kind  # format of the file
    shape: tuple[int, ...]  # shape of the decoded array: ``(H, W)`` or ``(H, W, C)``, in pixels
    dtype: np.dtype[Any]  # type of the decoded array: uint8; uint16 or bool for PNG of 16 or 1 bit
    turn: Turn = UPRIGHT  # how the decoded array, which has `shape`, was turned

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape before the turn."""
        height, width, *rest = self.shape
        return (width, height, *rest) if self.turn.rotation % 180 else self.shape


_UINT8, _UINT16, _BOOL = np.dtype("u1"), np.dtype("<u2"), np.dtype("?")


def probe(data: BytesLike, *, upright: bool = False) -> ImageInfo:
    """Return the format of a whole image, and shape and dtype of the decoded array.

    Only the header is examined. FormatError also if the decoded size is too large for the stored
    bytes; UnsupportedError if the samples have a depth that is not decoded exactly.
    """
    if is_jpeg(data):
        info, exif = _probe_jpeg(data)
    elif data[:8] == _PNG_MAGIC:
        info = _probe_png(data)
        exif = next((data[at : at + n] for name, at, n in png_chunks(data) if name == b"eXIf"), b"")
    else:
        raise FormatError(f"neither a JPEG nor a PNG image: it starts with {bytes(data[:8])!r}")
    found = _turn_of(exif) if exif and upright else UPRIGHT
    if found is UPRIGHT:
        return info
    # The shape before the turn is the one after the opposite turn.
    return info._replace(shape=info._replace(turn=found).stored_shape, turn=found)


def inspect(data: BytesLike) -> tuple[ImageInfo, str]:
    """Return `probe` of an image that is to be stored, and a note on what it has besides, or "".

    FormatError if the image is truncated, or a checksum of PNG is wrong; its content is not
    decoded, as `check` does.
    """
    if isinstance(data, Inspected):
        return data.found
    info = probe(data, upright=True)
    if info.kind == "png":
        if fault := _png_fault(data):
            raise FormatError(fault)
        chunks = {name: bytes(data[at : at + 4]) for name, at, _ in png_chunks(data)}
        npages = int.from_bytes(chunks.get(b"acTL", b"\0\0\0\1"), "big")
    else:
        is_mpo = False
        for marker, at in jpeg_segments(data):
            is_mpo = is_mpo or (marker == _APP2 and data[at + 4 : at + 8] == b"MPF\0")
            if marker == _EOI:
                raise FormatError("JPEG: no image data before the end marker")
        view = bytes(data)
        if not view.endswith(JPEG_END) and view.rfind(JPEG_END) <= view.rfind(_JPEG_DATA):
            # A truncated file has no end marker, except that of an embedded thumbnail.
            raise FormatError("JPEG: the file is truncated")
        npages = 1 + max(is_mpo, _count_followers(view))
    more = f"{npages - 1} more pages, which are kept in its bytes only"
    return info, more if npages > 1 else ""


class Inspected(bytes):
    """Bytes of an image with the result of `inspect`, which searches them only once."""

    found: tuple[ImageInfo, str]

    def __new__(cls, data: BytesLike) -> Self:
        """Inspect an image; raises as `inspect` does."""
        inspected = super().__new__(cls, data)
        inspected.found = inspect(bytes(data))
        return inspected


def _count_followers(data: bytes) -> int:
    """Return how many JPEG images begin right behind the end of another one."""
    # Nearly all files have one end marker, their last bytes. numpy finds that out in half of the
    # time that `bytes.count` takes, which is most of the time of storing an image as it is.
    nends = 0
    for start in (0, 1):
        pairs = np.frombuffer(data, "<u2", (len(data) - start) // 2, start)
        nends += int(np.count_nonzero(pairs == _END_AS_NUMBER))
    return data.count(JPEG_END + _JPEG_MAGIC) if nends > data.endswith(JPEG_END) else 0


def check(data: BytesLike) -> None:
    """Raise CodecError for damage of a whole JPEG or PNG image, which Pillow passes over.

    JPEG has no checksums, and is decoded: at an eighth of its size, in two thirds of the time.
    """
    if is_jpeg(data):
        _decode_jpeg(data, probe(data), fast=True, reduce=8)
    elif fault := _png_fault(data):
        raise CodecError(fault, codec="png")


def _turn_of(exif: BytesLike) -> Turn:
    """Return the turn of EXIF data: a TIFF header, and a list of tags (CIPA DC-008, 4.5)."""
    order: Literal["little", "big"] = "little" if exif[:2] == b"II" else "big"

    def number(at: int, nbytes: int) -> int:
        return int.from_bytes(exif[at : at + nbytes], order)

    first = number(4, 4)
    for at in range(first + 2, first + 2 + 12 * number(first, 2), 12):
        if at + 12 > len(exif):
            break
        if number(at, 2) == ORIENTATION_TAG:
            return TURNS.get(number(at + 8, 2), UPRIGHT)
    return UPRIGHT


def _check_nbytes(kind: str, shape: tuple[int, ...], itemsize: int, stored: int) -> None:
    nbytes = itemsize * math.prod(shape)
    if nbytes == 0:
        raise FormatError(f"{kind} header: image of shape {shape} has no pixels")
    if nbytes > max(MAX_NBYTES, MAX_EXPANSION * stored):
        raise FormatError(
            f"{kind} header: image of shape {shape} takes {nbytes} bytes, "
            f"too many for {stored} stored bytes"
        )


def _probe_jpeg(data: BytesLike) -> tuple[ImageInfo, BytesLike]:
    """Return the image, as stored, and its EXIF data."""
    frame, exif, marker, at = header(data)
    if not frame:
        if marker < 0:
            raise _damaged(data, at)
        raise FormatError("JPEG header: no frame header before the image data")
    # Length, precision, height, width, number of components.
    field = data[frame + 4 : frame + 10]
    if len(field) < 6:
        raise FormatError(f"JPEG header: truncated after {len(data)} bytes", offset=frame)
    if field[0] != 8:
        raise UnsupportedError(f"JPEG: samples of {field[0]} bits; only 8 are supported")
    if field[5] not in _JPEG_SHAPES:
        raise UnsupportedError(f"JPEG: {field[5]} components; only 1, 3 and 4 are supported")
    shape = (field[1] << 8 | field[2], field[3] << 8 | field[4], *_JPEG_SHAPES[field[5]])
    _check_nbytes("JPEG", shape, 1, len(data))
    info = ImageInfo("jpeg", shape, _UINT8)
    if not exif:
        return info, b""
    return info, data[exif + 10 : exif + 2 + (data[exif + 2] << 8 | data[exif + 3])]


def _damaged(data: BytesLike, at: int) -> FormatError:
    """Return the error of a header without a marker at a position, or cut off there."""
    if at == len(data):
        return FormatError(f"JPEG header: truncated after {at} bytes", offset=at)
    return FormatError(f"JPEG header: expected a marker at byte {at}", offset=at)


def jpeg_segments(data: BytesLike) -> Iterator[tuple[int, int]]:
    """Yield marker and position of each segment, up to the first scan (SOS) or the end (EOI)."""
    for marker, at in segments(data):
        if marker < 0:
            raise _damaged(data, at)
        yield marker, at


def is_jpeg(data: BytesLike) -> bool:
    """Return whether bytes start as a JPEG image does."""
    return data[:3] == _JPEG_MAGIC


def check_scans(data: BytesLike) -> None:
    """Refuse a JPEG image with too many scans, as each costs a pass over all pixels.

    The image was probed. If it is not progressive, a first scan with all components is the only one
    to decode.
    """
    frame, _, marker, at = header(data)
    if marker < 0:
        raise _damaged(data, at)
    is_progressive = data[frame + 1] not in _SINGLE_SCAN_FRAMES
    if marker == _SOS and (is_progressive or data[at + 4 : at + 5] != data[frame + 9 : frame + 10]):
        # In coded data a 0xFF is followed by 0 or a restart marker, so these are scans.
        scans = bytes(data).count(_JPEG_DATA)
        if scans > MAX_SCANS:
            raise FormatError(f"JPEG: {scans} scans; at most {MAX_SCANS} are allowed")


def _probe_png(data: BytesLike) -> ImageInfo:
    if len(data) < 33 or data[8:16] != b"\0\0\0\x0dIHDR":
        raise FormatError("PNG header: expected an IHDR chunk at byte 8", offset=8)
    width, height, depth, color, _, _, _ = _IHDR.unpack_from(data, 16)
    if depth not in _PNG_DEPTHS.get(color, ()):
        raise FormatError(f"PNG header: colour type {color} with {depth} bits", offset=24)
    if depth == 16 and color != 0:
        raise UnsupportedError("PNG: 16 bits are supported only for gray without alpha")
    samples = _PNG_SAMPLES[color]
    shape = (height, width) if samples == 1 else (height, width, samples)
    dtype = _UINT16 if depth == 16 else _BOOL if color == 0 and depth == 1 else _UINT8
    _check_nbytes("PNG", shape, dtype.itemsize, len(data))
    return ImageInfo("png", shape, dtype)


def decode_into(data: BytesLike, out: Array, *, fast: bool = True, upright: bool = False) -> None:
    """Decode a JPEG or PNG image into `out`, which has its shape and dtype (`probe`).

    If `out` is C-contiguous, it is filled without a copy. For JPEG, `fast` uses the faster,
    slightly less accurate inverse DCT and upsampling; without, the pixels are those of most other
    programs. After a CodecError, part of `out` may have changed. Safe in
    threads; decoding releases the GIL.
    """
    info = probe(data, upright=upright)
    if out.shape != info.shape or out.dtype != info.dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}, the image has shape {info.shape} "
            f"and dtype {info.dtype}"
        )
    if info.kind == "jpeg" and info.turn is UPRIGHT and out.flags.c_contiguous:
        _decode_jpeg(data, info, fast=fast, out=out)
    else:
        is_png = info.kind == "png"
        pixels = _decode_png(data, info) if is_png else _decode_jpeg(data, info, fast=fast)
        out[...] = turn(pixels, *info.turn)


def decode(data: BytesLike, *, fast: bool = True, reduce: int = 1, upright: bool = False) -> Array:
    """Decode a JPEG or PNG image to new memory; `fast` and errors as for `decode_into`.

    `reduce`, 1, 2, 4 or 8, divides height and width while decoding, rounding up; JPEG only.
    """
    if reduce not in _REDUCTIONS:
        raise ValueError(f"reduce must be 1, 2, 4 or 8, not {reduce!r}")
    info = probe(data, upright=upright)
    if info.kind == "jpeg":
        pixels = _decode_jpeg(data, info, fast=fast, reduce=reduce)
    elif reduce != 1:
        raise ValueError(f"reduce must be 1 for PNG images, not {reduce}; only JPEG supports it")
    else:
        pixels = _decode_png(data, info)
    return np.ascontiguousarray(turn(pixels, *info.turn))


def _decode_jpeg(
    data: BytesLike, info: ImageInfo, *, fast: bool, reduce: int = 1, out: Array | None = None
) -> Array:
    check_scans(data)
    height, width, *rest = info.shape if info.turn is UPRIGHT else info.stored_shape
    color = _JPEG_COLORS[rest[0] if rest else 2]
    shape = (-(-height // reduce), -(-width // reduce), *rest)
    decoder = import_simplejpeg().decode_jpeg
    try:
        pixels: Array = decoder(
            data,
            colorspace=color,
            fastdct=fast,
            fastupsample=fast,
            min_height=shape[0] if reduce > 1 else 0,
            min_width=shape[1] if reduce > 1 else 0,
            buffer=out,
        )
    except ValueError as err:
        raise CodecError(f"JPEG: {err}", codec="jpeg") from err
    if pixels.shape[:2] != shape[:2]:
        # We and the library understand the header differently.
        raise CodecError(f"JPEG: decoded to {pixels.shape}, not {shape}", codec="jpeg")
    return pixels.reshape(shape)


def _png_fault(data: BytesLike) -> str:
    """Return a text about the first chunk up to IEND that is cut off or has a wrong checksum.

    Pillow does not check those of the pixels, and its `verify` does not check IEND.
    """
    view, name, end = memoryview(data), b"", len(_PNG_MAGIC)
    for name, at, nbytes in png_chunks(data):
        end = at + nbytes + 4
        if zlib.crc32(view[at - 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
            return f"PNG: wrong checksum of chunk {name!r} at byte {at - 8}"
    return "" if name == b"IEND" else f"PNG: truncated in the chunk at byte {end}"


def png_chunks(data: BytesLike) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, place and size of the data of each chunk that is whole, up to IEND."""
    at, name = len(_PNG_MAGIC), b""
    while name != b"IEND":
        nbytes = int.from_bytes(data[at : at + 4], "big")
        if nbytes > len(data) - at - 12:
            return
        name = bytes(data[at + 4 : at + 8])
        yield name, at + 8, nbytes
        at += nbytes + 12


def _decode_png(data: BytesLike, info: ImageInfo) -> Array:
    if fault := _png_fault(data):
        raise CodecError(fault, codec="png")
    pillow = import_pillow()
    try:
        # No other decoder of Pillow may get the bytes.
        with pillow.open(io.BytesIO(data), formats=["PNG"]) as image:
            pixels = np.asarray(image.convert("RGB") if image.mode == "P" else image)
    except MemoryError:
        raise
    except Exception as err:  # Pillow's decoders raise many types
        raise CodecError(f"PNG: {err}", codec="png") from err
    if pixels.shape != info.stored_shape:
        raise CodecError(f"PNG: decoded to {pixels.shape}, not {info.stored_shape}", codec="png")
    if info.dtype == _BOOL:
        return np.not_equal(pixels.view(np.uint8), 0)  # Pillow stores True as 255
    return pixels.astype(info.dtype, copy=True)  # the array of Pillow's memory is read-only


def check_quality(quality: int) -> None:
    """Raise TypeError or ValueError for a quality that JPEG does not have."""
    if isinstance(quality, bool) or not hasattr(quality, "__index__"):
        raise TypeError(f"quality must be an int, not {type(quality).__name__}")
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be 1 to 100, not {quality}")


def encode_jpeg(
    array: Array, *, quality: int = 90, subsampling: str = "444", fast: bool = True
) -> bytes:
    """Encode an array as JPEG; with the defaults, to the same bytes as simplejpeg.

    The array is uint8 or bool, ``(H, W)`` or ``(H, W, 1)`` for gray, ``(H, W, 3)`` for RGB, with
    any strides. `quality` is 1 to 100; `subsampling` of chroma "444" (full resolution), "422",
    "420", "440" or "411".
    """
    pixels = np.asarray(as_array(array))
    if pixels.dtype not in (_UINT8, _BOOL):
        raise ValueError(f"JPEG stores uint8, not {pixels.dtype}: convert it, or store it lossless")
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ValueError(f"JPEG stores (H, W), (H, W, 1) or (H, W, 3), not shape {array.shape}")
    if not all(0 < side <= _MAX_JPEG_SIDE for side in pixels.shape[:2]):
        raise ValueError(f"JPEG stores sides of 1 to {_MAX_JPEG_SIDE} pixels, not {array.shape}")
    check_quality(quality)
    encoded: bytes = import_simplejpeg().encode_jpeg(
        np.ascontiguousarray(pixels),
        quality=quality,
        colorspace="GRAY" if pixels.shape[2] == 1 else "RGB",
        colorsubsampling=subsampling,
        fastdct=fast,
    )
    return encoded


def resize(array: Array, short_edge: int) -> Array:
    """Resize an image so that its shorter edge has `short_edge` pixels (bilinear, by Pillow).

    The image is uint8, ``(H, W)``, ``(H, W, 3)`` or ``(H, W, 4)``; it is returned itself if the
    size does not change. The other edge is truncated to a whole number.
    """
    array = as_array(array)
    if array.dtype != _UINT8 or not (array.ndim == 2 or array.shape[2:] in ((3,), (4,))):
        raise ValueError(
            f"only uint8 images of 1, 3 or 4 channels can be resized, not {array.dtype} of shape "
            f"{array.shape}"
        )
    height, width = array.shape[:2]
    shorter, longer = sorted((height, width))
    if not 0 < short_edge <= _MAX_JPEG_SIDE or not shorter:
        raise ValueError(
            f"cannot resize an image of shape {array.shape} to a short edge of {short_edge}"
        )
    if shorter == short_edge:
        return array
    other = int(short_edge * (longer / shorter))
    pillow = import_pillow()
    size = (other, short_edge) if height < width else (short_edge, other)
    return np.array(pillow.fromarray(array).resize(size, pillow.Resampling.BILINEAR))


def turn(pixels: Array, rotation: int, flipped: bool = False) -> Array:
    """Return an image turned, as a view, or itself if nothing is to be turned.

    `rotation` is 0, 90, 180 or 270 degrees, clockwise; `flipped` turns it upside down before.
    """
    if not rotation and not flipped:
        return pixels
    return np.rot90(pixels[::-1] if flipped else pixels, -rotation // 90)


def encode_png(array: Array) -> bytes:
    """Encode an array as PNG, without loss.

    The array is uint8 ``(H, W)``, ``(H, W, 3)`` or ``(H, W, 4)``; uint16 or bool ``(H, W)``.
    """
    pixels = np.asarray(as_array(array))
    if 0 in pixels.shape:
        raise ValueError(f"PNG cannot store an image of shape {pixels.shape}")
    if pixels.dtype == _BOOL and pixels.ndim == 2:
        mode = "L"
    elif pixels.ndim in (2, 3) and (pixels.ndim == 2 or pixels.shape[2] > 1):
        samples = 1 if pixels.ndim == 2 else pixels.shape[2]
        mode = _PNG_MODES.get((pixels.dtype.newbyteorder("<").str, samples), "")
    else:
        mode = ""
    if not mode:
        raise ValueError(
            "PNG stores uint8 of (H, W), (H, W, 3) or (H, W, 4), uint16 and bool of (H, W), not "
            f"{pixels.dtype} of shape {pixels.shape}"
        )
    height, width = pixels.shape[:2]
    if mode == "L" and pixels.dtype == _BOOL:
        pixels = pixels.astype("u1") * np.uint8(255)
    content = pixels.astype(pixels.dtype.newbyteorder("<"), copy=False).tobytes()
    image = import_pillow().frombytes(mode, (width, height), content)
    if array.dtype == _BOOL:
        image = image.convert("1")  # only 0 and 255, so nothing is dithered
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
