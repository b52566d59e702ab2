"""The header of JPEG images: the kernel beside the same in Python, for damaged bytes too."""

from random import Random

import pytest

from bloscpack._ext import jpeg

from ..conftest import Some
from ..reference import jpeg_header

EXIF = b"\xff\xe1\x00\x10Exif\0\0II*\0\x08\0\0\0"
FRAME = b"\xff\xc2\x00\x0b\x08\0\x09\0\x08\x01\x01\x11\0"
SCAN = b"\xff\xda\x00\x08\x01\x01\0\0\x3f\0"
TABLE = b"\xff\xdb\x00\x05\0\1\2"
PARTS = [EXIF, FRAME, TABLE, SCAN, b"\xff", b"\xff\x01", b"\xff\xd3"]
PARTS += [b"\xff\xd9\0\0", b"\xff\xc4\0\0"]
WHOLE = b"\xff\xd8" + EXIF + TABLE + b"\xff\xff\xff\xd0" + FRAME + EXIF + SCAN


def test_segments_and_header() -> None:
    found = jpeg.segments(WHOLE)
    assert [marker for marker, _ in found] == [0xE1, 0xDB, 0xC2, 0xE1, 0xDA]
    frame, exif, *last = jpeg.header(WHOLE)
    assert (WHOLE[frame + 1], exif, *last) == (0xC2, 2, *found[-1])


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"\xff\xd8\xff\xda", b"\xff\xd8\0\0\0\0"])
def test_no_header(data: bytes) -> None:
    at = 2 if len(data) == 6 else len(data)
    assert jpeg.segments(data) == [(-1, at)]
    assert jpeg.header(data) == (0, 0, -1, at)


def test_equal_to_python_for_any_bytes(some: Some) -> None:
    for seed in some(range(4000), 7):
        rng = Random(seed)
        data = bytearray(b"\xff\xd8" + b"".join(rng.choices(PARTS, k=rng.randrange(12))))
        for _ in range(rng.randrange(4)):
            byte = rng.choice((0, 1, 0xFF, 0xC0, 0xD9, rng.randrange(256)))
            data[rng.randrange(len(data))] = byte
        data = data[: rng.choice((len(data), rng.randrange(len(data) + 1)))]
        assert jpeg.segments(data) == jpeg_header.segments(data), data.hex()
        assert jpeg.header(data) == jpeg_header.header(data), data.hex()
