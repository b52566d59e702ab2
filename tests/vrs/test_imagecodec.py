"""Coded images: video with key frames, PNG of every kind, and missing packages."""

import io
import sys
import types
from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import CodecError, FormatError, UnsupportedError
from bloscpack.vrs.block.pixels import ImageConversion, ImageSpec, PixelFormat
from bloscpack.vrs.format.format import RecordType

from .memorysource import F64, U32, MemorySource, encode, formatted, layout

DATA = RecordType.DATA
FRAME = layout(
    image_width=U32,
    image_height=U32,
    image_pixel_format=U32,
    image_key_frame_timestamp=F64,
    image_key_frame_index=U32,
)
WIDTH, HEIGHT = 64, 48


def coded(
    count: int, codec: str = "libx264", options: dict[str, str] | None = None, reordered: int = 0
) -> list[bytes]:
    """Encode gray images, each 20 brighter than the last; the first is a key frame."""
    av = pytest.importorskip("av")
    try:
        context = av.CodecContext.create(codec, "w")
    except av.error.FFmpegError:
        pytest.skip(f"PyAV has no {codec}")
    context.width, context.height, context.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    context.framerate, context.gop_size, context.max_b_frames = 30, 100, reordered
    # As in recordings, frames do not depend on later frames.
    context.options = options or (
        {"deadline": "realtime", "lag-in-frames": "0"}
        if codec == "libvpx-vp9"
        else {"tune": "zerolatency", "preset": "ultrafast"}
    )
    packets = []
    for number in range(count):
        image = np.full((HEIGHT, WIDTH, 3), 20 + 20 * number, np.uint8)
        image[:, : number + 1] = 255
        frame = av.VideoFrame.from_ndarray(image, "rgb24").reformat(format="yuv420p")
        frame.pts = number
        packets += context.encode(frame)
    packets += context.encode(None)
    return [bytes(packet) for packet in packets]


def video(frames: list[bytes], codec: str = "H.264", **changes: Any) -> MemorySource:
    """Return a stream of data records, one per frame, with a key frame every 4 frames."""
    records = []
    for number, frame in enumerate(frames):
        values = {
            "image_width": WIDTH,
            "image_height": HEIGHT,
            "image_pixel_format": PixelFormat.YUV_I420_SPLIT,
            "image_key_frame_timestamp": number // 4 * 4.0,
            "image_key_frame_index": number % 4,
            **changes,
        }
        records.append((DATA, 1, float(number), encode(FRAME, **values) + frame))
    tags = {"RF:Data:1": f"data_layout+image/video/codec={codec}", "DL:Data:1:0": FRAME}
    return MemorySource(tags, *records)


@pytest.mark.parametrize(
    ("codec", "name"), [("libx264", "H.264"), ("libx265", "H.265"), ("libvpx-vp9", "VP9")]
)
def test_frames_are_decoded_from_their_key_frame(codec: str, name: str) -> None:
    frames = coded(4, codec) + coded(4, codec)
    source = video(frames, name)
    for index in (6, 0, 3, 5):
        image = source[index].blocks[1].array()
        assert (image.shape, image.dtype) == ((HEIGHT, WIDTH, 3), np.uint8)
        # The encoder rounds, and blurs the edge of the bright columns.
        assert abs(int(image[24, 60, 0]) - (20 + 20 * (index % 4))) <= 6
    assert source[1].image_blocks[0].tobytes() == frames[1]


def test_only_the_frames_of_the_group_are_read() -> None:
    source = video(coded(4) + coded(4))
    source[6].blocks[1].array()
    # The requested record and those of its group.
    assert source.nread == 1 + 3


