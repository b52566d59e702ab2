"""Data layouts written by hand: bytes and values both ways, names of pieces, unknown types."""

import pickle
import struct

import numpy as np
import pytest

from bloscpack.exceptions import TruncatedError, UnsupportedError
from bloscpack.vrs.layout.datalayout import DataLayout
from bloscpack.vrs.layout.pieces import ELEMENTS, TYPES, Piece


def layout_of(**types: str) -> DataLayout:
    """Build a layout; ``DataPieceArray<float>*3`` is an array of 3."""
    pieces = []
    for label, text in types.items():
        name, _, size = text.partition("*")
        pieces.append(Piece(label, name, int(size or 0)))
    return DataLayout(pieces)


MIXED = layout_of(
    n="DataPieceValue<uint16_t>",
    text="DataPieceString",
    xyz="DataPieceArray<float>*3",
    words="DataPieceVector<string>",
    ids="DataPieceVector<int32_t>",
    scale="DataPieceStringMap<Point2Di>",
)
MIXED_BLOCK = b"".join(
    [
        struct.pack("<H3f", 7, 1.0, 2.0, 3.0),
        struct.pack("<8I", 0, 2, 2, 4 + 5 + 4, 15, 8, 23, 4 + 1 + 8),
        "é".encode(),
        struct.pack("<II1sI", 2, 1, b"a", 0),
        struct.pack("<ii", -1, 5),
        struct.pack("<I1sii", 1, b"k", 3, -4),
    ]
)
MIXED_VALUES = {
    "n": 7,
    "xyz": [1.0, 2.0, 3.0],
    "text": "é",
    "words": ["a", ""],
    "ids": [-1, 5],
    "scale": {"k": (3, -4)},
}


def test_fixed_then_index_then_variable() -> None:
    assert MIXED.fixed_nbytes == 2 + 12
    assert MIXED.prefix_nbytes == 14 + 4 * 8
    assert MIXED.decode(MIXED_BLOCK) == (MIXED_VALUES, len(MIXED_BLOCK))
    assert MIXED.encode(MIXED_VALUES) == MIXED_BLOCK
    assert list(MIXED.iter_values(MIXED_BLOCK))[1] == ("text", "DataPieceString", "é")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_block_within_a_payload(kind: type) -> None:
    payload = kind(b"???" + MIXED_BLOCK + b"after")
    assert MIXED.decode(payload, 3) == (MIXED_VALUES, len(MIXED_BLOCK))
    assert MIXED.nbytes(payload, 3) == len(MIXED_BLOCK)


def test_every_proper_prefix_is_truncated() -> None:
    for length in range(len(MIXED_BLOCK)):
        with pytest.raises(TruncatedError):
            MIXED.decode(MIXED_BLOCK[:length])
    with pytest.raises(TruncatedError):
        MIXED.nbytes(MIXED_BLOCK[: MIXED.prefix_nbytes - 1])


def test_gaps_and_overlaps_are_read() -> None:
    layout = layout_of(a="DataPieceString", b="DataPieceVector<uint8_t>", c="DataPieceString")
    block = struct.pack("<6I", 4, 2, 1, 4, 0, 8) + b"01234567"
    assert layout.decode(block) == (
        {"a": "45", "b": [0x31, 0x32, 0x33, 0x34], "c": "01234567"},
        len(block),
    )


@pytest.mark.parametrize("entry", [(0, 9), (8, 1), (9, 0), (0xFFFFFFFF, 0xFFFFFFFF)])
@pytest.mark.parametrize("kind", ["String", "Vector<string>", "Vector<double>", "StringMap<float>"])
def test_a_piece_beyond_the_variable_part_is_missing(entry: tuple[int, int], kind: str) -> None:
    layout = layout_of(n="DataPieceValue<int8_t>", a=f"DataPiece{kind}", b="DataPieceString")
    block = struct.pack("<b4I", 5, *entry, 0, 8) + b"01234567"
    assert layout.decode(block + bytes(99)) == ({"n": 5, "a": None, "b": "01234567"}, len(block))
    assert layout.nbytes(block) == len(block)
    assert list(layout.iter_values(block))[1] == ("a", f"DataPiece{kind}", None)
    with pytest.raises(ValueError, match="'a'"):
        layout.encode({"n": 5, "a": None, "b": ""})


