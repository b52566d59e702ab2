"""Blocks of a payload: sizes, specs by convention, notes and errors."""

import pickle
import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import BloscpackError, FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs.block.pixels import ImageSpec, PixelFormat
from bloscpack.vrs.format.format import RecordType
from bloscpack.vrs.read.record import Record

from .memorysource import F64, U8, U32, MemorySource, data_record, encode, formatted, layout

NEXT = layout(next_content_block_size=U32)
SPEC = layout(image_width=U32, image_height=U32, image_pixel_format=U32)
VALUE = layout(k="DataPieceValue<int32_t>")
CONFIGURATION, DATA = RecordType.CONFIGURATION, RecordType.DATA


def listed(record: Record) -> list[tuple[str, int | None]]:
    return [(block.kind, block.nbytes) for block in record.blocks]


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


@pytest.mark.parametrize(
    ("text", "nbytes", "blocks", "note"),
    [
        ("custom", 5, [("custom", 5)], None),
        ("custom", 0, [("custom", 0)], None),
        ("custom/size=3", 5, [("custom", 3)], "2 bytes unread"),
        ("custom/size=6", 5, [("custom", 6)], "block 0: 6 bytes needed, 5 left"),
        ("custom/size=4294967295", 5, [("custom", 0xFFFFFFFF)], None),
        ("custom+custom/size=2", 5, [("custom", 3), ("custom", 2)], None),
        ("custom+custom/size=6", 5, [("unsupported", None)], "block 0: size unknown"),
        ("custom+custom", 5, [("unsupported", None)], "block 0: size unknown"),
        ("custom/size=1+empty+custom", 5, [("custom", 1), ("custom", 4)], None),
        ("custom+empty", 5, [("custom", 5)], None),
        ("empty", 0, [], None),
        ("empty", 5, [], "5 bytes unread"),
        ("image", 5, [("image", 5)], None),
        ("image/size=3/jpg", 5, [("image", 3)], "2 bytes unread"),
        ("image/size=6/jpg", 5, [("unsupported", 6)], "block 0: 6 bytes needed, 5 left"),
        ("image/raw/5x1/pixel=grey8", 5, [("image", 5)], None),
        ("image/raw/6x1/pixel=grey8", 5, [("image", 6)], "block 0: 6 bytes needed, 5 left"),
        ("image/size=5/raw/4x1/pixel=grey8", 5, [("image", 5)], None),
        ("image/raw/5x1+custom", 5, [("unsupported", None)], "block 0: size unknown"),
        ("image/size=4/raw+custom", 5, [("unsupported", 4), ("custom", 1)], None),
        ("image/video/4x4/pixel=grey8/codec=x", 5, [("unsupported", None)], None),
        ("image/custom_codec/codec=x", 5, [("unsupported", None)], "block 0: size unknown"),
        ("audio/pcm/int16le/channels=1", 6, [("audio", 6)], None),
        ("audio/pcm/int16le/channels=1", 5, [("unsupported", None)], "block 0: size unknown"),
        ("audio/pcm/int8/channels=1/samples=3", 5, [("audio", 3)], "2 bytes unread"),
        ("audio/pcm/int8/channels=1/samples=6", 5, [("audio", 6)], None),
        ("audio/size=4/pcm/int8/channels=1/samples=3", 5, [("unsupported", 4)], None),
        ("audio/size=4/pcm/int8/channels=1", 5, [("audio", 4)], "1 bytes unread"),
        ("audio/pcm/int8", 5, [("unsupported", None)], "block 0: size unknown"),
        ("data_layout/size=4", 5, [], "block 0: layout missing"),
        ("data_layout/size=4+custom", 5, [], "block 0: layout missing"),
    ],
)
def test_sizes_from_the_format(
    text: str, nbytes: int, blocks: list[tuple[str, int | None]], note: str | None
) -> None:
    record = formatted(text, bytes(range(nbytes)))
    assert listed(record) == blocks
    if note is not None:
        assert record.note == note
    assert sum(len(b.data) for b in record.blocks if b.is_whole) + len(record.unread) == nbytes


