"""Zstandard frames outside of chunks: compress, decompress, find their sizes.

The only module that imports a Zstandard library: `compression.zstd` of the standard library from
Python 3.14 on, the package `zstandard` before. The declared size of a frame is checked before it is
decoded. `zstandard` cannot find the end of a frame, so its blocks are walked here (RFC 8878,
section 3.1.1).
"""

import sys

from ...plugin import BytesLike, FormatError

if sys.version_info >= (3, 14):
    from compression import zstd as _zstd
else:
    import zstandard as _zstd

_MAGIC = b"\x28\xb5\x2f\xfd"
_MAX_HEADER_SIZE = 4 + 1 + 1 + 4 + 8
_BLOCK_HEADER_SIZE = 3
_CHECKSUM_SIZE = 4
_RAW_BLOCK, _RLE_BLOCK, _COMPRESSED_BLOCK = range(3)


def content_nbytes(view: BytesLike) -> int | None:
    """Return the decoded size that the frame at the start of `view` declares.

    None if it does not.
    """
    front = bytes(memoryview(view)[:_MAX_HEADER_SIZE])
    if not front.startswith(_MAGIC):
        raise FormatError(f"expected a Zstandard frame, found {front[:4]!r}")
    try:
        if sys.version_info >= (3, 14):
            return _zstd.get_frame_info(front).decompressed_size
        nbytes = _zstd.get_frame_parameters(front).content_size
    except _zstd.ZstdError as err:
        raise FormatError(f"damaged header of a Zstandard frame: {err}") from err
    return None if nbytes == _zstd.CONTENTSIZE_UNKNOWN else nbytes


def frame_nbytes(view: memoryview) -> int:
    """Return the stored size of the frame at the start of `view`."""
    content_nbytes(view)  # refuses a damaged header
    if sys.version_info >= (3, 14):
        try:
            return _zstd.get_frame_size(view)
        except _zstd.ZstdError as err:
            raise FormatError(f"damaged Zstandard frame: {err}") from err
    front = bytes(view[:_MAX_HEADER_SIZE])
    at = _zstd.frame_header_size(front)
    is_last = False
    while not is_last:
        # One bit marks the last block, two are its kind, 21 its size.
        block = int.from_bytes(view[at : at + _BLOCK_HEADER_SIZE], "little")
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        at += _BLOCK_HEADER_SIZE + (1 if kind == _RLE_BLOCK else size)
        if at > len(view) or kind > _COMPRESSED_BLOCK:
            raise FormatError(f"a Zstandard frame is cut off after {len(view)} bytes")
    return at + _CHECKSUM_SIZE * _zstd.get_frame_parameters(front).has_checksum


def compress(data: BytesLike, level: int) -> bytes:
    """Return `data` as one frame that declares its decoded size and has no checksum."""
    if sys.version_info >= (3, 14):
        return _zstd.compress(data, level)
    return _zstd.ZstdCompressor(level).compress(data)


def decompress(frame: BytesLike, nbytes: int) -> bytes:
    """Return the content of the frame at the start of `frame`, which must be `nbytes` long."""
    declared = content_nbytes(frame)
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
