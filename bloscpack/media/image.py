"""JPEG and PNG images: bytes to arrays and back.

JPEG goes through simplejpeg (libjpeg-turbo), straight into the memory of the caller and without
the GIL; PNG through Pillow. Both are optional and imported on use; `probe` needs neither.

The headers are read here, so that shape, dtype and memory are known before a library sees the
bytes: an image may take 64 MiB, or 2048 times its stored bytes if that is more, and have 100 scans.
Gray images are ``(H, W)``, others ``(H, W, C)``, C being what the file has: 3 for RGB, 4 for RGBA
and for CMYK, whose values are as stored (most programs store them inverted). Orientation tags are
left alone.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..exceptions import CodecError, FormatError, UnsupportedError
from ..parallel.imports import import_pillow, import_simplejpeg
from ..types import BytesLike

Array = np.ndarray[Any, np.dtype[Any]]

# Decoded bytes that any image may take, and what each stored byte may become. The best case of
# JPEG is 1 bit per 8x8 block of one component (512 times), of deflate 1032 times.
MAX_NBYTES = 64 << 20
MAX_EXPANSION = 2048
# A progressive JPEG has about ten scans. Each is a pass over the image, however few bytes it has.
MAX_SCANS = 100

_JPEG_MAGIC = b"\xff\xd8\xff"
_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
# Markers without a length: TEM and RST0-7.
_BARE_MARKERS = frozenset((0x01, *range(0xD0, 0xD8)))
# Start of a frame of any kind: SOF0-15 without DHT, JPG and DAC, which lie between.
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SINGLE_SCAN_FRAMES = frozenset((0xC0, 0xC1, 0xC9))  # baseline, extended; the same, arithmetic
_EOI, _SOS = 0xD9, 0xDA
_JPEG_SHAPES: dict[int, tuple[int, ...]] = {1: (), 3: (3,), 4: (4,)}
_JPEG_COLORS = {2: "GRAY", 3: "RGB", 4: "CMYK"}  # what to decode to, by the last axis
_MAX_JPEG_SIDE = 65500  # libjpeg's own limit
_REDUCTIONS = (1, 2, 4, 8)

# PNG colour types: samples per pixel.
_PNG_SAMPLES = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_IHDR = struct.Struct(">IIBBBBB")
# Pillow's mode for an array to be written, by dtype and samples.
_PNG_MODES = {("|u1", 1): "L", ("|u1", 3): "RGB", ("|u1", 4): "RGBA", ("<u2", 1): "I;16"}

Kind = Literal["jpeg", "png"]


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What the header of an image says.

    Attributes
    ----------
    kind : {"jpeg", "png"}
        The format.
    shape : tuple of int
        Of the decoded array: ``(H, W)`` or ``(H, W, C)``, in pixels.
    dtype : numpy.dtype
        Of the decoded array: uint8; uint16 or bool for PNG of 16 or 1 bit.
    """

    kind: Kind
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


_UINT8, _UINT16, _BOOL = np.dtype("u1"), np.dtype("<u2"), np.dtype("?")


def probe(data: BytesLike) -> ImageInfo:
    """Return what kind of image `data` is, and shape and dtype of the decoded array.

    Parameters
    ----------
    data : bytes-like
        A whole image; only the header is looked at.

    Raises
    ------
    FormatError
        Neither JPEG nor PNG, a broken header, or one that promises far more than its bytes hold.
    UnsupportedError
        Samples of another depth than we decode exactly.
    """
    if data[:3] == _JPEG_MAGIC:
        return _probe_jpeg(data)
    if data[:8] == _PNG_MAGIC:
        return _probe_png(data)
    raise FormatError(f"neither a JPEG nor a PNG image: it starts with {bytes(data[:8])!r}")


def _check_nbytes(kind: str, shape: tuple[int, ...], itemsize: int, stored: int) -> None:
    nbytes = itemsize
    for side in shape:
        nbytes *= side
    if nbytes == 0:
        raise FormatError(f"{kind} header: an image of shape {shape} has no pixels")
    if nbytes > max(MAX_NBYTES, MAX_EXPANSION * stored):
        raise FormatError(
            f"{kind} header: an image of shape {shape} takes {nbytes} bytes, "
            f"which {stored} stored bytes cannot hold"
        )


