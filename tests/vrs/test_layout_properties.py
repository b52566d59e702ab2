"""Generated layouts and values: round trips of values and of bytes."""

import struct
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.vrs.layout.datalayout import DataLayout
from bloscpack.vrs.layout.pieces import ELEMENTS, TYPES, Element, Piece, PieceKind

_INTEGERS = {"b": 8, "h": 16, "i": 32, "q": 64}


def numbers(code: str) -> st.SearchStrategy[Any]:
    if code == "?":
        return st.booleans()
    if code == "c":
        return st.binary(min_size=1, max_size=1)
    if code in "df":
        return st.floats(width=64 if code == "d" else 32, allow_nan=False)
    bits = _INTEGERS[code.lower()]
    low, high = (0, 2**bits) if code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return st.integers(low, high - 1)


texts = st.text(max_size=5) | st.binary(max_size=5).map(
    lambda data: data.decode("utf-8", "surrogateescape")
)


def elements(element: Element) -> st.SearchStrategy[Any]:
    if not element.code:
        return texts
    strategy = numbers(element.code)
    for n in reversed(element.shape):
        strategy = st.tuples(*[strategy] * n)
    return strategy


def values_of(piece: Piece) -> st.SearchStrategy[Any]:
    element, kind = piece.element, piece.kind
    assert element is not None
    one = elements(element)
    if kind is PieceKind.ARRAY:
        return st.lists(one, min_size=piece.size, max_size=piece.size)
    if kind is PieceKind.VECTOR:
        return st.lists(one, max_size=4)
    if kind is PieceKind.STRING_MAP:
        return st.dictionaries(texts, one, max_size=3)
    return one


pieces = st.builds(
    Piece, st.text("xy/é", max_size=2), st.sampled_from(sorted(TYPES)), st.integers(0, 3)
).map(lambda piece: piece if piece.kind is PieceKind.ARRAY else Piece(piece.label, piece.type_name))


@st.composite
def layouts_and_values(draw: st.DrawFn) -> tuple[DataLayout, dict[str, Any]]:
    layout = DataLayout(draw(st.lists(pieces, max_size=8)))
    named = zip(layout.keys, layout.pieces, strict=True)
    return layout, {key: draw(values_of(piece)) for key, piece in named}


def typed(value: Any) -> str:
    """Return a text in which 0.0, -0.0, 1, 1.0 and True differ; the order of maps is ignored."""
    if isinstance(value, dict):
        return repr(sorted((key, typed(one)) for key, one in value.items()))
    return repr(value)


@given(layouts_and_values(), st.binary(max_size=9))
def test_values_come_back(drawn: tuple[DataLayout, dict[str, Any]], after: bytes) -> None:
    layout, values = drawn
    block = layout.encode(values)
    decoded, nbytes = layout.decode(block + after)
    assert nbytes == len(block) == layout.nbytes(block + after)
    assert typed(decoded) == typed(values)
    assert layout.encode(decoded) == block
    # The slow path writes the same bytes.
    assert layout._encode_checked(values) == block
    assert [one for _, _, one in layout.iter_values(block)] == [decoded[key] for key in layout.keys]


@given(layouts_and_values())
def test_definitions_come_back(drawn: tuple[DataLayout, dict[str, Any]]) -> None:
    layout, values = drawn
    defaults = {key: _as_default(value) for key, value in values.items()}
    with_defaults = DataLayout(
        Piece(piece.label, piece.type_name, piece.size, {"unit": "m"}, True, defaults[key])
        for key, piece in zip(layout.keys, layout.pieces, strict=True)
    )
    text = with_defaults.to_json()
    again = DataLayout.from_json(text)
    assert again.to_json() == text
    assert again == with_defaults
    assert again.encode({}) == layout.encode(values)


def _as_default(value: Any) -> Any:
    if isinstance(value, bytes):
        return value[0]
    if isinstance(value, list | tuple):
        return [_as_default(one) for one in value]
    if isinstance(value, dict):
        return {key: _as_default(one) for key, one in value.items()}
    return value


@given(st.data(), st.lists(st.sampled_from(sorted(ELEMENTS)), min_size=1, max_size=6))
def test_fixed_blocks_as_numpy_sees_them(data: st.DataObject, names: list[str]) -> None:
    layout = DataLayout(
        Piece(str(i), f"DataPieceArray<{name}>", data.draw(st.integers(0, 3)))
        for i, name in enumerate(names)
    )
    block = data.draw(st.binary(min_size=layout.fixed_nbytes, max_size=layout.fixed_nbytes))
    row = np.frombuffer(block, layout.fixed_dtype)[0] if block else None
    values, _ = layout.decode(block)
    for key, piece in layout.fixed if row is not None else ():
        element = piece.element
        assert element is not None
        expected = np.array(values[key], element.dtype.base).reshape(-1, *element.shape)
        assert row[key].shape == (piece.size, *element.shape)
        if element.code != "?":
            assert row[key].tobytes() == expected.tobytes() or element.code in "df"
        np.testing.assert_array_equal(row[key], expected)


@given(layouts_and_values(), st.data())
def test_any_order_of_the_variable_part(
    drawn: tuple[DataLayout, dict[str, Any]], data: st.DataObject
) -> None:
    layout, values = drawn
    if not layout.variable:
        return
    block = layout.encode(values)
    index = struct.iter_unpack("<II", block[layout.fixed_nbytes : layout.prefix_nbytes])
    parts = [block[layout.prefix_nbytes + at :][:length] for at, length in index]
    # The last entry stays last, because it determines the end; gaps come in between.
    order = [*data.draw(st.permutations(range(len(parts) - 1))), len(parts) - 1]
    entries, stored = [b""] * len(parts), b""
    for i in order:
        stored += b"?" * data.draw(st.integers(0, 3))
        entries[i] = struct.pack("<II", len(stored), len(parts[i]))
        stored += parts[i]
    moved = block[: layout.fixed_nbytes] + b"".join(entries) + stored
    assert typed(layout.decode(moved)[0]) == typed(layout.decode(block)[0])
