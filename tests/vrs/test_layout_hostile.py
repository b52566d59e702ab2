"""Hostile definitions and blocks: values or documented errors, and bounded work."""

import json
import random
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs.format.format import MAX_JSON_DEPTH, MAX_PIECES
from bloscpack.vrs.layout.datalayout import DataLayout
from bloscpack.vrs.layout.pieces import _BRACKET, MAX_DEFINITION_LENGTH, TYPES, Piece

VALUE = '{"name":"a","type":"DataPieceValue<uint8_t>","offset":0}'


def definition(*pieces: str) -> str:
    return f'{{"data_layout":[{",".join(pieces)}]}}'


def value_named(label: str) -> str:
    return VALUE.replace('"a"', f'"{label}"')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "5",
        "{}",
        '{"data_layout":{}}',
        '{"data_layout":null}',
        '{"data_layout":[5]}',
        '{"data_layout":[null]}',
        '{"data_layout":["DataPieceString"]}',
        '{"data_layout":[[]]}',
        definition('{"name":"a"}'),
        definition('{"type":"DataPieceString"}'),
        definition('{"name":5,"type":"DataPieceString"}'),
        definition('{"name":"a","type":null}'),
        definition(VALUE) + "x",
        definition(VALUE)[:-1],
        "\ufeff" + definition(VALUE),
        definition(value_named("\0")),
        '{"data_layout":[' + "9" * 5000 + "]}",
        definition(VALUE.replace('"offset":0', '"default":' + "9" * 5000)),
    ],
)
def test_texts_that_are_not_a_definition(text: str) -> None:
    with pytest.raises(FormatError, match="data layout"):
        DataLayout.from_json(text)


def nested(depth: int) -> str:
    """Return a definition that nests to this depth, in a default."""
    inner = depth - 3
    return definition(VALUE[:-1] + ',"default":' + "[" * inner + "]" * inner + "}")


def test_depth() -> None:
    assert len(DataLayout.from_json(nested(MAX_JSON_DEPTH)).pieces) == 1
    with pytest.raises(FormatError, match=f"deeper than {MAX_JSON_DEPTH}"):
        DataLayout.from_json(nested(MAX_JSON_DEPTH + 1))
    for opener in ("[", '{"":'):
        with pytest.raises(FormatError, match="deeper"):
            DataLayout.from_json(opener * 100_000)


def test_brackets_in_texts_do_not_count() -> None:
    label = "[{" * 100 + '\\"[' * 100
    layout = DataLayout.from_json(definition(value_named(label)))
    assert layout.keys[0].startswith("[{[{")
    # Must be linear in the length: each quote of an unterminated string could start a string.
    endless = '"' + '\\"[{' * 20_000
    assert len(_BRACKET.findall(endless)) == 1
    for text in (endless, "[" + endless, endless + "\\"):
        with pytest.raises(FormatError, match="not JSON"):
            DataLayout.from_json(text)


@pytest.mark.slow
def test_number_of_pieces() -> None:
    assert len(DataLayout.from_json(definition(*[VALUE] * MAX_PIECES)).keys) == MAX_PIECES
    with pytest.raises(FormatError, match="100001 pieces"):
        DataLayout.from_json(definition(*[VALUE] * (MAX_PIECES + 1)))
    with pytest.raises(FormatError, match="more than 1600000 lists"):
        DataLayout.from_json(definition(*["{}"] * 1_700_000))
    with pytest.raises(FormatError, match="exceeds the limit"):
        DataLayout.from_json(" " * (MAX_DEFINITION_LENGTH + 1))


def test_array_of_four_billion() -> None:
    array = '{"name":"a","type":"DataPieceArray<Matrix4Dd>","size":4294967295}'
    with pytest.raises(FormatError, match="fixed part of 549755813760 bytes"):
        DataLayout.from_json(definition(array))
    with pytest.raises(FormatError, match="fixed part"):
        DataLayout.from_json(definition(*[array] * 1000))
    allowed = DataLayout.from_json(definition(array.replace("4294967295", str(1 << 23))))
    tracemalloc.start()
    with pytest.raises(TruncatedError, match="5 of 1073741824 bytes"):
        allowed.decode(b"12345")
    assert allowed.fixed_dtype.itemsize == 1 << 30
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("size", ["-1", "4294967296", "1e3", "true", '"3"', "null", "[]"])
def test_a_missing_size_is_0(size: str) -> None:
    array = f'{{"name":"a","type":"DataPieceArray<double>","size":{size}}}'
    layout = DataLayout.from_json(definition(array, value_named("b")))
    assert layout.decode(b"\7") == ({"a": [], "b": 7}, 1)


def test_of_equal_names_in_an_object_the_first_counts() -> None:
    piece = '{"name":"a","type":"DataPieceValue<int8_t>","type":"DataPieceString","name":"b"}'
    assert DataLayout.from_json(definition(piece)).decode(b"\xff") == ({"a": -1}, 1)


def test_labels_that_are_not_utf_8() -> None:
    raw = definition(VALUE).encode().replace(b'"a"', b'"\xff[\xfe"')
    layout = DataLayout.from_json(raw.decode("utf-8", "surrogateescape"))
    assert layout.decode(b"\1")[0] == {"\udcff[\udcfe": 1}
    assert layout.to_json().encode("utf-8", "surrogateescape") == raw
    assert layout.fixed_dtype.names == ("\udcff[\udcfe",)


