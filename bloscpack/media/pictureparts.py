"""Parts of picture files that Pillow does not give: unknown chunks, and bytes behind the end."""

from collections.abc import Iterator

from .image import JPEG_END, is_jpeg, jpeg_segments, png_chunks

_APP0 = 0xE0  # first of 16 markers of segments for applications
# Beginnings of the segments that Pillow knows, and of a thumbnail.
_JPEG_SEGMENTS: dict[int, tuple[bytes, ...]] = {
    _APP0: (b"JFIF\0", b"JFXX\0"),
    0xE1: (b"Exif\0", b"http://ns.adobe.com/xap/1.0/\0"),
    0xE2: (b"ICC_PROFILE\0", b"MPF\0"),
    0xED: (b"Photoshop 3.0\0",),
    0xEE: (b"Adobe",),
}
# Chunks of pixels, and those that Pillow knows.
_PNG_CHUNKS = {
    *(b"IHDR", b"PLTE", b"IDAT", b"IEND", b"acTL", b"fcTL", b"fdAT", b"tRNS", b"gAMA", b"cHRM"),
    *(b"sRGB", b"iCCP", b"pHYs", b"tEXt", b"zTXt", b"iTXt", b"eXIf"),
}
# Blocks of GIF: an extension, an image, the end.
_EXTENSION, _IMAGE, _TRAILER = b"!", b",", b";"
_LOOPS = b"\xff\x0bNETSCAPE2.0\x03\x01"


def other_parts(data: bytes) -> Iterator[str]:
    """Yield short texts for parts of a JPEG, PNG, GIF or WebP file that Pillow does not give.

    FormatError if the beginning of a JPEG is damaged.
    """
    end = len(data)
    if is_jpeg(data):
        for marker, at in jpeg_segments(data):
            payload, known = bytes(data[at + 4 : at + 40]), _JPEG_SEGMENTS.get(marker, ())
            if _APP0 <= marker < _APP0 + 16 and not payload.startswith(known):
                yield f"segment APP{marker - _APP0}"
        end = data.rfind(JPEG_END) + len(JPEG_END)
    elif data[1:4] == b"PNG":
        for name, at, nbytes in png_chunks(data):
            end = at + nbytes + 4
            if name not in _PNG_CHUNKS:
                yield f"chunk {name.decode('latin-1')!r}"
    elif data[:4] == b"RIFF":
        size = int.from_bytes(data[4:8], "little")
        end = 8 + size + size % 2
    elif data[:3] == b"GIF":
        end, parts = gif_parts(data)
        yield from parts
    if end < len(data):
        yield f"{len(data) - end} bytes behind the end"


def gif_parts(data: bytes) -> tuple[int, list[str]]:
    """Return where a GIF file ends, behind its last byte if it is cut, and what it says besides.

    These are short texts for the loop count, and for an end that is cut off.

    An animation without end is what `write_gif` writes, so that a copy back to GIF has it, too.
    """
    at, nimages, count = 13 + _table_nbytes(data, 10), 0, 1
    while (kind := data[at : at + 1]) in (_EXTENSION, _IMAGE):
        if data.startswith(_LOOPS, at + 1):
            count = int.from_bytes(data[at + 16 : at + 18], "little")
        nimages += kind == _IMAGE
        at += 2 if kind == _EXTENSION else 11 + _table_nbytes(data, at + 9)
        while nbytes := data[at] if at < len(data) else 0:  # blocks with their sizes
            at += 1 + nbytes
        at += 1
    parts = [f"loop count of the animation: {count}"] if count and nimages > 1 else []
    if kind == _TRAILER:
        return at + 1, parts
    return max(at, len(data)) + 1, [*parts, "end of the file, which is cut off"]


def _table_nbytes(data: bytes, at: int) -> int:
    """Return the size of the colour table that the flags at a place of a GIF file declare."""
    flags = data[at] if at < len(data) else 0
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0
