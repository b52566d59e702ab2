"""JPEG and PNG bytes to arrays and back: pixels, limits, damage."""

import io
import struct
import sys
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bloscpack.exceptions import CodecError, FormatError, UnsupportedError
from bloscpack.media import image

simplejpeg = pytest.importorskip("simplejpeg")
Image = pytest.importorskip("PIL.Image")

CLEAN = (FormatError, CodecError, UnsupportedError)


def picture(height: int, width: int, *channels: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return a spatially smooth picture, which JPEG reproduces closely."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [127 + 120 * np.sin((x * rng.random() + y) / 9) for _ in range(*channels or (1,))]
    stacked = np.stack(waves, axis=-1).astype("u1")
    return stacked if channels else stacked[..., 0]


def png(pillow_image: object, **options: object) -> bytes:
    stream = io.BytesIO()
    pillow_image.save(stream, "PNG", **options)  # type: ignore[attr-defined]
    return stream.getvalue()


def jpeg(pillow_image: object, **options: object) -> bytes:
    stream = io.BytesIO()
    pillow_image.save(stream, "JPEG", **options)  # type: ignore[attr-defined]
    return stream.getvalue()


def tiny_jpeg(height: int, width: int, *, components: int = 1, depth: int = 8) -> bytes:
    frame = struct.pack(">BHHB", depth, height, width, components)
    frame += b"".join(bytes((i, 0x11, 0)) for i in range(1, components + 1))
    return b"\xff\xd8\xff\xc0" + struct.pack(">H", 2 + len(frame)) + frame + b"\xff\xd9"


def tiny_png(height: int, width: int, depth: int = 8, color: int = 0) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (24, 33, 3), (1, 9, 3), (16, 16)])
def test_jpeg_with_the_defaults_is_gulpio2s(shape: tuple[int, ...]) -> None:
    pixels = picture(*shape)
    gulp = simplejpeg.encode_jpeg(
        pixels.reshape(*shape[:2], -1),
        quality=90,
        colorspace="Gray" if len(shape) == 2 else "RGB",
    )
    data = image.encode_jpeg(pixels)
    assert data == gulp
    assert image.probe(data) == image.ImageInfo("jpeg", shape, np.dtype("u1"))

    expected = simplejpeg.decode_jpeg(
        gulp,
        colorspace="GRAY" if len(shape) == 2 else "RGB",
        fastdct=True,
        fastupsample=True,
    ).reshape(shape)
    out = np.zeros(shape, "u1")
    image.decode_into(memoryview(data), out)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(image.decode(bytearray(data)), expected)


def test_fast_and_accurate_pixels_are_the_librarys() -> None:
    data = image.encode_jpeg(picture(40, 60, 3), subsampling="420")
    fast, accurate = image.decode(data), image.decode(data, fast=False)
    assert (fast != accurate).any()
    np.testing.assert_array_equal(
        accurate, simplejpeg.decode_jpeg(data, fastdct=False, fastupsample=False)
    )
    out = np.zeros_like(accurate)
    image.decode_into(data, out, fast=False)
    np.testing.assert_array_equal(out, accurate)


def test_decodes_into_any_strides_and_nothing_else() -> None:
    data = image.encode_jpeg(picture(10, 12, 3))
    expected = image.decode(data)
    around = np.full((12, 20, 5), 77, "u1")
    image.decode_into(data, around[1:11, 2:14, 1:4])
    np.testing.assert_array_equal(around[1:11, 2:14, 1:4], expected)
    around[1:11, 2:14, 1:4] = 77
    assert (around == 77).all()


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((10, 12), "u1"),
        np.zeros((10, 12, 4), "u1"),
        np.zeros((12, 10, 3), "u1"),
        np.zeros((10, 12, 3), "u2"),
        np.zeros((1, 10, 12, 3), "u1"),
    ],
)
def test_an_out_of_another_shape_or_dtype_is_refused(out: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match=r"\(10, 12, 3\)") as caught:
        image.decode_into(image.encode_jpeg(picture(10, 12, 3)), out)
    assert not isinstance(caught.value, FormatError)
    assert not out.any()


