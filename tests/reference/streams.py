"""Streams of a Blosc-1 chunk in plain Python, as described in docs/formats/blosc-chunk.md.

Slow and strict: each decoder returns exactly the expected size, or refuses.
"""

import zlib

import zstandard

from .refused import RefusedError, need


def _copy(out: bytearray, distance: int, length: int, size: int) -> None:
    """Copy a match from `distance` bytes back; source and destination may overlap."""
    need(0 < distance <= len(out), "codec", "a match starts before the stream")
    need(len(out) + length <= size, "codec", "a match ends behind the stream")
    for _ in range(length):
        out.append(out[-distance])


def decode_blosclz(stream: bytes, size: int) -> bytes:
    out, at = bytearray(), 0
    while at < len(stream):
        token = stream[at] & 31 if at == 0 else stream[at]
        at += 1
        if token < 32:
            literals = stream[at : at + token + 1]
            need(len(literals) == token + 1, "codec", "literals end behind the stream")
            out += literals
            at += len(literals)
            continue
        length, high = token >> 5, token & 31
        if length == 7:
            while stream[at] == 255:
                length += 255
                at += 1
            length += stream[at]
            at += 1
        low = stream[at]
        at += 1
        distance = 256 * high + low + 1
        if high == 31 and low == 255:
            distance = 256 * stream[at] + stream[at + 1] + 8192
            at += 2
        _copy(out, distance, length + 2, size)
    return bytes(out)


def decode_lz4(stream: bytes, size: int) -> bytes:
    out, at = bytearray(), 0
    while True:
        token = stream[at]
        at += 1
        count, at = _lz4_length(stream, at, token >> 4)
        literals = stream[at : at + count]
        need(len(literals) == count, "codec", "literals end behind the stream")
        out += literals
        at += count
        if at == len(stream):
            return bytes(out)
        distance = stream[at] + 256 * stream[at + 1]
        count, at = _lz4_length(stream, at + 2, token & 15)
        _copy(out, distance, count + 4, size)


def _lz4_length(stream: bytes, at: int, nibble: int) -> tuple[int, int]:
    length = nibble
    if nibble == 15:
        while stream[at] == 255:
            length += 255
            at += 1
        length += stream[at]
        at += 1
    return length, at


def decode_snappy(stream: bytes, size: int) -> bytes:
    at, shift, declared = 0, 0, 0
    while True:
        declared |= (stream[at] & 127) << shift
        shift += 7
        at += 1
        if stream[at - 1] < 128:
            break
    need(declared == size, "codec", "Snappy declares another size")
    out = bytearray()
    while at < len(stream):
        tag = stream[at]
        at += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                width = length - 60
                length = int.from_bytes(stream[at : at + width], "little") + 1
                at += width
            literals = stream[at : at + length]
            need(len(literals) == length, "codec", "literals end behind the stream")
            out += literals
            at += length
        elif tag & 3 == 1:
            _copy(out, (tag >> 5) * 256 + stream[at], (tag >> 2 & 7) + 4, size)
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            distance = int.from_bytes(stream[at : at + width], "little")
            _copy(out, distance, (tag >> 2) + 1, size)
            at += width
    return bytes(out)


def decode_zlib(stream: bytes, size: int) -> bytes:
    return zlib.decompress(stream, bufsize=size)


def decode_zstd(stream: bytes, size: int) -> bytes:
    # A frame written by Zstandard's streaming API does not have its size.
    return zstandard.ZstdDecompressor().decompress(stream, max_output_size=size)


DECODERS = (decode_blosclz, decode_lz4, decode_snappy, decode_zlib, decode_zstd)


def decode_stream(stream_format: int, stream: bytes, size: int) -> bytes:
    """Return the `size` bytes of a compressed stream."""
    try:
        out = DECODERS[stream_format](stream, size)
    except RefusedError:
        raise
    except (IndexError, zlib.error, zstandard.ZstdError) as err:
        raise RefusedError("codec", f"a stream does not decode: {err}") from err
    need(len(out) == size, "codec", f"a stream decodes to {len(out)} bytes, not {size}")
    return out
