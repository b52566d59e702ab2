"""Layouts declared as Python classes: definitions, values and mistakes."""

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.exceptions import NotFoundError
from bloscpack.vrs.layout.pieces import ELEMENTS
from bloscpack.vrs.layout.schema import element_named


class Hand(vrs.Layout):
    orientation = vrs.Value("Point4Df")
    fingers = vrs.Value(np.uint8, default=5)
    note = vrs.String(optional=True)


class Sample(vrs.Layout):
    name = vrs.String(default="sensor")
    temperature = vrs.Value("float", default=1.3, tags={"unit": "C", "description": "of the chip"})
    accelerometer = vrs.Array("float", 3, properties={"min": -9, "max": 9.5}, required=True)
    left = Hand
    right = vrs.Nested(Hand, label="right hand")
    spare = vrs.Nested(Hand, optional=True)
    letters = vrs.Array("char", 2, default=[b"a", b"\xff"])
    counts = vrs.StringMap("int32_t", default={"b": 1, "a": 2})
    blob = vrs.Vector(np.uint8)
    words = vrs.Vector("string", default=["x", "y"])
    deep = vrs.Value(int, label="a/b c")
    pose = vrs.Value("Matrix2Dd", optional=True, default=[[1, 0], [0, 1]])


DEFINITION = (
    '{"data_layout":['
    '{"name":"temperature","type":"DataPieceValue<float>","offset":0,'
    '"tags":{"description":"of the chip","unit":"C"},"default":1.2999999523162842},'
    '{"name":"accelerometer","type":"DataPieceArray<float>","offset":4,"size":3,"required":true,'
    '"properties":{"max":9.5,"min":-9.0}},'
    '{"name":"left/orientation","type":"DataPieceValue<Point4Df>","offset":16},'
    '{"name":"left/fingers","type":"DataPieceValue<uint8_t>","offset":32,"default":5},'
    '{"name":"right hand/orientation","type":"DataPieceValue<Point4Df>","offset":33},'
    '{"name":"right hand/fingers","type":"DataPieceValue<uint8_t>","offset":49,"default":5},'
    '{"name":"letters","type":"DataPieceArray<char>","offset":50,"size":2,"default":[97,-1]},'
    '{"name":"a/b c","type":"DataPieceValue<int64_t>","offset":52},'
    '{"name":"name","type":"DataPieceString","index":0,"default":"sensor"},'
    '{"name":"counts","type":"DataPieceStringMap<int32_t>","index":1,"default":{"a":2,"b":1}},'
    '{"name":"blob","type":"DataPieceVector<uint8_t>","index":2},'
    '{"name":"words","type":"DataPieceVector<string>","index":3,"default":["x","y"]}]}'
)


def test_definition() -> None:
    assert Sample.definition().to_json() == DEFINITION


def test_optional_pieces_are_requested() -> None:
    pose = Sample.definition(with_optional=["pose"])
    assert [key for key in pose.keys if key not in Sample.definition().keys] == ["pose"]
    assert Sample.definition(with_optional="pose") == pose
    everything = Sample.definition(with_optional=True)
    assert set(everything.keys) - set(pose.keys) == {
        "left/note",
        "right hand/note",
        "spare/orientation",
        "spare/fingers",
        "spare/note",
    }
    assert everything.defaults()["pose"] == ((1.0, 0.0), (0.0, 1.0))
    with pytest.raises(ValueError, match="no optional piece 'name'"):
        Sample.definition(with_optional=["name"])


def test_values_of_an_instance() -> None:
    sample = Sample(temperature=2.5, accelerometer=np.arange(3))
    sample.left.orientation = (1.0, 2.0, 3.0, 4.0)
    sample.words.append("z")
    assert sample.right.fingers == 5
    layout = Sample.definition()
    values, _ = layout.decode(sample.encode())
    assert values == layout.defaults() | {
        "temperature": 2.5,
        "accelerometer": [0.0, 1.0, 2.0],
        "left/orientation": (1.0, 2.0, 3.0, 4.0),
        "words": ["x", "y", "z"],
    }
    assert Sample().words == ["x", "y"], "a default is not shared"
    assert Sample().pose == ((1.0, 0.0), (0.0, 1.0))
    assert repr(Sample(deep=3)) == "Sample(deep=3)"


def test_optional_pieces_of_an_instance() -> None:
    sample = Sample()
    assert sample.pose[0] == (1.0, 0.0), "to look is not to set"
    assert len(sample.encode()) == len(Sample().encode())
    sample.pose = ((5, 6), (7, 8))
    with pytest.raises(ValueError, match="'pose' is set"):
        sample.encode()
    layout = Sample.definition(with_optional=["pose"])
    assert layout.decode(sample.encode(layout))[0]["pose"] == ((5.0, 6.0), (7.0, 8.0))


def test_instances_from_blocks_of_another_definition() -> None:
    class Other(vrs.Layout):
        words = vrs.Vector("string")
        counts = vrs.StringMap("int64_t")
        accelerometer = vrs.Array("float", 3)

        class left(vrs.Layout):  # noqa: N801
            fingers = vrs.Value("uint8_t")

    block = Other(words=["w"], accelerometer=[1, 2, 3], counts={"k": 1})
    block.left.fingers = 4
    layout = Other.definition()
    sample = Sample.from_values(layout, layout.decode(block.encode())[0])
    assert sample.words == ["w"]
    assert sample.accelerometer == [1.0, 2.0, 3.0]
    assert sample.left.fingers == 4
    assert sample.counts == {"a": 2, "b": 1}, "another element type does not match"
    layout = Hand.definition()
    with pytest.raises(NotFoundError, match="DataPieceArray<float> named 'accelerometer'"):
        Sample.from_values(layout, layout.defaults())