def test_the_last_entry_says_where_the_variable_part_ends() -> None:
    layout = layout_of(a="DataPieceString", b="DataPieceString")
    block = struct.pack("<4I", 0, 4, 0, 3) + b"0123"
    assert layout.decode(block) == ({"a": None, "b": "012"}, len(block) - 1)


def test_empty_pieces_are_empty_and_not_absent() -> None:
    layout = layout_of(
        a="DataPieceString",
        b="DataPieceVector<double>",
        c="DataPieceVector<string>",
        d="DataPieceStringMap<string>",
        e="DataPieceArray<Matrix3Df>*0",
    )
    assert layout.decode(bytes(32)) == ({"e": [], "a": "", "b": [], "c": [], "d": {}}, 32)
    assert DataLayout([]).decode(b"rest") == ({}, 0)
    assert DataLayout([]).encode({}) == b""


def test_bytes_after_the_last_whole_element_are_left_alone() -> None:
    layout = layout_of(v="DataPieceVector<Point2Df>")
    block = struct.pack("<II2f", 0, 15, 1.0, 2.0) + b"1234567"
    assert layout.decode(block) == ({"v": [(1.0, 2.0)]}, len(block))


def test_strings_keep_bytes_that_are_not_text() -> None:
    layout = layout_of(s="DataPieceString", m="DataPieceStringMap<string>")
    block = (
        struct.pack("<4I", 0, 3, 3, 10)
        + b"\xff\0a"
        + struct.pack("<I1sI1s", 1, b"\xfe", 1, b"\x80")
    )
    values, _ = layout.decode(block)
    assert values == {"s": "\udcff\0a", "m": {"\udcfe": "\udc80"}}
    assert layout.encode(values) == block


def test_of_equal_keys_the_last_counts() -> None:
    layout = layout_of(m="DataPieceStringMap<uint8_t>")
    block = (
        struct.pack("<II", 0, 12)
        + struct.pack("<I1sB", 1, b"k", 1)
        + struct.pack("<I1sB", 1, b"k", 2)
    )
    assert layout.decode(block)[0] == {"m": {"k": 2}}


def test_maps_are_written_in_the_order_of_their_bytes() -> None:
    layout = layout_of(m="DataPieceStringMap<uint8_t>")
    block = layout.encode({"m": {"é": 1, "b": 2, "aa": 3}})
    assert block[8:] == b"\2\0\0\0aa\3" + b"\1\0\0\0b\2" + b"\2\0\0\0\xc3\xa9\1"


def test_names_of_pieces_with_one_label() -> None:
    pieces = [Piece("x", type_name) for type_name in TYPES]
    keys = DataLayout([*pieces, Piece("y", "DataPieceString")]).keys
    # Read by pyvrs 1.2.2 from a file with all 123 types.
    assert {"x<Bool>", "x<int64>", "x<Point2Di_array>", "x<uint8_vector>", "y"} < set(keys)
    assert {"x<string_string_map>", "x<string_vector>", "x<string>", "x<Matrix2Df>"} < set(keys)
    assert len(set(keys)) == len(TYPES) + 1


def test_pieces_alike_have_numbers_but_for_the_last() -> None:
    same = Piece("x", "DataPieceValue<uint8_t>")
    assert DataLayout([same, same, same]).decode(b"\1\2\3")[0] == {"x#1": 1, "x#2": 2, "x": 3}
    taken = [Piece("x#1", same.type_name), same, same]
    assert DataLayout(taken).decode(b"\1\2\3")[0] == {"x#1": 1, "x#2": 2, "x": 3}


def test_fixed_dtype() -> None:
    layout = layout_of(
        a="DataPieceValue<uint8_t>",
        b="DataPieceArray<Matrix2Dd>*3",
        c="DataPieceValue<char>",
        d="DataPieceString",
        e="DataPieceValue<Point3Di>",
    )
    block = bytes(range(layout.fixed_nbytes)) + bytes(8)
    row = np.frombuffer(block, layout.fixed_dtype, 1)[0]
    values, _ = layout.decode(block)
    assert layout.fixed_dtype.itemsize == layout.fixed_nbytes == 1 + 3 * 32 + 1 + 12
    assert row["a"] == values["a"]
    assert np.array_equal(row["b"], values["b"])
    assert row["b"].shape == (3, 2, 2)
    assert row["c"] == values["c"] == b"a"
    assert tuple(row["e"]) == values["e"]