@pytest.mark.parametrize("reduce", [1, 2, 4, 8])
def test_reduced_size(reduce: int) -> None:
    pixels = picture(50, 71, 3)
    small = image.decode(image.encode_jpeg(pixels), reduce=reduce)
    assert small.shape == (-(-50 // reduce), -(-71 // reduce), 3)
    whole = pixels[: 48 // reduce * reduce, : 64 // reduce * reduce].astype(float)
    means = whole.reshape(48 // reduce, reduce, 64 // reduce, reduce, 3).mean((1, 3))
    assert abs(small[: 48 // reduce, : 64 // reduce] - means).mean() < 6


@pytest.mark.parametrize("reduce", [0, 3, 16, -1])
def test_other_reductions_are_refused(reduce: int) -> None:
    with pytest.raises(ValueError, match="reduce"):
        image.decode(image.encode_jpeg(picture(8, 8)), reduce=reduce)


def test_png_is_not_reduced() -> None:
    with pytest.raises(ValueError, match="PNG"):
        image.decode(image.encode_png(picture(8, 8)), reduce=2)


@pytest.mark.parametrize(
    ("mode", "options", "shape"),
    [
        ("L", {}, (20, 30)),
        ("RGB", {"keep_rgb": True}, (20, 30, 3)),
        ("RGB", {"progressive": True}, (20, 30, 3)),
        ("RGB", {"subsampling": "4:2:0"}, (20, 30, 3)),
        ("CMYK", {}, (20, 30, 4)),
    ],
)
def test_jpegs_of_other_programs(
    mode: str, options: dict[str, object], shape: tuple[int, ...]
) -> None:
    source = Image.fromarray(picture(20, 30, 3)).convert(mode)
    data = jpeg(source, **options)
    assert image.probe(data).shape == shape
    expected = np.asarray(source).astype(int)
    if mode == "CMYK":  # stored inverted, and returned as stored
        expected = 255 - expected
    np.testing.assert_allclose(image.decode(data, fast=False).astype(int), expected, atol=60)


@pytest.mark.parametrize(
    "pixels",
    [
        picture(5, 7),
        picture(5, 7, 3),
        picture(5, 7, 4),
        picture(5, 7, 3)[::-1, ::2],
        np.arange(63, dtype="u2").reshape(7, 9) * 1021,
        (np.arange(63, dtype=">u2").reshape(7, 9) * 1021).astype(">u2"),
        picture(9, 11) > 127,
    ],
)
def test_png_is_exact(pixels: NDArray[np.generic]) -> None:
    data = image.encode_png(pixels)
    info = image.probe(data)
    assert (info.kind, info.shape) == ("png", pixels.shape)
    assert info.dtype == pixels.dtype.newbyteorder("<")
    decoded = image.decode(data)
    assert decoded.dtype == info.dtype
    np.testing.assert_array_equal(decoded, pixels)
    out = np.zeros(info.shape, info.dtype)
    image.decode_into(data, out)
    np.testing.assert_array_equal(out, pixels)


def test_pngs_of_other_kinds() -> None:
    palette = Image.fromarray(picture(9, 8, 3)).quantize(4)
    data = png(palette, bits=2)
    assert image.probe(data).shape == (9, 8, 3)
    np.testing.assert_array_equal(image.decode(data), np.asarray(palette.convert("RGB")))
    with_alpha = Image.fromarray(picture(9, 8)).convert("LA")
    data = png(with_alpha)
    assert image.probe(data).shape == (9, 8, 2)
    np.testing.assert_array_equal(image.decode(data), np.asarray(with_alpha))


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4), "i2"),
        np.zeros((4, 4, 3), "f4"),
        np.zeros((4, 4, 2), "u1"),
        np.zeros((4, 4, 4), "u1"),
        np.zeros((0, 4, 3), "u1"),
        np.zeros(4, "u1"),
        np.zeros((1, 65501), "u1"),
    ],
)
def test_arrays_that_jpeg_cannot_store(pixels: NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match="JPEG stores"):
        image.encode_jpeg(pixels)


def test_arrays_that_jpeg_can_store() -> None:
    gray = picture(9, 8)
    assert image.encode_jpeg(gray[..., np.newaxis]) == image.encode_jpeg(gray)
    colour = picture(9, 8, 3)
    assert image.encode_jpeg(np.asfortranarray(colour)) == image.encode_jpeg(colour)
    assert len(image.encode_jpeg(colour, quality=10)) < len(image.encode_jpeg(colour))
    with pytest.raises(ValueError, match="quality"):
        image.encode_jpeg(gray, quality=0)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4), "i2"),
        np.zeros((4, 4, 3), "u2"),
        np.zeros((4, 4, 3), "?"),
        np.zeros((4, 4, 1), "u1"),
        np.zeros(4, "u1"),
        np.zeros((4, 0), "u1"),
    ],
)
def test_arrays_that_png_cannot_store(pixels: NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match=r"PNG (stores|cannot store)"):
        image.encode_png(pixels)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8",
        b"GIF89a....",
        b"\xff\xd8\xff\xd9" + bytes(8),
        b"\xff\xd8\xff\xe0\x00",
        tiny_jpeg(0, 4),
        tiny_jpeg(4, 0),
        tiny_jpeg(4, 4)[:10],
        tiny_png(0, 4),
        tiny_png(4, 4, 8, 5),
        tiny_png(4, 4)[:30],
        b"\x89PNG\r\n\x1a\n" + bytes(40),
    ],
)
def test_broken_headers(data: bytes) -> None:
    with pytest.raises(FormatError):
        image.probe(data)
    with pytest.raises(FormatError):
        image.decode(data)