def test_a_size_in_the_layout_before() -> None:
    record = formatted("data_layout+custom+custom", u32(2) + b"abc", _0=NEXT)
    assert listed(record) == [("metadata", 4), ("custom", 2), ("custom", 1)]
    # It overrides the size of the format for images and audio, but not for custom blocks.
    record = formatted("data_layout+custom/size=3", u32(2) + b"abc", _0=NEXT)
    assert listed(record)[1] == ("custom", 3)
    record = formatted("data_layout+image/size=3/jpg", u32(2) + b"abc", _0=NEXT)
    assert listed(record)[1] == ("image", 2)
    # Only the block right before counts.
    record = formatted("data_layout+custom/size=1+image/jpg", u32(2) + b"abcd", _0=NEXT)
    assert listed(record)[2] == ("image", 3)
    record = formatted("data_layout+empty+image/jpg", u32(2) + b"abcd", _0=NEXT)
    assert listed(record)[1] == ("image", 4)


@pytest.mark.parametrize("text", ["custom", "image/jpg", "custom+custom/size=1"])
def test_a_size_that_lies(text: str) -> None:
    record = formatted("data_layout+" + text, u32(0xFFFFFFFF) + b"abc", _0=NEXT)
    assert record.note == "block 1: 4294967295 bytes needed, 3 left"
    assert record.metadata_blocks == ({"next_content_block_size": 0xFFFFFFFF},)
    block = record.blocks[1]
    assert not block.is_whole
    message = "record 0 of stream 214-1, block 1: 4294967295 bytes needed, 3 left"
    for _ in range(2):
        with pytest.raises(TruncatedError, match=message):
            block.array()
        with pytest.raises(TruncatedError, match=message):
            _ = block.data


def test_metadata_that_ends_too_soon() -> None:
    record = formatted("data_layout+custom", b"abc", _0=VALUE)
    assert listed(record) == [("metadata", 4)]
    assert record.note == "block 0: 4 bytes needed, 3 left"
    with pytest.raises(TruncatedError):
        _ = record.metadata_blocks
    with pytest.raises(TruncatedError):
        record.blocks[0].values()
    variable = layout(s="DataPieceString")
    record = formatted("data_layout+custom", u32(0, 9) + b"abc", _0=variable)
    assert record.note == "block 0: 17 bytes needed, 11 left"
    with pytest.raises(TruncatedError):
        _ = record.metadata_blocks


def test_metadata_of_a_type_that_is_unknown() -> None:
    unknown = (
        '{"data_layout":[{"name":"a","type":"DataPieceValue<uint8_t>","offset":0},'
        '{"name":"b","type":"DataPieceValue<quaternion>","offset":1}]}'
    )
    record = formatted("data_layout+custom", b"\7abc", _0=unknown)
    assert record.note == "block 0: size unknown"
    assert [block.nbytes for block in record.blocks] == [None]
    assert record.blocks[0].values() == {"a": 7}
    assert record.metadata_blocks == ({"a": 7},)
    record = formatted("data_layout+data_layout", b"\7abc", _0=unknown, _1=VALUE)
    assert record.metadata_blocks == ({"a": 7},)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"RF:Data:1": "custom+" * 2000}, "stream 214-1, tag RF:Data:1: record format of more"),
        (
            {"RF:Data:1": "data_layout", "DL:Data:1:0": "{"},
            "stream 214-1, tag DL:Data:1:0: data layout",
        ),
    ],
)
def test_formats_that_are_damaged(tags: dict[str, str], message: str) -> None:
    record = data_record(tags, b"abc")
    for _ in range(2):
        with pytest.raises(FormatError, match=message):
            _ = record.blocks
        with pytest.raises(FormatError, match=message):
            _ = record.metadata_blocks
    assert record.payload == b"abc"


def configured(configuration: dict[str, Any], data: tuple[str, bytes], **layouts: str) -> Record:
    """Return a data record after a configuration record with the values of `SPEC`."""
    tags = {f"DL:Data:1:{key[1:]}": value for key, value in layouts.items()}
    tags |= {
        "RF:Data:1": data[0],
        "RF:Configuration:1": "data_layout",
        "DL:Configuration:1:0": SPEC,
    }
    return MemorySource(
        tags, (CONFIGURATION, 1, 1.0, encode(SPEC, **configuration)), (DATA, 1, 1.0, data[1])
    )[1]


def spec_values(width: int, height: int, pixel: int) -> dict[str, int]:
    return {"image_width": width, "image_height": height, "image_pixel_format": pixel}