def test_a_subclass_adds_to_its_base() -> None:
    class Camera(vrs.ImageLayout):
        calibration = vrs.Array("double", 4)
        image_stride = vrs.Value("uint32_t")

    assert Camera.definition().keys == (
        "image_width",
        "image_height",
        "image_stride",
        "image_pixel_format",
        "calibration",
    )
    own = *Camera.definition().keys[:2], "image_pixel_format"
    assert vrs.ImageLayout.definition().keys == own


def test_one_label_with_two_types() -> None:
    class Both(vrs.Layout):
        x = vrs.Value("float")
        x_array = vrs.Array("float", 2, label="x")

    block = Both(x=1.0, x_array=[2.0, 3.0]).encode()
    assert Both.definition().decode(block)[0] == {"x<float>": 1.0, "x<float_array>": [2.0, 3.0]}


@pytest.mark.parametrize(
    ("of", "name"),
    [
        *[(name, name) for name in ELEMENTS],
        *[(getattr(np, f"{u}int{n}"), f"{u}int{n}_t") for u in ("", "u") for n in (8, 16, 32, 64)],
        (float, "double"),
        (int, "int64_t"),
        (bool, "Bool"),
        ("bool", "Bool"),
        ("float", "float"),
        ("float32", "float"),
        ("float64", "double"),
        (np.float64, "double"),
        (np.dtype(">f4"), "float"),
        (np.dtype("S1"), "char"),
        ("uint16", "uint16_t"),
        (np.bool_, "Bool"),
    ],
)
def test_names_of_elements(of: object, name: str) -> None:
    assert element_named(of) is ELEMENTS[name]


@pytest.mark.parametrize(
    "of",
    [None, "", "half", "S2", np.float16, complex, object, list, 5, "M8[s]", "Point5Df", [], "U1"],
)
def test_types_that_are_not_elements(of: object) -> None:
    with pytest.raises(TypeError, match="is not an element type"):
        vrs.Value(of)


def test_mistakes_of_a_declaration() -> None:
    with pytest.raises(TypeError, match="strings have no fixed size"):
        vrs.Value("string")
    with pytest.raises(TypeError, match="strings have no fixed size"):
        vrs.Array(str, 3)
    with pytest.raises(ValueError, match="default"):
        vrs.Value("uint8_t", default=256)
    with pytest.raises(ValueError, match="default"):
        vrs.Array("float", 3, default=[1.0])
    with pytest.raises(ValueError, match="default"):
        vrs.Value("int8_t", properties={"max": 200})
    with pytest.raises(TypeError, match="only values and arrays"):
        vrs.Vector("float", properties={"min": 1})
    with pytest.raises(TypeError, match="tags must map str to str"):
        vrs.String(tags={"n": 5})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="array size -1"):
        vrs.Array("float", -1)


def test_mistakes_of_a_class() -> None:
    with pytest.raises(TypeError, match="'encode' is an attribute of Layout"):
        type("Bad", (vrs.Layout,), {"encode": vrs.String()})
    with pytest.raises(TypeError, match="two pieces 'x' of one type"):
        type("Bad", (vrs.Layout,), {"x": vrs.String(), "y": vrs.String(label="x")})
    with pytest.raises(TypeError, match="has no piece 'temprature'"):
        Sample().temprature = 3.0
    with pytest.raises(TypeError, match="has no piece 'q'"):
        Sample(q=1)
    with pytest.raises(TypeError, match="left: expected a Hand, got a dict"):
        Sample(left={})
    with pytest.raises(ValueError, match="piece 'temperature'"):
        Sample(temperature="warm").encode()


def test_layouts_of_the_conventions() -> None:
    assert vrs.ImageLayout.definition(with_optional=True).to_json() == (
        '{"data_layout":['
        '{"name":"image_width","type":"DataPieceValue<uint32_t>","offset":0},'
        '{"name":"image_height","type":"DataPieceValue<uint32_t>","offset":4},'
        '{"name":"image_stride","type":"DataPieceValue<uint32_t>","offset":8},'
        '{"name":"image_stride_2","type":"DataPieceValue<uint32_t>","offset":12},'
        '{"name":"image_pixel_format","type":"DataPieceValue<uint32_t>","offset":16},'
        '{"name":"image_codec_quality","type":"DataPieceValue<uint32_t>","offset":20},'
        '{"name":"image_codec_name","type":"DataPieceString","index":0}]}'
    )
    audio = vrs.AudioLayout.definition(with_optional=True)
    assert [(piece.label, piece.type_name[15:-1]) for piece in audio.pieces] == [
        ("audio_format", "uint8_t"),
        ("audio_sample_format", "uint8_t"),
        ("audio_sample_stride", "uint8_t"),
        ("audio_channel_count", "uint8_t"),
        ("audio_sample_rate", "uint32_t"),
        ("audio_sample_count", "uint32_t"),
        ("audio_stereo_pair_count", "uint8_t"),
    ]
    video = vrs.VideoFrameLayout.definition()
    assert [piece.type_name[15:-1] for piece in video.pieces] == ["double", "uint32_t"]
    assert vrs.NextBlockLayout(next_content_block_size=7).encode() == b"\7\0\0\0"