@pytest.mark.parametrize(
    "data", [tiny_jpeg(4, 4, depth=12), tiny_jpeg(4, 4, components=2), tiny_png(4, 4, 16, 2)]
)
def test_depths_we_do_not_decode(data: bytes) -> None:
    with pytest.raises(UnsupportedError):
        image.probe(data)


@pytest.mark.parametrize(
    "data",
    [tiny_jpeg(65500, 65500, components=3), tiny_png(1 << 30, 1 << 30), tiny_png(9000, 9000)],
)
def test_huge_declared_sizes_allocate_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="too many for"):
            image.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_large_but_honest_images_are_read() -> None:
    pixels = np.zeros((8200, 8200), "u1")
    assert pixels.nbytes > image.MAX_NBYTES
    np.testing.assert_array_equal(image.decode(image.encode_jpeg(pixels)), pixels)


def test_too_many_scans_are_refused() -> None:
    data = jpeg(Image.fromarray(picture(20, 30, 3)), progressive=True)
    scan = data[data.rindex(b"\xff\xda") : -2]
    assert image.decode(data).shape == (20, 30, 3)
    with pytest.raises(FormatError, match="scans"):
        image.decode(data[:-2] + scan * image.MAX_SCANS + data[-2:])


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_every_prefix_is_an_error(kind: str) -> None:
    data = (image.encode_jpeg if kind == "jpeg" else image.encode_png)(picture(9, 8, 3))
    for end in range(len(data)):
        with pytest.raises(CLEAN):
            image.decode(data[:end])


def test_cut_jpeg_is_a_codec_error() -> None:
    data = image.encode_jpeg(picture(9, 8, 3))
    with pytest.raises(CodecError, match="JPEG") as caught:
        image.decode(data[:-2])
    assert caught.value.codec == "jpeg"


@given(st.data())
def test_a_flipped_bit_of_a_png_is_an_error(draw: st.DataObject) -> None:
    data = bytearray(image.encode_png(picture(9, 8, 3)))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(CLEAN):
        image.decode(bytes(data))


@given(st.sampled_from(["jpeg", "progressive", "png"]), st.data())
def test_any_bytes_give_an_array_or_a_documented_error(kind: str, draw: st.DataObject) -> None:
    pixels = picture(9, 8, 3)
    if kind == "png":
        data = bytearray(image.encode_png(pixels))
    else:
        data = bytearray(jpeg(Image.fromarray(pixels), progressive=kind == "progressive"))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        info = image.probe(data)
        decoded = image.decode(bytes(data))
    except CLEAN:
        return
    assert (decoded.shape, decoded.dtype) == (info.shape, info.dtype)