def _probe_jpeg(data: BytesLike) -> ImageInfo:
    for marker, at in _jpeg_segments(data):
        if marker in _FRAME_MARKERS:
            return _jpeg_frame(data, at)
    raise FormatError("JPEG header: the data begin without a size")


def _jpeg_segments(data: BytesLike) -> Iterator[tuple[int, int]]:
    """Yield marker and position of each segment, up to the first data (SOS) or the end (EOI)."""
    at, end = 2, len(data)
    while at + 4 <= end:
        if data[at] != 0xFF:
            raise FormatError(f"JPEG header: no marker at byte {at}", offset=at)
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif marker in _BARE_MARKERS:
            at += 2
        else:
            yield marker, at
            if marker in (_SOS, _EOI):
                return
            at += 2 + max(2, data[at + 2] << 8 | data[at + 3])
    raise FormatError(f"JPEG header: cut off after {end} bytes", offset=end)


def _check_scans(data: BytesLike) -> None:
    """Refuse an image of more scans than anyone makes: each is a pass over all pixels.

    One whose first scan has all components and that is not progressive has no more to decode.
    """
    progressive, components = False, 0
    for marker, at in _jpeg_segments(data):
        if marker in _FRAME_MARKERS:
            progressive, components = marker not in _SINGLE_SCAN_FRAMES, data[at + 9]
        elif marker == _SOS and (progressive or data[at + 4 : at + 5] != bytes((components,))):
            scans = bytes(data).count(b"\xff\xda")
            if scans > MAX_SCANS:
                raise FormatError(f"JPEG: {scans} scans; at most {MAX_SCANS} are decoded")


def _jpeg_frame(data: BytesLike, at: int) -> ImageInfo:
    """Read a SOF segment at `at`: length, precision, height, width, number of components."""
    field = data[at + 4 : at + 10]
    if len(field) < 6:
        raise FormatError(f"JPEG header: cut off after {len(data)} bytes", offset=at)
    if field[0] != 8:
        raise UnsupportedError(f"JPEG: samples of {field[0]} bits; only 8 are decoded")
    if field[5] not in _JPEG_SHAPES:
        raise UnsupportedError(f"JPEG: {field[5]} components; only 1, 3 and 4 are decoded")
    shape = (field[1] << 8 | field[2], field[3] << 8 | field[4], *_JPEG_SHAPES[field[5]])
    _check_nbytes("JPEG", shape, 1, len(data))
    return ImageInfo("jpeg", shape, _UINT8)


def _probe_png(data: BytesLike) -> ImageInfo:
    if len(data) < 33 or data[8:16] != b"\0\0\0\x0dIHDR":
        raise FormatError("PNG header: no IHDR chunk at byte 8", offset=8)
    width, height, depth, color, _, _, _ = _IHDR.unpack_from(data, 16)
    if depth not in _PNG_DEPTHS.get(color, ()):
        raise FormatError(f"PNG header: colour type {color} with {depth} bits", offset=24)
    if depth == 16 and color != 0:
        raise UnsupportedError("PNG: 16 bits are decoded exactly only for gray without alpha")
    samples = _PNG_SAMPLES[color]
    shape = (height, width) if samples == 1 else (height, width, samples)
    dtype = _UINT16 if depth == 16 else _BOOL if color == 0 and depth == 1 else _UINT8
    _check_nbytes("PNG", shape, dtype.itemsize, len(data))
    return ImageInfo("png", shape, dtype)


def decode_into(data: BytesLike, out: Array, *, fast: bool = True) -> None:
    """Decode an image into `out`.

    Parameters
    ----------
    data : bytes-like
        A whole JPEG or PNG image.
    out : ndarray
        Of the shape and dtype of the image (`probe`). No copy is made where it is C-contiguous.
    fast : bool, optional
        For JPEG: the quicker, slightly less accurate inverse DCT and upsampling, which is what
        GulpIO2 uses. False gives the pixels of most other programs.

    Raises
    ------
    CodecError
        The bytes do not decode; `out` may be changed in part.
    FormatError, UnsupportedError
        As `probe`.
    ValueError
        `out` has another shape or dtype than the image.
    ImportError
        simplejpeg (for JPEG) or Pillow (for PNG) is missing.

    Notes
    -----
    Safe from many threads; decoding lets go of the GIL.
    """
    info = probe(data)
    if out.shape != info.shape or out.dtype != info.dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}, the image has shape {info.shape} "
            f"and dtype {info.dtype}"
        )
    if info.kind == "png":
        out[...] = _decode_png(data, info)
    elif out.flags.c_contiguous:
        _decode_jpeg(data, info, fast=fast, out=out)
    else:
        out[...] = _decode_jpeg(data, info, fast=fast)


