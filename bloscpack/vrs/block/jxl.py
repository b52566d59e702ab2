"""Size of a JPEG XL image, read and checked before a library decodes the bytes.

An image is a codestream, or a container of boxes that holds a codestream in one or more parts. A
codestream starts with the image size. Source of the facts: ISO/IEC 18181-1 (codestream, size
header) and 18181-2 (boxes).
"""

from collections.abc import Iterator

from ...plugin import BytesLike, FormatError

SIGNATURE = b"\xff\x0a"
CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
# Longest size header, with two sides of 30 bits: 1 + 2 + 30 + 3 + 2 + 30 bits.
_MAX_HEADER_NBYTES = len(SIGNATURE) + 9
_SIDE_BITS = 9, 13, 18, 30
# Width to height, by the stored number of the ratio.
_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}


def image_size(data: BytesLike) -> tuple[int, int]:
    """Return the stored width and height of an image; orientation may swap them on display."""
    head = _codestream_head(data)
    if head[: len(SIGNATURE)] != SIGNATURE:
        raise FormatError(f"JPEG XL: a codestream that starts with {head[:2]!r}")
    bits = _Bits(head[len(SIGNATURE) :])
    is_small = bits.take(1)
    height = bits.side(is_small)
    ratio = bits.take(3)
    if ratio == 0:
        return bits.side(is_small), height
    numerator, denominator = _RATIOS[ratio]
    return height * numerator // denominator, height


class _Bits:
    """Reader of bit fields, lowest bits first."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "little")
        self._left = 8 * len(data)

    def take(self, nbits: int) -> int:
        if nbits > self._left:
            raise FormatError("JPEG XL: the codestream ends within its size header")
        found = self._value & ((1 << nbits) - 1)
        self._value >>= nbits
        self._left -= nbits
        return found

    def side(self, is_small: int) -> int:
        if is_small:
            return 8 * (self.take(5) + 1)
        return self.take(_SIDE_BITS[self.take(2)]) + 1


def _codestream_head(data: BytesLike) -> bytes:
    if bytes(data[: len(CONTAINER)]) != CONTAINER:
        return bytes(data[:_MAX_HEADER_NBYTES])
    head = b""
    for start, stop in _codestream_parts(data):
        head += bytes(data[start : min(stop, start + _MAX_HEADER_NBYTES)])
        if len(head) >= _MAX_HEADER_NBYTES:
            break
    return head


def _codestream_parts(data: BytesLike) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the parts of the codestream in a container, in file order."""
    at = len(CONTAINER)
    while len(data) - at >= 8:
        nbytes = int.from_bytes(data[at : at + 4], "big")
        kind = bytes(data[at + 4 : at + 8])
        start = at + 8
        if nbytes == 1:
            nbytes = int.from_bytes(data[start : start + 8], "big")
            start += 8
        stop = len(data) if nbytes == 0 else at + nbytes
        if stop < start:
            raise FormatError(f"JPEG XL: a box of {nbytes} bytes", offset=at)
        if kind == b"jxlc":
            yield start, stop
        elif kind == b"jxlp":  # starts with the number of the part, 4 bytes
            yield start + 4, stop
        at = stop