@pytest.mark.parametrize(
    ("module", "work"),
    [
        ("simplejpeg", lambda: image.encode_jpeg(picture(4, 4))),
        ("PIL", lambda: image.encode_png(picture(4, 4))),
    ],
)
def test_a_missing_library_names_the_extra(
    module: str, work: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"bloscpack\[image\]"):
        work()  # type: ignore[operator]


def turned(kind: str, orientation: int, order: str = "<") -> tuple[bytes, NDArray[Any]]:
    """Return an image with an orientation in its EXIF data, and its pixels as Pillow turns them."""
    pillow = pytest.importorskip("PIL.Image")
    from PIL import ImageOps

    rows = np.linspace(0, 255, 7 * 9 * 3).reshape(7, 9, 3).astype("u1")
    exif = pillow.Exif()
    exif.endian = order
    exif[0x010E], exif[0x0112] = "a description", orientation
    stream = io.BytesIO()
    pillow.fromarray(rows).resize((90, 70)).save(stream, kind, exif=exif)
    data = stream.getvalue()
    upright = ImageOps.exif_transpose(pillow.open(io.BytesIO(data)))
    return data, np.asarray(upright.convert("RGB"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", range(10))
def test_images_are_turned_upright(kind: str, orientation: int) -> None:
    for order in "<>":
        data, expected = turned(kind, orientation, order)
        info = image.probe(data, upright=True)
        assert (info.shape, info.stored_shape) == (expected.shape, (70, 90, 3))
        assert image.inspect(data) == (info, "")
        assert np.array_equal(image.decode(data, fast=False, upright=True), expected)
        for out in (np.empty_like(expected), np.empty((2, *expected.shape), "u1")[0, ::-1]):
            image.decode_into(data, out, fast=False, upright=True)
            assert np.array_equal(out, expected)
        stored = image.decode(data, fast=False)
        assert stored.shape == image.probe(data).shape == (70, 90, 3)
        assert np.array_equal(image.turn(stored, *info.turn), expected)
        if kind == "JPEG":
            height, width = expected.shape[:2]
            assert image.decode(data, reduce=4, upright=True).shape == (
                -(-height // 4),
                -(-width // 4),
                3,
            )


@pytest.mark.parametrize(
    "exif", [b"", b"II", b"MM\0*\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff", b"\0" * 40]
)
def test_damaged_exif_data_turn_nothing(exif: bytes) -> None:
    data = turned("JPEG", 1)[0]
    segment = b"Exif\0\0" + exif
    head = b"\xff\xd8\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment
    assert image.probe(head + data[2:], upright=True).turn == image.UPRIGHT


@pytest.mark.parametrize("kind", ["JPEG", "progressive", "PNG"])
def test_a_truncated_image_is_found_without_decoding_it(kind: str) -> None:
    pillow = pytest.importorskip("PIL.Image")
    picture = pillow.fromarray(np.arange(40 * 50 * 3, dtype="u1").reshape(40, 50, 3))
    stream = io.BytesIO()
    options: dict[str, Any] = {"progressive": True} if kind == "progressive" else {}
    picture.save(stream, "PNG" if kind == "PNG" else "JPEG", **options)
    data = stream.getvalue()
    for rest in (b"", b"\0", b"more bytes"):
        assert image.inspect(data + rest)[1] == ""
    for length in range(3, len(data)):
        with pytest.raises(FormatError):
            image.inspect(data[:length])


def test_further_pages_are_noted() -> None:
    pillow = pytest.importorskip("PIL.Image")
    pages = [pillow.fromarray(np.full((8, 9, 3), value, "u1")) for value in (1, 2, 3)]
    for kind in ("PNG", "MPO"):
        stream = io.BytesIO()
        pages[0].save(stream, kind, save_all=True, append_images=pages[1:])
        assert (
            image.inspect(stream.getvalue())[1] == "2 more pages, which are kept in its bytes only"
        )
