"""Where a video file ends by its own structure.

FFmpeg reads a file that was cut, or that has something behind it, as far as it gets, and often
reports neither. So the sizes that a container declares are added up: only heads of elements are
read, never their contents. MPEG program streams, NUT, Y4M and streams without a container declare
nothing.
"""

import os
import struct
from collections.abc import Callable
from typing import BinaryIO

from ..format.filekind import HEAD_NBYTES, is_transport_stream
from .pictureparts import gif_parts

# Takes the head of an element, its offset, and the bytes from there to the end of the file; returns
# the size of the element, or 0 if it does not belong to the video.
_SizeOf = Callable[[bytes, int, int], int]

# Boxes at the top of files: ISO/IEC 14496-12, and QuickTime (pnot, wide).
_BOXES = {
    *(b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"uuid", b"meta", b"udta", b"pnot"),
    *(b"moof", b"mfra", b"styp", b"sidx", b"ssix", b"prft", b"emsg", b"pdin"),
}
# RFC 8794 and RFC 9559: ids of the header and of the segment, both of 4 bytes.
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
# Advanced Systems Format, section 10.1: ids of the header and of the data.
_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_DATA = bytes.fromhex("3626b2758e66cf11a6d900aa0062ce6c")
# SMPTE ST 377-1: start of all keys, and of that of the partition at the start.
_KLV = bytes.fromhex("060e2b34")
_MXF = bytes.fromhex("060e2b34020501010d0102010102")
_MXF_FOOTER = 3 * 8  # offset in that partition: behind two sizes of the format and two partitions
_FLV_TAGS = {8, 9, 18}  # sound, video, data
_FLV_SIZE = b"\x00\x08filesize\x00"  # name and type of a number, before 8 bytes of it
_OGG_LAST = 4  # flag of the last page of a stream
_NPACKETS = 4096  # of a transport stream, read at once


def read_extent(file: BinaryIO) -> tuple[int | None, list[str]]:
    """Return where the video in a file ends, and short texts for what its structure says besides.

    The end is None if the file does not say so. It is behind the end of a file that was cut, and
    before the end of one that has more than the video, such as a second one.
    """
    file.seek(0)
    if file.read(6) in (b"GIF87a", b"GIF89a"):
        file.seek(0)
        return gif_parts(file.read())
    return _declared_end(file), []


def _declared_end(file: BinaryIO) -> int | None:
    nbytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(HEAD_NBYTES)
    if head[4:8] in _BOXES:
        return _walk(file, 0, 16, _box) or None
    for magic, head_nbytes, size_of in _ROWS:
        if head.startswith(magic):
            return _walk(file, 0, head_nbytes, size_of) or None
    if head.startswith(b"FLV"):
        return max(_walk(file, _big(head[5:9]) + 4, 4, _flv_tag), _flv_nbytes(head))
    if head.startswith(b"DKIF"):
        return _walk(file, _little(head[6:8]), 4, _ivf_frame) or None
    if head.startswith(b"OggS"):
        return _end_of_ogg(file, nbytes)
    if head.startswith(_MXF) and len(head) > 16:
        return max(_walk(file, 0, 16 + 1 + 8, _klv), _mxf_footer(head) + 1)
    return _end_of_packets(file, head, nbytes) if is_transport_stream(head) else None


def _walk(file: BinaryIO, at: int, head_nbytes: int, size_of: _SizeOf) -> int:
    """Return where a row of elements ends that begins at an offset."""
    nbytes = file.seek(0, os.SEEK_END)
    while at < nbytes:
        file.seek(at)
        size = size_of(file.read(head_nbytes), at, nbytes - at)
        if not size:
            break
        at += size
    return at


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _box(head: bytes, at: int, left: int) -> int:
    size, kind = _big(head[:4]), head[4:8]
    if at and kind == b"ftyp":  # another movie
        return 0
    if size == 1:
        size = _big(head[8:16])
    if kind in _BOXES and not size:
        return left
    return size if size >= 8 and (kind in _BOXES or size <= left) else 0


