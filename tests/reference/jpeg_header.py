"""Oracle: the segments of a JPEG image, found byte by byte (ITU-T T.81, B.1.1)."""

_BARE = (0x01, *range(0xD0, 0xD8))
_FRAMES = (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)


def segments(data: bytes) -> list[tuple[int, int]]:
    """Return marker and position of each segment; the marker of a fault is -1."""
    at, found = 2, []
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return [*found, (-1, at)]
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        else:
            found.append((marker, at))
            if marker in (0xDA, 0xD9):
                return found
            at += 2 + max(2, data[at + 2] << 8 | data[at + 3])
    return [*found, (-1, len(data))]


def header(data: bytes) -> tuple[int, int, int, int]:
    """Return the positions of the frame header and of Exif data before it, and the last segment."""
    found = segments(data)
    frame = next((at for marker, at in found if marker in _FRAMES), 0)
    before = [at for marker, at in found if marker == 0xE1 and (at < frame or not frame)]
    exif = next((at for at in before if data[at + 4 : at + 10] == b"Exif\0\0"), 0)
    return frame, exif, *found[-1]