@pytest.mark.parametrize("name", ELEMENTS)
def test_an_element_is_as_large_as_its_dtype(name: str) -> None:
    element = ELEMENTS[name]
    assert element.dtype.itemsize == element.nbytes
    assert struct.calcsize(f"<{element.width}{element.code}") == element.nbytes


# Types that are unknown.


def test_pieces_behind_one_of_unknown_size_are_missing() -> None:
    layout = layout_of(
        a="DataPieceValue<uint8_t>",
        b="DataPieceValue<half>",
        c="DataPieceValue<uint8_t>",
        d="DataPieceString",
    )
    assert layout.decode(bytes(range(100))) == ({"a": 0}, None)
    assert layout.missing == ("b", "c", "d")
    assert "'b' ('DataPieceValue<half>')" in str(layout.undecodable)
    with pytest.raises(UnsupportedError, match="'b'"):
        layout.nbytes(bytes(100))
    with pytest.raises(UnsupportedError, match="'b'"):
        layout.encode({"a": 1})
    assert layout.fixed_dtype.names == ("a",)


def test_a_vector_of_unknown_elements_alone_is_missing() -> None:
    layout = layout_of(
        a="DataPieceString",
        b="DataPieceVector<half>",
        c="DataPieceString",
        d="DataPieceValue<char>",
    )
    block = b"!" + struct.pack("<6I", 0, 1, 1, 2, 3, 1) + b"xyyz"
    assert layout.decode(block) == ({"d": b"!", "a": "x", "c": "z"}, len(block))
    assert layout.nbytes(block) == len(block)
    assert layout.missing == ("b",)
    assert layout.undecodable is None
    assert [label for label, _, _ in layout.iter_values(block)] == ["a", "c", "d"]
    with pytest.raises(UnsupportedError, match="'b'"):
        layout.encode({})


# Encoding.


def test_what_is_left_out_has_its_default() -> None:
    layout = DataLayout(
        [
            Piece("a", "DataPieceValue<int8_t>", default=-5),
            Piece("b", "DataPieceArray<char>", 3, default=[97, -1]),
            Piece("c", "DataPieceValue<Matrix2Df>"),
            Piece("d", "DataPieceValue<uint8_t>", default=256),
            Piece("e", "DataPieceVector<string>", default=["p"]),
            Piece("f", "DataPieceStringMap<double>", default={"k": 1}),
            Piece("g", "DataPieceString", default=3),
        ]
    )
    values = {
        "a": -5,
        "b": [b"a", b"\xff", b"\0"],
        "c": ((0.0, 0.0), (0.0, 0.0)),
        "d": 0,
        "e": ["p"],
        "f": {"k": 1.0},
        "g": "",
    }
    assert layout.defaults() == values
    assert layout.decode(layout.encode({}))[0] == values
    assert layout.decode(layout.encode({"d": 9}))[0] == values | {"d": 9}


def test_defaults_are_the_callers_own() -> None:
    layout = DataLayout(
        [
            Piece("array", "DataPieceArray<uint8_t>", 2, default=[1, 2]),
            Piece("words", "DataPieceVector<string>", default=["p"]),
            Piece("ages", "DataPieceStringMap<double>", default={"k": 1}),
        ]
    )
    values = {"array": [1, 2], "words": ["p"], "ages": {"k": 1.0}}
    block = layout.encode({})
    taken = layout.defaults()
    assert taken == values
    taken["array"][0] = 9
    taken["words"].append("q")
    taken["ages"].clear()
    given = {"words": ["r"]}
    layout.encode(given)
    given["words"].append("s")
    assert layout.defaults() == values
    assert layout.encode({}) == layout.encode({"array": [1, 2]}) == block