def _matroska_element(head: bytes, at: int, left: int) -> int:
    if head[:4] != (_SEGMENT if at else _EBML) or len(head) < 5 or not head[4]:
        return 0
    width = 9 - head[4].bit_length()
    unknown = (1 << 7 * width) - 1  # of a file that was written without going back
    size = _big(head[4 : 4 + width]) & unknown
    return left if size == unknown else 4 + width + size


def _riff(head: bytes, at: int, left: int) -> int:
    if not head.startswith(b"RIFF") or head[8:12] != (b"AVIX" if at else b"AVI "):
        return 0
    size = _little(head[4:8])
    whole = 8 + size + size % 2
    # Some programs count these 8 bytes, too, and some write no size.
    return left if not size or 0 < whole - left <= 8 else whole


def _asf_object(head: bytes, at: int, left: int) -> int:
    kind, size = head[:16], _little(head[16:24])
    if at and kind == _ASF:  # another video
        return 0
    if kind == _ASF_DATA:
        return size or left  # a live stream has no size
    return size if 24 <= size <= left else 0


# Files that are a row of elements from their start.
_ROWS: tuple[tuple[bytes, int, _SizeOf], ...] = (
    (_EBML, 12, _matroska_element),
    (b"RIFF", 12, _riff),
    (_ASF, 24, _asf_object),
)


def _flv_tag(head: bytes, at: int, left: int) -> int:
    # Its head has 11 bytes, and its size stands behind it once more.
    return 11 + _big(head[1:4]) + 4 if head[0] & 0x1F in _FLV_TAGS else 0


def _flv_nbytes(head: bytes) -> int:
    """Return the size of a file by the metadata at its start, or 0."""
    number = head.partition(_FLV_SIZE)[2][:8]
    size = struct.unpack(">d", number)[0] if len(number) == 8 else 0
    return int(size) if 0 < size < 1 << 63 else 0


def _ivf_frame(head: bytes, at: int, left: int) -> int:
    return 0 if head == b"DKIF" else 4 + 8 + _little(head)


def _klv(head: bytes, at: int, left: int) -> int:
    if not head.startswith(_KLV) or len(head) <= 16 or (at and head.startswith(_MXF)):
        return 0
    start = _klv_start(head)
    return start + (_big(head[17:start]) if start > 17 else head[16])


def _klv_start(head: bytes) -> int:
    """Return the size of a key and of the length behind it."""
    return 16 + 1 + (head[16] & 0x7F if head[16] & 0x80 else 0)


def _mxf_footer(head: bytes) -> int:
    at = _klv_start(head) + _MXF_FOOTER
    return _big(head[at : at + 8])


def _end_of_ogg(file: BinaryIO, nbytes: int) -> int:
    flags = 0

    def page(head: bytes, at: int, left: int) -> int:
        nonlocal flags
        if not head.startswith(b"OggS") or len(head) < 27:
            return 0
        flags = head[5]
        return 27 + head[26] + sum(head[27 : 27 + head[26]])

    end = _walk(file, 0, 27 + 255, page)
    return end if flags & _OGG_LAST else max(end, nbytes) + 1


def _end_of_packets(file: BinaryIO, head: bytes, nbytes: int) -> int | None:
    """Return the end of a transport stream, or None if FFmpeg finds packets behind other bytes."""
    width, sync = (188, 0) if head[:377:188] == b"GGG" else (192, 4)
    file.seek(0)
    npackets = 0
    while starts := file.read(_NPACKETS * width)[sync::width]:
        count = len(starts) - len(starts.lstrip(b"G"))
        npackets += count
        if count < len(starts):
            break
    end = npackets * width
    file.seek(min(end, nbytes))
    rest = file.read(_NPACKETS * width)
    is_found = any(b"GGG" in rest[phase::width] for phase in range(width))
    return None if is_found else end