def decode(data: BytesLike, *, fast: bool = True, reduce: int = 1) -> Array:
    """Decode an image.

    Parameters
    ----------
    data : bytes-like
        A whole JPEG or PNG image.
    fast : bool, optional
        As in `decode_into`.
    reduce : {1, 2, 4, 8}, optional
        Divide height and width by this, rounding up, while decoding; JPEG only.

    Returns
    -------
    ndarray
        New memory.

    Raises
    ------
    CodecError, FormatError, UnsupportedError, ImportError
        As `decode_into`.
    ValueError
        Another `reduce`, or one for a PNG image.
    """
    if reduce not in _REDUCTIONS:
        raise ValueError(f"reduce must be 1, 2, 4 or 8, not {reduce!r}")
    info = probe(data)
    if info.kind == "jpeg":
        return _decode_jpeg(data, info, fast=fast, reduce=reduce)
    if reduce != 1:
        raise ValueError("only JPEG images are reduced while they are decoded, and this is PNG")
    return _decode_png(data, info)


def _decode_jpeg(
    data: BytesLike, info: ImageInfo, *, fast: bool, reduce: int = 1, out: Array | None = None
) -> Array:
    _check_scans(data)
    height, width = info.shape[:2]
    color = _JPEG_COLORS[2 if len(info.shape) == 2 else info.shape[2]]
    shape = (-(-height // reduce), -(-width // reduce), *info.shape[2:])
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
        # Our reading of the header and the library's differ.
        raise CodecError(f"JPEG: decoded to {pixels.shape}, not {shape}", codec="jpeg")
    return pixels.reshape(shape)


def _png_chunks(data: BytesLike) -> Iterator[tuple[bytes, memoryview]]:
    """Yield name and content of each chunk up to IEND, after comparing its checksum.

    Pillow does not compare those of the pixels.
    """
    view, at, name = memoryview(data), len(_PNG_MAGIC), b""
    while name != b"IEND":
        nbytes = int.from_bytes(view[at : at + 4], "big")
        if nbytes > len(view) - at - 12:
            raise CodecError(f"PNG: cut off in the chunk at byte {at}", codec="png")
        end = at + 8 + nbytes
        name = bytes(view[at + 4 : at + 8])
        if zlib.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            raise CodecError(f"PNG: wrong checksum of chunk {name!r} at byte {at}", codec="png")
        yield name, view[at + 8 : end]
        at = end + 4


def _decode_png(data: BytesLike, info: ImageInfo) -> Array:
    for _ in _png_chunks(data):
        pass
    pillow = import_pillow()
    try:
        with pillow.open(io.BytesIO(data), formats=["PNG"]) as image:
            pixels = np.asarray(image.convert("RGB") if image.mode == "P" else image)
    except MemoryError:
        raise
    except Exception as err:  # Pillow lets many types out of its decoders
        raise CodecError(f"PNG: {err}", codec="png") from err
    if pixels.shape != info.shape:
        raise CodecError(f"PNG: decoded to {pixels.shape}, not {info.shape}", codec="png")
    return pixels.astype(info.dtype, copy=True)


def encode_jpeg(
    array: Array, *, quality: int = 90, subsampling: str = "444", fast: bool = True
) -> bytes:
    """Encode an array as JPEG; with the defaults the bytes are GulpIO2's.

    Parameters
    ----------
    array : ndarray
        uint8 or bool, ``(H, W)`` or ``(H, W, 1)`` for gray, ``(H, W, 3)`` for RGB, of any strides.
    quality : int, optional
        1 to 100.
    subsampling : {"444", "422", "420", "440", "411"}, optional
        How much coarser colour is kept than brightness; "444" is not at all.
    fast : bool, optional
        Use the quicker DCT.

    Raises
    ------
    ValueError
        JPEG does not hold such an array, or an option is out of range.
    ImportError
        simplejpeg is missing.
    """
    pixels = np.asarray(array)
    if pixels.dtype not in (_UINT8, _BOOL):
        raise ValueError(f"JPEG holds uint8, not {pixels.dtype}: convert, or keep it lossless")
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ValueError(f"JPEG holds (H, W), (H, W, 1) or (H, W, 3), not shape {array.shape}")
    if not all(0 < side <= _MAX_JPEG_SIDE for side in pixels.shape[:2]):
        raise ValueError(f"JPEG holds sides of 1 to {_MAX_JPEG_SIDE} pixels, not {array.shape}")
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be 1 to 100, not {quality}")
    encoded: bytes = import_simplejpeg().encode_jpeg(
        np.ascontiguousarray(pixels),
        quality=quality,
        colorspace="GRAY" if pixels.shape[2] == 1 else "RGB",
        colorsubsampling=subsampling,
        fastdct=fast,
    )
    return encoded


def resize(array: Array, short_edge: int) -> Array:
    """Resize an image (bilinear, by Pillow) so that its shorter edge has `short_edge` pixels.

    Parameters
    ----------
    array : ndarray
        uint8, ``(H, W)``, ``(H, W, 3)`` or ``(H, W, 4)``.
    short_edge : int
        Pixels; the other edge is cut to a whole number of them.

    Returns
    -------
    ndarray
        New memory, or `array` itself if nothing changes.

    Raises
    ------
    ValueError
        Another array, or a size that is none.
    ImportError
        Pillow is missing.
    """
    if array.dtype != _UINT8 or not (array.ndim == 2 or array.shape[2:] in ((3,), (4,))):
        raise ValueError(
            f"only uint8 images of 1, 3 or 4 channels are resized, not {array.dtype} of shape "
            f"{array.shape}"
        )
    height, width = array.shape[:2]
    shorter, longer = sorted((height, width))
    if not 0 < short_edge <= _MAX_JPEG_SIDE or not shorter:
        raise ValueError(f"an image of shape {array.shape} cannot have {short_edge} pixels")
    if shorter == short_edge:
        return array
    other = int(short_edge * (longer / shorter))
    pillow = import_pillow()
    size = (other, short_edge) if height < width else (short_edge, other)
    return np.array(pillow.fromarray(array).resize(size, pillow.Resampling.BILINEAR))


def encode_png(array: Array) -> bytes:
    """Encode an array as PNG, exactly.

    Parameters
    ----------
    array : ndarray
        uint8 ``(H, W)``, ``(H, W, 3)`` or ``(H, W, 4)``; uint16 or bool ``(H, W)``.

    Raises
    ------
    ValueError
        PNG, as Pillow writes it, does not hold such an array.
    ImportError
        Pillow is missing.
    """
    pixels = np.asarray(array)
    if 0 in pixels.shape:
        raise ValueError(f"PNG holds no image of shape {pixels.shape}")
    if pixels.dtype == _BOOL and pixels.ndim == 2:
        mode = "L"
    elif pixels.ndim in (2, 3) and (pixels.ndim == 2 or pixels.shape[2] > 1):
        samples = 1 if pixels.ndim == 2 else pixels.shape[2]
        mode = _PNG_MODES.get((pixels.dtype.newbyteorder("<").str, samples), "")
    else:
        mode = ""
    if not mode:
        raise ValueError(
            "PNG holds uint8 of (H, W), (H, W, 3) or (H, W, 4), uint16 and bool of (H, W), not "
            f"{pixels.dtype} of shape {pixels.shape}"
        )
    height, width = pixels.shape[:2]
    if mode == "L" and pixels.dtype == _BOOL:
        pixels = pixels.astype("u1") * np.uint8(255)
    content = pixels.astype(pixels.dtype.newbyteorder("<"), copy=False).tobytes()
    image = import_pillow().frombytes(mode, (width, height), content)
    if array.dtype == _BOOL:
        image = image.convert("1")
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
