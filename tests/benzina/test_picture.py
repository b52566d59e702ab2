"""Pictures of all kinds as upright RGB, and their frames, planes and thumbnails."""

import errno
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from bloscpack.benzina.codec import picture
from bloscpack.benzina.codec.picture import (
    frame_size,
    pad,
    read_picture,
    thumbnail,
    thumbnail_size,
    yuv_planes,
)
from bloscpack.exceptions import CodecError, UnsupportedError

from .pictures import noise, photo, save

SIDES = st.integers(1, 40)


def stored(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    """Return an array or a Pillow image as the bytes of a file."""
    stream = io.BytesIO()
    made = image if isinstance(image, Image.Image) else Image.fromarray(image)
    made.save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG", "image"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(kind: str, orientation: int) -> None:
    image = Image.fromarray(photo(9, 5))
    exif = image.getexif()
    exif[0x0112] = orientation
    if kind == "image":
        found = read_picture(image)
        expected = ImageOps.exif_transpose(image)
    else:
        options = {"lossless": True} if kind == "WEBP" else {}
        data = stored(image, kind, exif=exif, **options)
        found = read_picture(data)
        expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert found.shape == ((5, 9, 3) if orientation < 5 else (9, 5, 3))
    assert np.array_equal(found, np.asarray(expected))
    assert found.flags.c_contiguous


def test_an_orientation_that_does_not_exist(tmp_path: Path) -> None:
    pixels = noise(6, 4)
    assert np.array_equal(read_picture(save(tmp_path / "a.png", pixels, 9)), pixels)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF", "ignore:Truncated File Read")
@pytest.mark.parametrize(
    "exif",
    [b"nothing", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff\1\x12\0\3"],
    ids=range(3),
)
def test_damaged_exif_turns_nothing(exif: bytes) -> None:
    data = stored(photo(9, 5), "JPEG", exif=b"Exif\0\0" + exif)
    assert read_picture(data).shape == (5, 9, 3)


def test_kinds_of_samples() -> None:
    rgb = noise(7, 5)
    grey, alpha = rgb[..., 0], rgb[..., 1]
    three = np.repeat(grey[..., np.newaxis], 3, axis=2)
    rgba = np.dstack([rgb, alpha])
    for given_, expected in [
        (rgb, rgb),
        (grey, three),
        (grey[..., np.newaxis], three),
        (np.dstack([grey, alpha]), three),
        (rgba, rgb),
        (grey > 100, np.where(three > 100, 255, 0)),
        (grey.astype("u2") * 257, three),
        (rgba.astype(">u2") * 257, rgb),
        (rgb[::-1, ::-1], rgb[::-1, ::-1]),
        (Image.fromarray(rgba), rgb),
        (stored(rgb), rgb),
        (memoryview(stored(rgb)), rgb),
        (stored(rgba), rgb),
        (stored(grey), three),
        (stored(np.dstack([grey, alpha])), three),
        (stored(grey > 100), np.where(three > 100, 255, 0)),
        (stored(grey.astype("u2") * 257), three),
        (stored(grey.astype("u2") * 257, "TIFF"), three),
        (stored(Image.fromarray(grey.astype("i4") * 257), "PPM"), three),
        (stored(rgb, "GIF")[:0] or stored(rgb, "BMP"), rgb),
    ]:
        found = read_picture(given_)
        assert np.array_equal(found, expected)
        assert (found.dtype, found.flags.c_contiguous) == (np.uint8, True)
    assert read_picture(rgb) is rgb


def test_sixteen_bits_are_rounded() -> None:
    found = read_picture(np.array([[0, 128, 129, 65535, 65406, 65407]], "u2"))
    assert found[0, :, 0].tolist() == [0, 0, 1, 255, 254, 255]


def test_palettes_and_transparent_entries() -> None:
    image = Image.fromarray(photo(16, 16)).quantize(8)
    expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(read_picture(stored(image)), expected)
    assert np.array_equal(read_picture(stored(image, "GIF")), expected)
    transparent = bytes(range(0, 256, 32))
    assert np.array_equal(read_picture(stored(image, transparency=transparent)), expected)
    assert np.array_equal(read_picture(stored(image, "GIF", transparency=3)), expected)


def test_cmyk_and_ycbcr() -> None:
    image = Image.fromarray(photo(16, 16)).convert("CMYK")
    assert np.array_equal(read_picture(image), np.asarray(image.convert("RGB")))
    data = stored(image, "JPEG", quality=95)
    assert np.array_equal(
        read_picture(data), np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    )
    assert np.array_equal(
        read_picture(Image.fromarray(photo(16, 16)).convert("YCbCr")),
        np.asarray(Image.fromarray(photo(16, 16)).convert("YCbCr").convert("RGB")),
    )


@pytest.mark.parametrize("mode", ["I", "F"])
def test_samples_without_a_range(mode: str) -> None:
    with pytest.raises(UnsupportedError, match="range is unknown"):
        read_picture(stored(Image.new(mode, (3, 3)), "TIFF"))


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        (np.zeros((3, 3, 5), "u1"), ValueError, "1 to 4 channels"),
        (np.zeros(3, "u1"), ValueError, "1 to 4 channels"),
        (np.zeros((3, 3, 3)), ValueError, "not float64: scale it"),
        (np.zeros((0, 3, 3), "u1"), ValueError, "no pixels"),
        (7, TypeError, "not 'int'"),
        (None, TypeError, "not 'NoneType'"),
        (b"", CodecError, "cannot identify"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", CodecError, "cannot identify"),
        (stored(photo(64, 64), "JPEG")[:300], CodecError, "Truncated"),
        (stored(noise(64, 64), "PNG")[:3000], CodecError, "truncated"),
    ],
    ids=range(10),
)
def test_invalid_pictures(given_: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_picture(given_)


def test_storage_that_fails_is_not_the_fault_of_the_picture(tmp_path: Path) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 200:
                raise OSError(errno.EIO, "the disk has failed")
            return super().read(size)

    with pytest.raises(FileNotFoundError):
        read_picture(tmp_path / "none.png")
    with pytest.raises(OSError, match="the disk has failed") as failure:
        picture._decode(Failing(stored(noise(64, 64))), 1 << 26)
    assert not isinstance(failure.value, CodecError)


def test_too_many_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = noise(20, 10)
    for given_ in (pixels, stored(pixels), Image.fromarray(pixels)):
        assert read_picture(given_, max_pixels=200).shape == (10, 20, 3)
        with pytest.raises(UnsupportedError, match="20x10 has more than 199 pixels"):
            read_picture(given_, max_pixels=199)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 60)  # Pillow's own limit, below ours
    with pytest.raises(UnsupportedError, match="decompression bomb"):
        read_picture(stored(pixels))


@given(SIDES, SIDES, st.sampled_from([16, 32]), st.integers(0, 99))
def test_planes_are_those_of_the_padded_picture(
    width: int, height: int, tile: int, seed: int
) -> None:
    rgb = noise(width, height, seed)
    size = frame_size(width, height, tile)
    red, green, blue = np.moveaxis(pad(rgb, *size).astype(float), 2, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    expected = [luma]
    for chroma in ((blue - luma) / 1.772, (red - luma) / 1.402):
        quads = chroma.reshape(size[1] // 2, 2, size[0] // 2, 2)
        expected.append(np.minimum(quads.mean((1, 3)) + 128, 255))
    for found, exact in zip(yuv_planes(rgb, *size), expected, strict=True):
        assert found.shape == exact.shape
        assert np.abs(found - exact).max() < 0.502


def test_the_most_of_each_chroma() -> None:
    colours = np.array([[0, 0, 255], [255, 0, 0], [255, 255, 0], [0, 255, 255]], "u1")
    found = [yuv_planes(np.tile(rgb, (16, 16, 1)), 16, 16) for rgb in colours]
    assert [[int(plane[0, 0]) for plane in planes] for planes in found] == [
        [29, 255, 107],
        [76, 85, 255],
        [226, 1, 149],
        [179, 171, 1],
    ]


def test_grey_stays_grey() -> None:
    grey = np.repeat(np.arange(256, dtype="u1").reshape(16, 16, 1), 3, axis=2)
    luma, blue, red = yuv_planes(grey, 16, 16)
    assert np.array_equal(luma, grey[..., 0])
    assert set(blue.ravel()) == set(red.ravel()) == {128}


def test_a_picture_in_its_frame() -> None:
    assert frame_size(1, 512, 512) == (512, 512)
    assert frame_size(2000, 3, 512) == (2048, 512)
    assert frame_size(513, 7, 512) == (1024, 512)
    pixels = noise(3, 2)
    assert pad(pixels, 3, 2) is pixels
    framed = pad(pixels, 5, 4)
    assert np.array_equal(framed[:2, :3], pixels)
    assert np.array_equal(framed[:2, 3:], pixels[:, [2, 2]])
    assert np.array_equal(framed[2:], framed[[1, 1]])


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_the_size_of_thumbnails(width: int, height: int) -> None:
    found = thumbnail_size(width, height, 512)
    if max(width, height) <= 512:
        assert found == (width, height)
    else:
        scale = 512 / max(width, height)
        assert max(found) == 512
        for side, whole in zip(found, (width, height), strict=True):
            assert side >= 1
            assert abs(side - whole * scale) <= 0.5 + 1e-9 or side == 1


def test_thumbnails() -> None:
    assert thumbnail(noise(16, 16), 16) is None
    found = thumbnail(photo(100, 3), 16)
    assert found is not None
    assert found.shape == (1, 16, 3)
    expected = Image.fromarray(photo(40, 30)).resize((32, 24), Image.Resampling.BICUBIC)
    assert np.array_equal(thumbnail(photo(40, 30), 32), np.asarray(expected))


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    data, pixels = stored(noise(5, 5)), noise(5, 5)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert read_picture(pixels) is pixels
    for call in (lambda: read_picture(data), lambda: thumbnail(noise(17, 3), 16)):
        with pytest.raises(ImportError, match=r"bloscpack\[image\]"):
            call()
