"""Text of record formats: the grammar of the reference's parser, and the order of its writer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError
from bloscpack.vrs.block.audio import AudioFormat, AudioSpec, SampleFormat
from bloscpack.vrs.block.pixels import ImageFormat, ImageSpec, PixelFormat
from bloscpack.vrs.format.format import MAX_BLOCKS, RecordType
from bloscpack.vrs.format.recordformat import (
    ContentBlock,
    ContentType,
    RecordFormat,
    defined_formats,
    defined_layouts,
    layout_tag,
    parse_record_format,
    record_format_tag,
)

from .vectorfiles import NAMES, VectorFile

each_file = pytest.mark.parametrize("name", NAMES)
# Files with format strings that no writer makes.
UNUSUAL = {"enc_rf_syntax", "enc_custom"}


def block(text: str) -> ContentBlock:
    (found,) = parse_record_format(text).blocks
    return found


@each_file
def test_formats_of_files_come_back(name: str) -> None:
    for stream_id, stream in VectorFile(name).manifest["streams"].items():
        for tag, text in stream["vrs_tags"].items():
            if tag.startswith("RF:") and name not in UNUSUAL:
                assert str(parse_record_format(text)) == text, (stream_id, tag)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", "custom"),
        ("empty", "empty"),
        ("custom+", "custom"),
        ("custom++image/jpg", "custom"),
        ("+image/jpg", "custom+image/jpg"),
        ("nonsense/xyz", "custom"),
        ("datalayout/size=3", "custom/size=3"),
        ("custom/size=7z", "custom/size=7"),
        ("custom/size= 7", "custom/size=7"),
        ("custom/size=-1", "custom/size=4294967295"),
        ("custom/size=4294967297", "custom/size=1"),
        ("custom/size=99999999999999999999999", "custom/size=4294967295"),
        ("custom/size=-99999999999999999999999", "custom/size=4294967295"),
        ("custom/size=x", "custom"),
        ("custom/x/size=3", "custom"),
        ("custom/format=a b+c", "custom/format=a_b+custom"),
        ("custom/format=a/size=3", "custom/format=a"),
        ("data_layout/size=3/x=1", "data_layout/size=3"),
        ("image", "image"),
        ("image/bmp/4x2", "image"),
        ("image/raw/8x/x8/4x2z/6x3", "image/raw/4x2"),
        ("image/raw/0x7/6x3", "image/raw/6x3"),
        ("image/raw/4x2//stride=9", "image/raw/4x2"),
        ("image/raw/pixel=grb8/4x2", "image/raw/4x2"),
        ("image/raw/pixel=grb8/pixel=rgb8", "image/raw/pixel=rgb8"),
        ("image/raw/pixel=grey8 /stride=0/stride=5", "image/raw/pixel=grey8/stride=5"),
        ("image/jpg/4x2/pixel=rgb8/stride=9/codec=x", "image/jpg/4x2/pixel=rgb8"),
        ("image/raw/codec=x", "image/raw"),
        ("image/video/codec=H.264/codec=x", "image/video/codec=H.264"),
        ("image/video/codec_quality=256", "image/video/codec_quality=0"),
        ("image/video/codec_quality=50/codec_quality=101", "image/video"),
        ("image/video/keyframe_index=3", "image/video"),
        (
            "image/video/keyframe_index=3/keyframe_timestamp=1e-3x",
            "image/video/keyframe_timestamp=0.001000000/keyframe_index=3",
        ),
        ("image/custom_codec/codec=a%20b%2", "image/custom_codec/codec=a%20b%252"),
        ("image/custom_codec/codec=a%00b", "image/custom_codec/codec=a"),
        ("image/custom_codec/codec=" + "x" * 193, "image/custom_codec/codec=" + "x" * 193),
        ("image/custom_codec/codec=" + "x" * 194, "image/custom_codec"),
        ("audio/mp3/int8", "audio"),
        ("audio/pcm/rate=8000/channels=2/int16le", "audio/pcm/int16le/channels=2/rate=8000"),
        ("audio/pcm/int16le/int8", "audio/pcm/int16le"),
        ("audio/pcm/int8/channels=258", "audio/pcm/int8/channels=2"),
        ("audio/pcm/int8/channels=1/stride=1", "audio/pcm/int8/channels=1"),
        ("audio/pcm/int8/channels=1/stride=257", "audio/pcm/int8/channels=1"),
        ("audio/pcm/samples=0/samples=5/stride=3", "audio/pcm/samples=5/stride=3"),
    ],
)
def test_grammar(text: str, written: str) -> None:
    assert str(parse_record_format(text)) == written
    assert str(parse_record_format(written)) == written


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("empty", 0),
        ("empty/size=3", 0),
        ("custom", None),
        ("custom/size=0", 0),
        ("data_layout", None),
        ("data_layout/size=5", 5),
        ("image/raw/4x2/pixel=rgb8", 24),
        ("image/raw/4x2/pixel=rgb8/stride=20", 40),
        ("image/size=7/raw/4x2/pixel=rgb8", 7),
        ("image/raw/4x2", None),
        ("image/png/4x2/pixel=rgb8", None),
        ("image/raw/4294967295x4294967295/pixel=rgba32F", 16 * 0xFFFFFFFF**2),
        ("audio/pcm/int24be/channels=3/samples=5", 45),
        ("audio/pcm/int24be/channels=3/samples=5/stride=12", 60),
        ("audio/pcm/int24be/channels=3", None),
        ("audio/pcm/float64le/channels=255/samples=4294967295", 8 * 255 * 0xFFFFFFFF),
        ("audio/opus/int16le/channels=2/samples=960", None),
    ],
)
def test_sizes(text: str, nbytes: int | None) -> None:
    assert block(text).nbytes == nbytes


def test_used_blocks() -> None:
    texts = ["custom", "empty", "image/jpg"]
    assert [str(one) for one in parse_record_format("+".join(texts)).used_blocks] == texts
    assert len(parse_record_format("custom+empty+empty").used_blocks) == 1
    assert parse_record_format("empty+empty").used_blocks == ()
    assert str(RecordFormat()) == "empty"


def test_codec_names_keep_their_bytes() -> None:
    name = "H 264/+é" + b"\xff".decode("utf-8", "surrogateescape")
    spec = ImageSpec(image_format=ImageFormat.VIDEO, codec_name=name)
    text = str(ContentBlock(ContentType.IMAGE, image=spec))
    assert text == "image/video/codec=H%20264%2F%2B%C3%A9%FF"
    assert block(text).image.codec_name == name


def test_names_of_tags() -> None:
    assert record_format_tag(RecordType.CONFIGURATION, 3) == "RF:Configuration:3"
    assert layout_tag(RecordType.DATA, 4294967295, 2) == "DL:Data:4294967295:2"


def test_too_many_blocks() -> None:
    assert len(parse_record_format("+".join(["custom"] * MAX_BLOCKS)).blocks) == MAX_BLOCKS
    for n in (MAX_BLOCKS + 1, 20_000, 2_000_000):
        with pytest.raises(FormatError, match="more than 1000 blocks"):
            parse_record_format("+".join(["custom"] * n))


ATTRIBUTES = [
    *("size=", "pixel=", "stride=", "stride_2=", "codec=", "codec_quality=", "channels=", "rate="),
    *(
        "samples=",
        "format=",
        "keyframe_timestamp=",
        "keyframe_index=",
        "raw",
        "jpg",
        "video",
        "pcm",
    ),
    *("image", "audio", "custom", "data_layout", "empty", "grey8", "int16le", "4x2", "nan", "inf"),
    *("/", "+", "%", "%41", "-", "9" * 30, "٣", "\udcff", "\0", " "),
]


@given(st.lists(st.sampled_from(ATTRIBUTES) | st.text(max_size=3), max_size=30).map("".join))
def test_any_text_gives_a_format(text: str) -> None:
    found = parse_record_format(text)
    written = str(found)
    # Writing drops parts that the writer cannot express, and they do not come back.
    assert str(parse_record_format(written)) == written


U32 = st.integers(0, 0xFFFFFFFF)
VIDEO_SPECS = st.builds(
    ImageSpec,
    width=st.integers(1, 0xFFFFFFFF),
    height=st.integers(1, 0xFFFFFFFF),
    stride=U32,
    stride_2=U32,
    pixel_format=st.sampled_from(PixelFormat),
    image_format=st.just(ImageFormat.VIDEO),
    codec_name=st.text(
        st.characters(exclude_characters="\0", max_codepoint=0xFFFF), max_size=20
    ).filter(lambda name: not any(0xD800 <= ord(c) < 0xE000 for c in name)),
    codec_quality=st.integers(0, 100) | st.just(255),
    key_frame_timestamp=st.none() | st.integers(-(10**6), 10**6).map(lambda n: n / 8),
    key_frame_index=U32,
)
AUDIO_SPECS = st.builds(
    AudioSpec,
    audio_format=st.sampled_from([AudioFormat.PCM, AudioFormat.OPUS]),
    sample_format=st.sampled_from(SampleFormat),
    channel_count=st.integers(0, 255),
    sample_rate=U32,
    sample_count=U32,
)


@given(VIDEO_SPECS)
def test_image_specs_come_back(spec: ImageSpec) -> None:
    found = block(str(ContentBlock(ContentType.IMAGE, image=spec))).image
    if spec.key_frame_timestamp is None:
        # The index is only written with a time.
        assert found.key_frame_index == 0
    expected: dict[str, Any] = {"key_frame_index": found.key_frame_index}
    for name in ("width", "height", "stride", "stride_2", "pixel_format", "codec_name"):
        expected[name] = getattr(spec, name)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.codec_quality == spec.codec_quality
    assert found.key_frame_timestamp == spec.key_frame_timestamp


@given(AUDIO_SPECS)
def test_audio_specs_come_back(spec: AudioSpec) -> None:
    assert block(str(ContentBlock(ContentType.AUDIO, audio=spec))).audio == spec


def test_numbers_of_tags() -> None:
    tags = {
        "RF:Data:10": "image",
        "RF:Data:2": "custom",
        "RF:Data:4294967295": "audio",
        "RF:Data:4294967296": "too large",
        "RF:Data:01": "no writer's",
        "RF:Data:²": "no digit",
        "RF:Data:٣": "no digit of ours",
        "RF:Data:": "none",
        "RF:Data:2:1": "a layout's",
        "RF:State:3": "another type's",
        "DL:Data:2:1": "b",
        "DL:Data:2:0": "a",
        "DL:Data:20:0": "another version's",
    }
    formats = defined_formats(tags, RecordType.DATA)
    assert list(formats.items()) == [(2, "custom"), (10, "image"), (4294967295, "audio")]
    assert list(defined_layouts(tags, RecordType.DATA, 2).items()) == [(0, "a"), (1, "b")]
    assert defined_formats(tags, RecordType.CONFIGURATION) == {}
