"""Declared images, audio and other blocks: values that fit, and the bytes they become."""

from typing import Any

import numpy as np
import pytest

import bloscpack.vrs as vrs
from bloscpack.vrs.block.audio import AudioFormat, SampleFormat
from bloscpack.vrs.block.pixels import ImageFormat, PixelFormat
from bloscpack.vrs.write.declaration import as_bytes


def test_declarations_are_texts_of_the_record_format() -> None:
    image = vrs.Image(
        "video",
        640,
        480,
        "rgb8",
        stride=2000,
        codec_name="H.264 +",
        codec_quality=90,
        key_frame_timestamp=1.5,
        key_frame_index=2,
        size=99,
    )
    assert str(image.block) == (
        "image/size=99/video/640x480/pixel=rgb8/stride=2000/codec=H.264%20%2B/codec_quality=90"
        "/keyframe_timestamp=1.500000000/keyframe_index=2"
    )
    assert str(vrs.Image().block) == "image/raw"
    assert vrs.Image(ImageFormat.JPG).block == vrs.Image("jpg").block
    pixel = PixelFormat.RGB32F
    assert vrs.Image("raw", 1, 1, pixel).block == vrs.Image("raw", 1, 1, "rgb32F").block
    audio = vrs.Audio("int16le", 2, 48000, samples=10, stride=6)
    assert str(audio.block) == "audio/pcm/int16le/channels=2/rate=48000/samples=10/stride=6"
    assert str(vrs.Audio(audio_format="opus").block) == "audio/opus"
    assert vrs.Audio(SampleFormat.S8, 1).block == vrs.Audio("int8", 1).block
    assert str(vrs.Custom("my format".replace(" ", "_"), size=4).block) == (
        "custom/size=4/format=my_format"
    )


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: vrs.Image("bmp"), "image format 'bmp': expected one of"),
        (lambda: vrs.Image("raw", 1, 1, "grey9"), "pixel format 'grey9': expected one of"),
        (lambda: vrs.Image("raw", -1, 1, "grey8"), "width -1"),
        (lambda: vrs.Image("raw", 1, 1 << 32, "grey8"), "height 4294967296"),
        (lambda: vrs.Image("raw", 1 << 20, 1 << 20, "grey8"), "1099511627776"),
        (lambda: vrs.Image("raw", 4, 4, "grey8", stride=3), "cannot hold"),
        (lambda: vrs.Image("raw", 4, 4, "grey8", size=15), "the image has 16 bytes"),
        (lambda: vrs.Image("jpg", codec_quality=101), "codec_quality 101"),
        (lambda: vrs.Image("jpg", size=-1), "size -1"),
        (lambda: vrs.Audio("int15le"), "sample format 'int15le': expected one of"),
        (lambda: vrs.Audio(audio_format="mp3"), "audio format 'mp3': expected one of"),
        (lambda: vrs.Audio("int16le", 256), "channels 256"),
        (lambda: vrs.Audio("int16le", 2, stride=3), "a frame has 4 bytes"),
        (lambda: vrs.Audio("int16le", 2, stride=256), "stride 256"),
        (lambda: vrs.Audio("int16le", 2, samples=3, size=11), "the samples have 12 bytes"),
        (lambda: vrs.Custom("a/b"), "not a name"),
        (lambda: vrs.Custom(size=1 << 32), "size 4294967296"),
    ],
)
def test_impossible_declarations(make: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()


def test_numbers_of_numpy() -> None:
    width, height = np.array([[1920, 1080]], np.uint16)[0]
    image = vrs.Image("raw", width, height, "rgb8")
    assert image.block == vrs.Image("raw", 1920, 1080, "rgb8").block
    pixels = np.zeros((1080, 1920, 3), np.uint8)
    assert image.encode(pixels).nbytes == pixels.nbytes
    samples = np.uint16(40_000)
    audio = vrs.Audio("int16le", np.uint8(2), np.uint16(48_000), samples=samples)
    assert audio.encode(np.zeros((samples, 2), np.int16)).nbytes == 160_000
    wide = vrs.Audio("int16le", np.uint8(200))
    assert wide.encode(np.zeros((3, 200), np.int16)).nbytes == 1200


@pytest.mark.parametrize(
    "make",
    [
        lambda: vrs.Image("jpg", 4.0, 4),
        lambda: vrs.Audio("int16le", 2, 44100.5),
        lambda: vrs.Custom(size=1.5),
    ],
)
def test_numbers_that_are_not_whole(make: Any) -> None:
    with pytest.raises(TypeError, match="expected an integer"):
        make()


def test_an_image_is_not_copied() -> None:
    pixels = np.arange(24, dtype=np.uint16).reshape(4, 6)
    view = vrs.Image("raw", 6, 4, "grey16").encode(pixels)
    assert np.shares_memory(np.frombuffer(view, np.uint8), pixels)
    assert bytes(view) == pixels.tobytes()


def test_images_of_other_orders() -> None:
    pixels = np.arange(24, dtype=np.uint16).reshape(4, 6)
    image = vrs.Image("raw", 6, 4, "grey16")
    for array in (np.asfortranarray(pixels), pixels.astype(">u2"), pixels[::-1][::-1]):
        assert bytes(image.encode(array)) == pixels.tobytes()
    assert bytes(vrs.Image("raw").encode(pixels.astype(">u2"))) == pixels.tobytes()
    assert bytes(image.encode(pixels.tobytes())) == pixels.tobytes()
    assert bytes(image.encode(pixels.view(np.uint8).reshape(-1))) == pixels.tobytes()


def test_strides_are_filled_with_zeros() -> None:
    pixels = np.full((2, 3), 7, np.uint8)
    stored = vrs.Image("raw", 3, 2, "grey8", stride=5).encode(pixels)
    assert bytes(stored) == b"\7\7\7\0\0" * 2


def test_planes() -> None:
    image = vrs.Image("raw", 5, 3, "yuv_i420_split", stride=6)
    y, u, v = (
        np.full(shape, value, np.uint8) for shape, value in (((3, 5), 1), ((2, 3), 2), ((2, 3), 3))
    )
    stored = bytes(image.encode([y, u, v]))
    assert stored == b"\1\1\1\1\1\0" * 3 + b"\2" * 6 + b"\3" * 6
    assert bytes(image.encode(stored)) == stored
    for planes, match in (([y, u], "2 planes"), ([y, u, y], r"shape \(3, 5\)"), (y, "1 planes")):
        with pytest.raises(ValueError, match=match):
            image.encode(planes)


def test_coded_images() -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    small, large = (vrs.Image("jpg", codec_quality=q).encode(pixels) for q in (1, 100))
    assert len(small) < len(large)
    assert bytes(vrs.Image("jpg").encode(b"any bytes")) == b"any bytes"
    assert bytes(vrs.Image("png").encode(pixels))[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="JPEG stores"):
        vrs.Image("jpg").encode(pixels.astype(float))
    with pytest.raises(TypeError, match="expected bytes, not an array"):
        vrs.Image("jxl").encode(pixels)


def test_audio_of_any_byte_order_and_stride() -> None:
    samples = np.array([[1, -2], [300, 4]], np.int16)
    for name, dtype in (("int16le", "<i2"), ("int16be", ">i2")):
        audio = vrs.Audio(name, 2)
        assert bytes(audio.encode(samples)) == samples.astype(dtype).tobytes()
        assert bytes(audio.encode(samples.astype(">i2"))) == samples.astype(dtype).tobytes()
    padded = vrs.Audio("int16le", 2, stride=5).encode(samples)
    assert bytes(padded) == b"\1\0\xfe\xff\0" + b"\x2c\1\4\0\0"


def test_24_bits() -> None:
    samples = np.array([[-1], [1 << 22], [-(1 << 23)]], np.int32)
    little, big = (bytes(vrs.Audio(f"int24{o}", 1).encode(samples)) for o in ("le", "be"))
    assert little == b"\xff\xff\xff\0\0\x40\0\0\x80"
    assert big == b"\xff\xff\xff\x40\0\0\x80\0\0"
    for array in (samples + (1 << 23), samples - (1 << 23)):
        with pytest.raises(ValueError, match="24 bits are -8388608 to 8388607"):
            vrs.Audio("int24le", 1).encode(array)
    with pytest.raises(ValueError, match="24 bits are 0 to"):
        vrs.Audio("uint24le", 1).encode(np.array([1 << 24], np.uint32))
    assert bytes(vrs.Audio("uint24le", 1).encode(np.array([], np.uint32))) == b""


@pytest.mark.parametrize(
    ("audio", "value", "kind", "match"),
    [
        (vrs.Audio("int16le", 2), np.zeros((3, 2), np.int32), TypeError, "int32, expected int16"),
        (vrs.Audio("int24le", 2), np.zeros((3, 2), np.uint32), TypeError, "expected int32"),
        (vrs.Audio("int16le", 2), np.zeros((3, 1), np.int16), ValueError, r"expected \(3, 2\)"),
        (vrs.Audio("int16le", 2), np.zeros(4, np.int16), ValueError, r"expected \(4, 2\)"),
        (vrs.Audio("int16le", 2, samples=3), np.zeros((4, 2), np.int16), ValueError, r"\(3, 2\)"),
        (vrs.Audio("int16le", 2), b"123", ValueError, "whole number of frames"),
        (vrs.Audio("int16le", 2, samples=3), bytes(8), ValueError, "8 bytes, expected 12"),
        (vrs.Audio(audio_format=AudioFormat.OPUS), np.zeros((2, 2)), TypeError, "bytes"),
        (vrs.Audio("int16le", 2), [[1, 2]], TypeError, "not list"),
    ],
)
def test_audio_that_does_not_fit(audio: vrs.Audio, value: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        audio.encode(value)


def test_custom_blocks() -> None:
    assert bytes(vrs.Custom("x").encode(b"abc")) == b"abc"
    with pytest.raises(ValueError, match="2 bytes, expected 3"):
        vrs.Custom("x", size=3).encode(b"ab")
    with pytest.raises(TypeError, match="not int"):
        vrs.Custom("x").encode(5)


def test_bytes_of_any_buffer() -> None:
    for buffer in (b"ab", bytearray(b"ab"), np.array([97, 98], np.int8), memoryview(b"ab")):
        view = as_bytes(buffer, "it")
        assert (bytes(view), view.format) == (b"ab", "B")
    assert bytes(as_bytes(np.empty(0, np.uint8), "it")) == b""
    with pytest.raises(TypeError, match="1 dimensions of 'H'"):
        as_bytes(np.array([1], np.uint16), "it")