def test_an_image_by_the_configuration() -> None:
    record = configured(spec_values(2, 1, 4), ("image/raw", b"abcdef"))
    assert record.image_blocks[0].tolist() == [[[97, 98, 99], [100, 101, 102]]]
    (spec,) = record.image_specs
    assert (spec.width, spec.height, spec.pixel_format) == (2, 1, PixelFormat.RGB8)
    assert spec.buffer_size == 6
    # Not used if it is incomplete, or if the record or the format string describes the image.
    assert configured(spec_values(2, 0, 4), ("image/raw", b"abcdef")).note is not None
    assert configured(spec_values(2, 1, 27), ("image/raw", b"abcdef")).note is not None
    own = encode(SPEC, **spec_values(3, 2, 1))
    record = configured(spec_values(2, 1, 4), ("data_layout+image/raw", own + b"abcdef"), _0=SPEC)
    assert record.image_blocks[0].shape == (2, 3)
    text = "data_layout+image/raw/6x1/pixel=grey8"
    record = configured(spec_values(2, 1, 4), (text, own + b"abcdef"), _0=SPEC)
    assert record.image_specs[0].width == 6


def test_the_last_layout_of_the_configuration_counts() -> None:
    tags = {"RF:Data:1": "image/raw", "RF:Configuration:1": "data_layout+data_layout"}
    tags |= {"DL:Configuration:1:0": SPEC, "DL:Configuration:1:1": SPEC}
    both = b"".join(encode(SPEC, **spec_values(n, 1, 1)) for n in (2, 3))
    source = MemorySource(tags, (CONFIGURATION, 1, 0.0, both), (DATA, 1, 1.0, b"abc"))
    assert source[1].image_specs[0].width == 3


@pytest.mark.parametrize(("timestamp", "kind"), [(1.0, "image"), (0.5, "unsupported")])
@pytest.mark.parametrize("nan", [False, True])
def test_a_newer_configuration_does_not_count(timestamp: float, kind: str, nan: bool) -> None:
    tags = {"RF:Data:1": "image/raw", "RF:Configuration:1": "data_layout"}
    tags["DL:Configuration:1:0"] = SPEC
    source = MemorySource(
        tags,
        (CONFIGURATION, 1, float("nan") if nan else 1.0, encode(SPEC, **spec_values(2, 1, 1))),
        (DATA, 1, timestamp, b"ab"),
    )
    assert source[1].blocks[0].kind == ("unsupported" if nan else kind)


def test_the_last_layout_that_says_enough_counts() -> None:
    payload = b"".join(encode(SPEC, **spec_values(n, 1, 1)) for n in (2, 3)) + bytes(16) + b"abc"
    other = layout(a=F64, b=F64)
    text = "data_layout+data_layout+data_layout+image/raw"
    record = formatted(text, payload, _0=SPEC, _1=SPEC, _2=other)
    assert record.image_specs[0].width == 3


def test_labels_of_another_type_do_not_count() -> None:
    wrong = layout(image_width="DataPieceValue<int32_t>", image_height=U32, image_pixel_format=U32)
    payload = encode(wrong, **spec_values(2, 1, 1)) + b"ab"
    assert listed(formatted("data_layout+image/raw", payload, _0=wrong))[1][0] == "unsupported"


def test_a_value_after_an_array_lies_behind_it() -> None:
    definition = (
        '{"data_layout":[{"name":"x","type":"DataPieceArray<double>","offset":0,"size":3},'
        '{"name":"s","type":"DataPieceString","index":0},'
        '{"name":"next_content_block_size","type":"DataPieceValue<uint32_t>","offset":24}]}'
    )
    payload = bytes(24) + u32(2, 0, 1) + b"s" + b"abc"
    record = formatted("data_layout+custom+custom", payload, _0=definition)
    assert listed(record) == [("metadata", 37), ("custom", 2), ("custom", 1)]


VIDEO = layout(
    image_width=U32,
    image_height=U32,
    image_pixel_format=U32,
    image_stride=U32,
    image_codec_quality=U32,
    image_codec_name="DataPieceString",
)


def video_spec(text: str, **values: Any) -> ImageSpec | None:
    record = formatted("data_layout+" + text, encode(VIDEO, **values) + b"frame", _0=VIDEO)
    return record.image_specs[0] if record.image_specs else None