def test_lone_surrogates_of_escapes_can_be_written_again() -> None:
    text = definition(value_named("\\ud800\\u0001\\u001f/\\udbff"))
    layout = DataLayout.from_json(text)
    again = layout.to_json()
    # RapidJSON's hexadecimal digits.
    assert again == definition(value_named("\\uD800\\u0001\\u001F/\\uDBFF"))
    assert DataLayout.from_json(again) == layout


def test_literals_that_json_does_not_have() -> None:
    text = definition(
        '{"name":"a","type":"DataPieceArray<double>","offset":0,"size":3,'
        '"default":[NaN,Infinity,-Infinity],"properties":{"max":1e999,"min":4.1000000000000009}}'
    )
    layout = DataLayout.from_json(text)
    assert layout.to_json() == text
    assert repr(layout.defaults()["a"]) == "[nan, inf, -inf]"


def test_definitions_with_members_of_other_types() -> None:
    piece = (
        '{"name":"a","type":"DataPieceValue<uint8_t>","offset":-5,"tags":[1],"required":1,'
        '"default":null,"properties":"x","more":{}}'
    )
    layout = DataLayout.from_json(definition(piece))
    assert layout.to_json() == definition(VALUE)
    piece = piece.replace("[1]", '{"unit":"m","n":5}')
    assert DataLayout.from_json(definition(piece)).pieces[0].tags == {"unit": "m"}


# Blocks.


def block(piece: bytes) -> bytes:
    return struct.pack("<II", 0, len(piece)) + piece


@pytest.mark.parametrize("type_name", ["DataPieceVector<string>", "DataPieceStringMap<string>"])
@pytest.mark.parametrize("number", [3, 5, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF])
@pytest.mark.parametrize("behind", [0, 4, 9])
def test_counts_that_nothing_stands_behind(type_name: str, number: int, behind: int) -> None:
    layout = DataLayout([Piece("a", type_name)])
    tracemalloc.start()
    with pytest.raises(FormatError, match="'a'"):
        layout.decode(block(struct.pack("<I", number) + b"\xff" * behind))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "type_name", ["DataPieceStringMap<Matrix2Df>", "DataPieceStringMap<string>"]
)
def test_a_map_cut_anywhere(type_name: str) -> None:
    layout = DataLayout([Piece("a", type_name)])
    value = ((1.0, 2.0), (3.0, 4.0)) if "Matrix" in type_name else "text"
    whole = layout.encode({"a": {"k": value}})[8:]
    assert layout.decode(block(whole))[0] == {"a": {"k": value}}
    for length in range(1, len(whole)):
        with pytest.raises(FormatError, match=r"entry 0|string 0"):
            layout.decode(block(whole[:length]))


def test_strings_cut_anywhere() -> None:
    layout = DataLayout([Piece("a", "DataPieceVector<string>")])
    whole = layout.encode({"a": ["xy", "", "z"]})[8:]
    for length in range(1, len(whole)):
        with pytest.raises(FormatError):
            layout.decode(block(whole[:length]))
    assert layout.decode(block(whole + b"more"))[0] == {"a": ["xy", "", "z"]}


def test_pieces_that_all_claim_the_same_bytes() -> None:
    pieces = [Piece(str(i), "DataPieceString") for i in range(10_000)]
    layout = DataLayout(pieces)
    shared = struct.pack("<II", 0, 100_000) * len(pieces) + bytes(100_000)
    with pytest.raises(
        FormatError, match="claim 1000000000 bytes, but the variable part has 100000"
    ):
        layout.decode(shared)
    # The same number of bytes, each claimed once.
    own = b"".join(struct.pack("<II", i * 10, 10) for i in range(10_000)) + bytes(100_000)
    assert len(layout.decode(own)[0]) == 10_000
    # Entries that lead out of the block are not counted.
    outside = struct.pack("<II", 1, 0xFFFFFFFF) * 9_999 + struct.pack("<II", 0, 100_000)
    values = layout.decode(outside + bytes(100_000))[0]
    assert [key for key, value in values.items() if value is not None] == ["9999"]


@given(st.lists(st.sampled_from(sorted(TYPES)), max_size=6), st.randoms(), st.binary(max_size=300))
def test_any_bytes_give_values_or_an_error(
    types: list[str], rng: random.Random, data: bytes
) -> None:
    layout = DataLayout(Piece(str(i), name, rng.randrange(4)) for i, name in enumerate(types))
    prefix = bytearray(rng.choice([data[: layout.prefix_nbytes], bytes(layout.prefix_nbytes)]))
    for at in range(layout.fixed_nbytes, len(prefix) - 3, 4):
        prefix[at : at + 4] = struct.pack("<I", rng.randrange(40))
    try:
        values, nbytes = layout.decode(bytes(prefix) + data)
    except FormatError:
        return
    assert set(values) == set(layout.keys)
    assert nbytes == layout.nbytes(bytes(prefix) + data)
    present = {key: value for key, value in values.items() if value is not None}
    assert layout.decode(layout.encode(present))[0].keys() == values.keys()


@pytest.mark.slow
@given(st.data(), st.sampled_from(sorted(TYPES)))
def test_a_definition_with_anything_in_it(data: st.DataObject, type_name: str) -> None:
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=6,
    )
    members = ("name", "type", "offset", "size", "tags", "required", "default", "properties")
    piece = {"name": "a", "type": type_name, "size": 2} | data.draw(
        st.dictionaries(st.sampled_from(members), anything, max_size=4)
    )
    text = json.dumps({"data_layout": [piece]})
    try:
        layout = DataLayout.from_json(text)
        assert DataLayout.from_json(layout.to_json()).to_json() == layout.to_json()
        layout.encode({})
    except (FormatError, UnsupportedError):
        return