def test_what_is_left_out_costs_no_second_default(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_of(a="DataPieceValue<float>", b="DataPieceArray<int16_t>*3")
    expected = layout.encode({"a": 2.0, "b": [0, 0, 0]})
    assert layout.encode({"a": 2.0}) == expected
    with monkeypatch.context() as patched:
        patched.setattr(DataLayout, "decode", lambda *_: pytest.fail("defaults are kept"))
        patched.setattr(DataLayout, "_encode_checked", lambda *_: pytest.fail("the slow way"))
        assert layout.encode({"a": 2.0}) == expected
        assert layout.encode({"b": [0, 0, 0], "a": 2.0}) == expected


def test_arrays_of_numpy_do_as_well() -> None:
    layout = layout_of(
        a="DataPieceValue<float>",
        b="DataPieceArray<int16_t>*3",
        c="DataPieceValue<Matrix3Dd>",
        d="DataPieceVector<Point2Df>",
        e="DataPieceVector<uint8_t>",
        f="DataPieceArray<char>*2",
        g="DataPieceStringMap<Point2Di>",
    )
    matrix = np.arange(9.0).reshape(3, 3)
    block = layout.encode(
        {
            "a": np.float32(1.5),
            "b": np.array([1, -2, 3]),
            "c": matrix.T,
            "d": np.array([[1, 2], [3, 4]], np.float64),
            "e": b"\1\2",
            "f": np.array([b"x", b"\0"]),
            "g": {"k": np.array([1, 2])},
        }
    )
    assert layout.decode(block)[0] == {
        "a": 1.5,
        "b": [1, -2, 3],
        "c": ((0.0, 3.0, 6.0), (1.0, 4.0, 7.0), (2.0, 5.0, 8.0)),
        "d": [(1.0, 2.0), (3.0, 4.0)],
        "e": [1, 2],
        "f": [b"x", b"\0"],
        "g": {"k": (1, 2)},
    }


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("DataPieceValue<uint8_t>", 256),
        ("DataPieceValue<uint8_t>", 1.5),
        ("DataPieceValue<float>", 1e39),
        ("DataPieceValue<float>", "1"),
        ("DataPieceValue<float>", [1.0]),
        ("DataPieceValue<Point2Df>", (1.0, 2.0, 3.0)),
        ("DataPieceValue<Matrix2Df>", ((1.0,), (2.0, 3.0, 4.0))),
        ("DataPieceValue<char>", b"ab"),
        ("DataPieceArray<float>*2", [1.0]),
        ("DataPieceArray<float>*2", 3.0),
        ("DataPieceArray<float>*2", np.zeros((2, 1))),
        ("DataPieceArray<float>*2", "12"),
        ("DataPieceVector<int32_t>", np.array([1.5])),
        ("DataPieceVector<int32_t>", np.zeros((1, 2), "i4")),
        ("DataPieceVector<Point2Df>", np.zeros(2)),
        ("DataPieceVector<int32_t>", 5),
        ("DataPieceVector<string>", "text"),
        ("DataPieceVector<string>", [5]),
        ("DataPieceString", 5),
        ("DataPieceString", "\ud800"),
        ("DataPieceStringMap<float>", [("k", 1.0)]),
        ("DataPieceStringMap<float>", {"k": None}),
        ("DataPieceStringMap<string>", {5: "v"}),
    ],
)
def test_a_value_that_does_not_fit(type_name: str, value: object) -> None:
    layout = layout_of(a="DataPieceValue<float>", b=type_name)
    with pytest.raises(ValueError, match="piece 'b'"):
        layout.encode({"a": 0.0, "b": value})


def test_lengths_that_make_up_for_each_other_do_not_pass() -> None:
    layout = layout_of(a="DataPieceArray<float>*2", b="DataPieceArray<float>*2")
    with pytest.raises(ValueError, match="piece 'a'"):
        layout.encode({"a": [1.0], "b": [1.0, 2.0, 3.0]})


def test_a_key_that_is_not_a_piece() -> None:
    with pytest.raises(ValueError, match="no piece is named 'm'"):
        MIXED.encode({"m": 1})
    with pytest.raises(ValueError, match="no piece is named 'q'"):
        layout_of(a="DataPieceValue<float>").encode({"q": 1.0})


def test_pickle_and_equality() -> None:
    again = pickle.loads(pickle.dumps(MIXED))
    assert again == MIXED
    assert hash(again) == hash(MIXED)
    assert again.decode(MIXED_BLOCK)[0] == MIXED_VALUES
    assert DataLayout(MIXED.pieces[1:]) != MIXED
    assert MIXED != 5
    assert MIXED.key("ids", "DataPieceVector<int32_t>") == "ids"
    assert MIXED.key("ids", "DataPieceVector<int64_t>") is None
    assert repr(MIXED) == "<DataLayout of 6 pieces, 46 bytes and more>"