def test_video_needs_a_codec_and_dimensions() -> None:
    full = {**spec_values(4, 2, 5), "image_codec_name": "H.264", "image_codec_quality": 200}
    spec = video_spec("image/video/8x8/pixel=rgb8/codec=VP9/codec_quality=7", **full)
    assert spec is not None
    assert (spec.width, spec.pixel_format) == (4, PixelFormat.YUV_I420_SPLIT)
    assert (spec.codec_name, spec.codec_quality) == ("H.264", 7)
    assert spec.key_frame_timestamp is None
    nameless = spec_values(4, 2, 5)
    named = video_spec("image/video/codec=VP9", **nameless, image_codec_quality=0)
    assert named is not None
    assert (named.codec_name, named.codec_quality) == ("VP9", 0)
    assert video_spec("image/video", **nameless) is None
    assert video_spec("image/video", image_codec_name="H.264") is None
    assert video_spec("image/video/4x2/pixel=rgb8/codec=VP9") is None


def test_a_custom_codec_needs_a_name_and_a_layout() -> None:
    spec = video_spec("image/custom_codec/codec=b", image_codec_name="a", image_codec_quality=3)
    assert spec is not None
    assert (spec.codec_name, spec.width, spec.codec_quality) == ("a", 0, 3)
    spec = video_spec("image/custom_codec/codec=b", **spec_values(4, 2, 1))
    assert spec is not None
    assert (spec.codec_name, spec.width) == ("b", 4)
    assert video_spec("image/custom_codec/codec=b") is None
    assert video_spec("image/custom_codec", **spec_values(4, 2, 1)) is None


AUDIO = layout(
    audio_format=U8,
    audio_sample_format=U8,
    audio_sample_stride=U8,
    audio_channel_count=U8,
    audio_sample_rate=U32,
    audio_sample_count=U32,
)
COUNT = layout(audio_sample_count=U32)


def audio_values(**changes: int) -> dict[str, int]:
    return {
        "audio_format": 1,
        "audio_sample_format": 7,
        "audio_channel_count": 2,
        "audio_sample_rate": 8000,
        **changes,
    }


def audio_record(values: dict[str, int], nbytes: int = 12) -> Record:
    return formatted("data_layout+audio", encode(AUDIO, **values) + bytes(nbytes), _0=AUDIO)


@pytest.mark.parametrize(
    ("changes", "samples"),
    [
        ({}, 3),
        ({"audio_sample_count": 3}, 3),
        ({"audio_sample_count": 2}, None),
        ({"audio_sample_stride": 6}, 2),
        ({"audio_sample_stride": 10}, None),
        ({"audio_sample_stride": 11}, None),
        ({"audio_sample_stride": 3}, None),
        ({"audio_format": 0}, None),
        ({"audio_format": 3}, None),
        ({"audio_sample_format": 0}, None),
        ({"audio_sample_format": 21}, None),
        ({"audio_channel_count": 0}, None),
        ({"audio_channel_count": 5}, None),
        ({"audio_sample_rate": 0}, None),
    ],
)
def test_audio_by_the_layout_before(changes: dict[str, int], samples: int | None) -> None:
    record = audio_record(audio_values(**changes))
    specs = record.audio_specs
    assert [spec.sample_count for spec in specs] == ([] if samples is None else [samples])
    if samples is not None:
        assert record.audio_blocks[0].shape == (samples, 2)


def test_the_widest_stride_of_audio() -> None:
    values = audio_values(audio_sample_stride=4 + 3 * 2)
    assert audio_record(values, 20).audio_specs[0].sample_count == 2


def test_audio_by_the_configuration() -> None:
    tags = {
        "RF:Configuration:1": "data_layout",
        "DL:Configuration:1:0": AUDIO,
        "RF:Data:1": "data_layout+audio+custom/size=1",
        "DL:Data:1:0": COUNT,
    }
    source = MemorySource(
        tags,
        (CONFIGURATION, 1, 0.0, encode(AUDIO, **audio_values())),
        (DATA, 1, 1.0, u32(3) + bytes(range(12)) + b"x"),
        (DATA, 1, 2.0, u32(2) + bytes(range(12)) + b"x"),
    )
    (samples,) = source[1].audio_blocks
    assert samples.tolist() == [[1, 0x203], [0x405, 0x607], [0x809, 0xA0B]]
    assert samples.dtype == np.int16
    assert source[2].note == "block 1: size unknown"


def test_audio_of_a_layout_that_is_not_right_before() -> None:
    payload = encode(AUDIO, **audio_values()) + bytes(4) + bytes(12)
    record = formatted("data_layout+data_layout+audio", payload, _0=AUDIO, _1=VALUE)
    assert record.blocks[2].kind == "unsupported"