def test_specs_of_frames() -> None:
    source = video(coded(2))
    (spec,) = source[1].image_specs
    assert (spec.key_frame_timestamp, spec.key_frame_index) == (0.0, 1)
    block = source[1].blocks[1]
    for conversion, pixel in (
        (ImageConversion.DECOMPRESS, PixelFormat.RGB8),
        (ImageConversion.NORMALIZE_GREY8, PixelFormat.RGB8),
    ):
        made = block.converted(conversion)[1]
        assert isinstance(made, ImageSpec)
        assert (made.pixel_format, made.width, made.buffer_size) == (pixel, 64, 64 * 48 * 3)


def test_grey_video() -> None:
    source = video(coded(2), image_pixel_format=PixelFormat.GREY8)
    assert source[1].blocks[1].array().shape == (HEIGHT, WIDTH)


@pytest.mark.parametrize("index", [1, 2, 3])
def test_a_frame_whose_group_is_not_whole(index: int) -> None:
    frames = coded(4)
    source = video(frames)
    # The record of the key frame is missing.
    short = MemorySource(source.tags, *source.records[1:])
    message = f"record {index - 1} of stream 214-1: .* frame {index} after .* frame 0 is missing"
    with pytest.raises(FormatError, match=message):
        short[index - 1].blocks[1].array()


def test_a_frame_of_another_group() -> None:
    frames = coded(3)
    source = video(frames)
    # The key frame's record has another time, that of a later key frame of the stream.
    other = video(frames, image_key_frame_timestamp=9.0)
    mixed = MemorySource(source.tags, other.records[0], *source.records[1:])
    with pytest.raises(FormatError, match="frame 2 after a key frame, and frame 0 is missing"):
        mixed[2].blocks[1].array()


def test_frames_that_are_shown_in_another_order() -> None:
    """Frames coded in the order 0, 3, 1, 2 and so on: the requested frame is returned."""
    frames = coded(4, options={"x264-params": "bframes=2:b-adapt=0:scenecut=0"}, reordered=2)
    source = video(frames)
    for index, number in enumerate((0, 3, 1, 2)):
        image = source[index].blocks[1].array()
        assert abs(int(image[24, 60, 0]) - (20 + 20 * number)) <= 6


def test_a_key_frame_that_is_far_away() -> None:
    source = video(coded(2), image_key_frame_index=0xFFFFFFFF)
    with pytest.raises(FormatError, match="frame 4294967294 is missing"):
        source[1].blocks[1].array()
    assert source.nread <= 3


def test_frames_of_another_size_than_said() -> None:
    source = video(coded(1), image_width=80)
    with pytest.raises(CodecError, match="of 64x48, the recording says 80x48"):
        source[0].blocks[1].array()
    # The size in the recording bounds what the decoder may allocate.
    source = video(coded(1), image_width=1, image_height=1)
    with pytest.raises(CodecError):
        source[0].blocks[1].array()
    source = video(coded(1), image_width=60_000, image_height=60_000)
    with pytest.raises(FormatError, match=r"of 60000x60000: .* stored bytes cannot hold it"):
        source[0].blocks[1].array()


def test_damaged_frames() -> None:
    frames = coded(2)
    with pytest.raises(CodecError):
        video([bytes(100)])[0].blocks[1].array()
    with pytest.raises(CodecError):
        video([b""])[0].blocks[1].array()
    cut = video([frames[0][:-40], frames[1]])
    with pytest.raises(CodecError):
        cut[0].blocks[1].array()


def test_codecs_without_a_decoder() -> None:
    source = video([b"frame"], "Indeo")
    with pytest.raises(UnsupportedError, match="codec 'Indeo': no decoder exists"):
        source[0].blocks[1].array()


# 8x8 grey pixels, encoded by pillow-jxl-plugin 1.3.8.
SMALL_JXL = bytes.fromhex(
    "ff0a414050dc080800010060004b2837d61fbc5550901413a40070020c30c000030c30c000"
)


