"""Zstandard frames outside of chunks: compress, decompress, read the header.

The only module that imports a Zstandard library: `compression.zstd` of the standard library from
Python 3.14 on, the package `zstandard` before. The header is parsed here to check the declared
size of a frame before decoding it.

Source of the layout: RFC 8878, section 3.1.1.
"""

import sys
from typing import NamedTuple

from ...exceptions import FormatError
from ...types import BytesLike

if sys.version_info >= (3, 14):
    from compression import zstd as _zstd
else:
    import zstandard as _zstd

_MAGIC = b"\x28\xb5\x2f\xfd"
_BLOCK_HEADER_SIZE = 3
_CHECKSUM_SIZE = 4
_RAW_BLOCK, _RLE_BLOCK, _COMPRESSED_BLOCK = range(3)

# Bits of the frame header descriptor.
_HAS_CHECKSUM = 0x04
_RESERVED = 0x08
_SINGLE_SEGMENT = 0x20
# Bytes of a field, by the two bits that describe it.
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_CONTENT_SIZE_SIZES = (0, 2, 4, 8)


class FrameHeader(NamedTuple):
    """Header of a Zstandard frame.

    Attributes
    ----------
    size : int
        Size of the header itself in bytes, the magic number included.
    content_nbytes : int or None
        Decoded size that the frame declares; None if it does not declare one.
    has_checksum : bool
        Whether the frame ends with a checksum of its content.
    """

    size: int
    content_nbytes: int | None
    has_checksum: bool


def unpack_header(view: BytesLike) -> FrameHeader:
    """Return the header of the frame at the start of `view`.

    Raises
    ------
    FormatError
        `view` does not start with the whole header of a Zstandard frame.
    """
    front = bytes(memoryview(view)[: 4 + 1 + 1 + 4 + 8])
    if len(front) < 4 + 1 or not front.startswith(_MAGIC):
        raise FormatError(f"expected a Zstandard frame, found {front[:4]!r}")
    descriptor = front[4]
    if descriptor & _RESERVED:
        raise FormatError(f"Zstandard frame: a reserved bit of the descriptor {descriptor} is set")
    is_single = bool(descriptor & _SINGLE_SEGMENT)
    at = 4 + 1 + (not is_single) + _DICTIONARY_ID_SIZES[descriptor & 3]
    nbytes = _CONTENT_SIZE_SIZES[descriptor >> 6] or int(is_single)
    if at + nbytes > len(front):
        raise FormatError(f"Zstandard frame: {len(front)} bytes end before the header does")
    content_nbytes = None
    if nbytes:
        content_nbytes = int.from_bytes(front[at : at + nbytes], "little")
        if nbytes == _CONTENT_SIZE_SIZES[1]:
            content_nbytes += 256  # RFC 8878: the two-byte field starts after the one-byte range
    return FrameHeader(at + nbytes, content_nbytes, bool(descriptor & _HAS_CHECKSUM))


def frame_nbytes(view: memoryview) -> int:
    """Return the stored size of the frame at the start of `view`, by its blocks.

    Raises
    ------
    FormatError
        The bytes are not a Zstandard frame, or the frame is cut off.

    Notes
    -----
    A block header has 24 bits: one that marks the last block, two for the kind, 21 for the size.
    """
    header = unpack_header(view)
    at = header.size
    is_last = False
    while not is_last:
        block = int.from_bytes(view[at : at + _BLOCK_HEADER_SIZE], "little")
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        at += _BLOCK_HEADER_SIZE + (1 if kind == _RLE_BLOCK else size)
        if at > len(view) or kind > _COMPRESSED_BLOCK:
            raise FormatError(f"a Zstandard frame is cut off after {len(view)} bytes")
    return at + header.has_checksum * _CHECKSUM_SIZE


def compress(data: BytesLike, level: int) -> bytes:
    """Return `data` as one frame that declares its decoded size and has no checksum."""
    if sys.version_info >= (3, 14):
        return _zstd.compress(data, level)
    return _zstd.ZstdCompressor(level).compress(data)


def decompress(frame: BytesLike, nbytes: int) -> bytes:
    """Return the content of the frame at the start of `frame`, which must be `nbytes` long.

    Raises
    ------
    FormatError
        The frame declares or holds another size, or it is damaged.
    """
    declared = unpack_header(frame).content_nbytes
    if declared != nbytes:
        found = "no size" if declared is None else f"{declared} bytes"
        raise FormatError(f"a Zstandard frame declares {found}, expected {nbytes} bytes")
    try:
        if sys.version_info >= (3, 14):
            decoder = _zstd.ZstdDecompressor()
            # One byte more than expected, so that the decoder also reads the end of the frame.
            content = decoder.decompress(frame, nbytes + 1)
            is_whole = decoder.eof
        else:
            content = _zstd.ZstdDecompressor().decompress(frame)
            is_whole = True
    except _zstd.ZstdError as err:
        raise FormatError(f"damaged Zstandard frame: {err}") from err
    if len(content) != nbytes or not is_whole:
        raise FormatError(f"damaged Zstandard frame: it holds {len(content)} bytes, not {nbytes}")
    return content