def test_a_record_costs_nothing_until_it_is_asked() -> None:
    source = MemorySource(
        {"RF:Data:1": "data_layout", "DL:Data:1:0": VALUE}, (DATA, 1, 1.5, u32(9))
    )
    record = source[0]
    assert (record.timestamp, record.record_index, record.record_type) == (1.5, 0, "data")
    assert (record.stream_id, record.format_version) == ("214-1", 1)
    assert repr(record) == "<data record 0 of stream 214-1 at 1.5 s>"
    assert source.nread == 0
    assert source.decoders[DATA, 1]._steps is None
    assert record.metadata_blocks == ({"k": 9},)
    assert record.blocks == record.blocks
    assert record.metadata_blocks is record.metadata_blocks
    assert source.nread == 1


def test_the_configuration_is_decoded_once() -> None:
    tags = {"RF:Data:1": "image/raw", "RF:Configuration:1": "data_layout"}
    tags["DL:Configuration:1:0"] = SPEC
    data = [(DATA, 1, float(n), b"ab") for n in range(1, 6)]
    source = MemorySource(
        tags, (CONFIGURATION, 1, 0.0, encode(SPEC, **spec_values(2, 1, 1))), *data
    )
    assert [len(source[n].image_blocks) for n in range(1, 6)] == [1] * 5
    assert source.nread == 1 + 5


def test_blocks_of_another_kind() -> None:
    record = formatted("data_layout+custom", u32(1) + b"abc", _0=VALUE)
    with pytest.raises(TypeError, match="has values, not an array"):
        record.blocks[0].array()
    with pytest.raises(TypeError, match="kind 'custom' has no values"):
        record.blocks[1].values()
    skipped = formatted("image/size=4/raw+custom", b"abcde").blocks[0]
    assert bytes(skipped.data) == b"abcd"
    with pytest.raises(UnsupportedError, match="its format is incomplete"):
        skipped.array()


def test_views_cannot_change_the_payload() -> None:
    record = formatted("image/raw/2x1/pixel=grey8", bytearray(b"ab"))
    assert not record.image_blocks[0].flags.writeable
    assert record.blocks[0].data.readonly


def test_many_blocks() -> None:
    record = formatted("+".join(["custom/size=1"] * 999 + ["custom"]), bytes(2000))
    assert len(record.blocks) == 1000
    assert record.blocks[999].nbytes == 1001


FORMATS = st.lists(
    st.sampled_from(
        [
            *("data_layout", "data_layout/size=4", "custom", "custom/size=4", "empty", "image"),
            *("image/raw", "image/raw/2x2/pixel=grey8", "image/jpg", "image/size=4/png", "audio"),
            *("image/video", "image/custom_codec/codec=x", "audio/pcm/int16be/channels=2"),
            *("audio/pcm/int8/channels=1/samples=4", "audio/opus", "image/jxl"),
        ]
    ),
    max_size=6,
).map("+".join)
LAYOUTS = st.sampled_from([NEXT, SPEC, VALUE, VIDEO, AUDIO, COUNT])


@given(FORMATS, st.lists(LAYOUTS, min_size=6, max_size=6), st.binary(max_size=80))
def test_any_payload_gives_blocks_or_documented_errors(
    text: str, layouts: list[str], payload: bytes
) -> None:
    # Small numbers make sizes that fit more often.
    payload = bytes(b % 5 if i % 3 else 0 for i, b in enumerate(payload))
    record = formatted(text, payload, **{f"_{i}": one for i, one in enumerate(layouts)})
    blocks = record.blocks
    whole = [block for block in blocks if block.is_whole]
    assert sum(len(block.data) for block in whole) + len(record.unread) == len(payload)
    assert len(whole) >= len(blocks) - 1
    if len(whole) < len(blocks):
        assert record.note is not None
    for block in blocks:
        with suppress(BloscpackError, ImportError):
            block.values() if block.kind == "metadata" else block.array()


class Picklable(MemorySource):
    """Source that pickles to an equal source in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tags, *self.records)


def test_records_are_pickled_as_recording_and_index() -> None:
    source = Picklable({"RF:Data:1": "custom"}, (DATA, 1, 1.5, b"a"), (DATA, 1, 2.5, b"b"))
    copy = pickle.loads(pickle.dumps(source[1]))
    assert (copy.timestamp, copy.record_index, bytes(copy.blocks[0].data)) == (2.5, 1, b"b")