def missing(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, "av", "pillow_jxl")
    with pytest.raises(ImportError, match=r"install av, or \"bloscpack\[video\]\""):
        video([b"frame"])[0].blocks[1].array()
    jxl = formatted("image/jxl", b"frame")
    assert jxl.image_blocks[0].tobytes() == b"frame"
    with pytest.raises(ImportError, match="install pillow-jxl-plugin"):
        jxl.blocks[0].array()


def test_jpeg_xl_goes_through_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin registers itself with Pillow; this stand-in does not register a format."""
    pytest.importorskip("PIL.Image")
    monkeypatch.setitem(sys.modules, "pillow_jxl", types.ModuleType("pillow_jxl"))
    with pytest.raises(CodecError, match="JPEG XL"):
        formatted("image/jxl", SMALL_JXL).blocks[0].array()
    with pytest.raises(FormatError, match="JPEG XL"):
        formatted("image/jxl", b"frame").blocks[0].array()


def test_jpeg_xl_images_that_say_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large images raise before the plugin gets them."""
    pytest.importorskip("PIL.Image")
    monkeypatch.setitem(sys.modules, "pillow_jxl", types.ModuleType("pillow_jxl"))
    # 2**31 x 2**30, and 8192 x 4096: twice the limit for any image.
    for data in (b"\xff\x0a\xfe" + b"\xff" * 8, bytes.fromhex("ff0afa7f0700")):
        with pytest.raises(FormatError, match="stored bytes cannot hold it"):
            formatted("image/jxl", data).blocks[0].array()


@pytest.mark.parametrize(
    ("mode", "pixel", "shape"),
    [
        ("L", PixelFormat.GREY8, (2, 3)),
        ("1", PixelFormat.GREY8, (2, 3)),
        ("I;16", PixelFormat.GREY16, (2, 3)),
        ("LA", PixelFormat.RGBA8, (2, 3, 4)),
        ("RGB", PixelFormat.RGB8, (2, 3, 3)),
        ("RGBA", PixelFormat.RGBA8, (2, 3, 4)),
    ],
)
def test_png(mode: str, pixel: PixelFormat, shape: tuple[int, ...]) -> None:
    pillow = pytest.importorskip("PIL.Image")
    picture = pillow.new(mode, (3, 2))
    white = {"L": 255, "1": 1, "I;16": 65535, "LA": (9, 255), "RGB": (1, 2, 3)}
    picture.putpixel((1, 0), white.get(mode, (1, 2, 3, 4)))
    file = io.BytesIO()
    picture.save(file, "png")
    block = formatted("image/png", file.getvalue()).blocks[0]
    pixels, spec = block.converted(ImageConversion.DECOMPRESS)
    assert isinstance(spec, ImageSpec)
    assert (spec.pixel_format, pixels.shape, spec.width, spec.height) == (pixel, shape, 3, 2)
    expected: dict[str, Any] = {"L": 255, "1": 255, "I;16": 65535, "LA": [9, 9, 9, 255]}
    expected |= {"RGB": [1, 2, 3], "RGBA": [1, 2, 3, 4]}
    assert pixels[0, 1].tolist() == expected[mode]
    grey, spec = block.converted(ImageConversion.NORMALIZE_GREY8)
    assert grey.dtype == np.uint8
    if mode == "I;16":
        assert grey[0, 1] == 255


def test_damaged_images() -> None:
    pytest.importorskip("PIL.Image")
    for data in (b"", b"no image", b"\xff\xd8\xff"):
        with pytest.raises(FormatError):
            formatted("image/jpg", data).blocks[0].array()
    with pytest.raises(UnsupportedError, match="does not say how it is coded"):
        formatted("image", b"data").blocks[0].array()


def test_jpeg_of_four_channels() -> None:
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("simplejpeg")
    file = io.BytesIO()
    pillow.new("CMYK", (8, 8)).save(file, "jpeg")
    with pytest.raises(UnsupportedError, match="VRS has no pixel format"):
        formatted("image/jpg", file.getvalue()).blocks[0].array()
