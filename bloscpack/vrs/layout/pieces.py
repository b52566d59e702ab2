"""Pieces of a data layout, and the JSON text in which a file defines them.

The tag ``DL:<type>:<version>:<block>`` of a stream is a JSON object that lists the pieces of a
metadata block: ``{"data_layout":[{"name":...,"type":"DataPieceValue<float>","offset":0},...]}``.
`parse_definition` reads that text; `format_definition` writes exactly the text of the reference.
Length, depth and number of pieces are limited before a definition is parsed, as files are
untrusted; any other fault in it is a `FormatError`. Layout of the text and the types:
docs/formats/vrs.md, "Data layouts".
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np

from ...plugin import FormatError
from ..format.format import MAX_JSON_DEPTH, MAX_PIECES

# Longest definition in characters: room for `MAX_PIECES` pieces with names of usual length.
MAX_DEFINITION_LENGTH = 1 << 24
# Most lists and objects in a definition: a piece has a few, and defaults of matrices add some.
_MAX_BRACKETS = 16 * MAX_PIECES


class PieceKind(StrEnum):
    """Kind of a piece: the first part of its type name. Stored on disk."""

    VALUE = "DataPieceValue"
    ARRAY = "DataPieceArray"
    """A fixed number of elements."""
    VECTOR = "DataPieceVector"
    """A variable number of elements."""
    STRING_MAP = "DataPieceStringMap"
    STRING = "DataPieceString"


class Element(NamedTuple):
    """Type of one element of a piece."""

    name: str  # C++ name, stored on disk: ``int32_t``, ``Point3Df``, ``string``
    code: str  # format character of a coordinate for the struct module; empty for ``string``
    # ``()`` for a scalar, ``(3,)`` for a point, ``(3, 3)`` for a matrix, by rows.
    shape: tuple[int, ...]
    nbytes: int  # stored size of one element; 0 for ``string``, whose size varies

    @property
    def dtype(self) -> np.dtype[Any]:
        """Packed little-endian dtype of the element; a subarray for points and matrices."""
        base = _NUMPY_CODES.get(self.code, "<" + self.code)
        return np.dtype((base, self.shape)) if self.shape else np.dtype(base)

    @property
    def width(self) -> int:
        """Number of coordinates: 1 for a scalar, 9 for a 3x3 matrix."""
        return math.prod(self.shape)


_SCALARS = {
    "Bool": ("?", 1),
    "char": ("c", 1),
    "double": ("d", 8),
    "float": ("f", 4),
    "int64_t": ("q", 8),
    "uint64_t": ("Q", 8),
    "int32_t": ("i", 4),
    "uint32_t": ("I", 4),
    "int16_t": ("h", 2),
    "uint16_t": ("H", 2),
    "int8_t": ("b", 1),
    "uint8_t": ("B", 1),
}
# Bytes of a coordinate by the last letter of the type name, which is its format character, too.
_COORDINATES = {"d": 8, "f": 4, "i": 4}
# dtype strings of codes that numpy and the struct module spell differently.
_NUMPY_CODES = {"?": "?", "c": "S1"}

STRING = Element("string", "", (), 0)


def _elements() -> dict[str, Element]:
    elements = {name: Element(name, code, (), n) for name, (code, n) in _SCALARS.items()}
    for shape_name, ndim in (("Point", 1), ("Matrix", 2)):
        for n in (2, 3, 4):
            for code, nbytes in _COORDINATES.items():
                name = f"{shape_name}{n}D{code}"
                elements[name] = Element(name, code, (n,) * ndim, nbytes * n**ndim)
    return elements


ELEMENTS = _elements()
"""Element types of fixed size, by their C++ names."""


def _types() -> dict[str, tuple[PieceKind, Element]]:
    of_elements = PieceKind.VALUE, PieceKind.ARRAY, PieceKind.VECTOR, PieceKind.STRING_MAP
    types = {
        f"{kind}<{element.name}>": (kind, element)
        for kind in of_elements
        for element in ELEMENTS.values()
    }
    for kind in (PieceKind.VECTOR, PieceKind.STRING_MAP):
        types[f"{kind}<string>"] = kind, STRING
    types[str(PieceKind.STRING)] = PieceKind.STRING, STRING
    return types


TYPES = _types()
"""Kind and element by type name. The names are stored on disk."""

# Prefixes of the types with an entry in the index of variable pieces, known elements or not.
_VARIABLE = (f"{PieceKind.VECTOR}<", f"{PieceKind.STRING_MAP}<", PieceKind.STRING)


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a definition."""

    # Name, with ``/`` between the names of nested structs. Bytes that are not UTF-8 are surrogate
    # escapes, as in all strings of a recording.
    label: str
    # As stored, such as ``DataPieceArray<float>``; may be a type that is unknown here.
    type_name: str
    size: int = 0  # number of elements of an array; 0 for other kinds
    tags: Mapping[str, str] = field(default_factory=dict)  # such as ``unit`` and ``description``
    required: bool = False  # whether readers that expect this piece fail without it
    default: Any = None  # JSON value to use for a missing piece; None without a default
    # Numbers such as ``min`` and ``max``; for values and arrays only.
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> PieceKind | None:
        """Kind, or None if the type is unknown."""
        known = TYPES.get(self.type_name)
        return known[0] if known else None

    @property
    def element(self) -> Element | None:
        """Element type, or None if the type is unknown."""
        known = TYPES.get(self.type_name)
        return known[1] if known else None

    @property
    def is_variable(self) -> bool:
        """Whether the piece has a variable size, and so an entry in the index of a block."""
        return self.type_name.startswith(_VARIABLE)

    @property
    def count(self) -> int:
        """Number of elements in the fixed part of a block."""
        kind = self.kind
        if kind is PieceKind.ARRAY:
            return self.size
        return 1 if kind is PieceKind.VALUE else 0

    @property
    def nbytes(self) -> int:
        """Bytes in the fixed part of a block."""
        element = self.element
        return element.nbytes * self.count if element else 0

    @property
    def short_type(self) -> str:
        """Short type name, to distinguish pieces with the same label: ``float``, ``float_vector``.

        The names are those of pyvrs 1.2.2 (its csrc/reader/FactoryHelper.hpp).
        """
        known = TYPES.get(self.type_name)
        if known is None:
            return self.type_name
        kind, element = known
        return element.name.removesuffix("_t") + _SUFFIXES[kind]


_SUFFIXES = {
    PieceKind.VALUE: "",
    PieceKind.ARRAY: "_array",
    PieceKind.VECTOR: "_vector",
    PieceKind.STRING_MAP: "_string_map",
    PieceKind.STRING: "",
}


class JsonFloat(float):
    """Float of a definition that keeps the digits of its source, to be written back unchanged.

    The reference writes ``4.1000000000000009`` where Python writes ``4.100000000000001``.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Parse a number of JSON, or a literal such as NaN."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # float gives a float
        return (self.text,)


# An unterminated string extends to the end of the text. Possessive quantifiers avoid backtracking.
_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}])', re.DOTALL)


def _check_depth(text: str) -> None:
    """Raise if the text nests too deep: the JSON parser would raise a RecursionError."""
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return
    depth = opened = 0
    for match in _BRACKET.finditer(text):
        if match.lastindex == 1:
            depth += 1
            opened += 1
            if depth > MAX_JSON_DEPTH:
                raise FormatError(
                    f"data layout: the definition nests deeper than {MAX_JSON_DEPTH} levels"
                )
            if opened > _MAX_BRACKETS:
                raise FormatError(
                    f"data layout: the definition has more than {_MAX_BRACKETS} lists and objects"
                )
        elif match.lastindex == 2:
            depth -= 1


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object in which the first of equal names counts, as in the reference."""
    found = dict(pairs)
    if len(found) != len(pairs):
        found = {}
        for name, value in pairs:
            found.setdefault(name, value)
    return found


def _load(text: str) -> Any:
    if len(text) > MAX_DEFINITION_LENGTH:
        raise FormatError(
            f"data layout: a definition of {len(text)} characters exceeds the limit of "
            f"{MAX_DEFINITION_LENGTH}"
        )
    _check_depth(text)
    try:
        return json.loads(text, parse_float=JsonFloat, object_pairs_hook=_first_wins)
    except ValueError as err:
        raise FormatError(f"data layout: the definition is not JSON: {err}") from err


def parse_definition(text: str) -> list[Piece]:
    """Parse a definition, the value of a ``DL:`` tag, to its pieces in definition order.

    Declared offsets are ignored: the order of the pieces determines their positions (reference:
    DataLayout.cpp, 1.2). A text that exceeds a limit is refused.
    """
    document = _load(text)
    items = document.get("data_layout") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise FormatError('data layout: the definition has no list "data_layout"')
    if len(items) > MAX_PIECES:
        raise FormatError(
            f"data layout: {len(items)} pieces in the definition exceed the limit of {MAX_PIECES}"
        )
    return [_parse_piece(index, item) for index, item in enumerate(items)]


def _parse_piece(index: int, item: Any) -> Piece:
    if not isinstance(item, dict):
        raise FormatError(f"data layout: piece {index} of the definition is not an object")
    label, type_name = item.get("name"), item.get("type")
    if not isinstance(label, str) or not isinstance(type_name, str):
        raise FormatError(f"data layout: piece {index} of the definition has no name or no type")
    size = item.get("size", 0)
    if type(size) is not int or not 0 <= size <= 0xFFFFFFFF:
        size = 0
    tags, properties = item.get("tags"), item.get("properties")
    return Piece(
        label,
        type_name,
        size if type_name.startswith(PieceKind.ARRAY) else 0,
        {k: v for k, v in tags.items() if isinstance(v, str)} if isinstance(tags, dict) else {},
        item.get("required") is True,
        item.get("default"),
        properties if isinstance(properties, dict) else {},
    )


def format_definition(pieces: Iterable[Piece]) -> str:
    """Format a definition as the reference does, with offsets computed from the order.

    The JSON has no white space and may contain non-ASCII characters. A definition written by the
    reference is reproduced exactly.
    """
    offset = index = 0
    items = []
    for piece in pieces:
        item: dict[str, Any] = {"name": piece.label, "type": piece.type_name}
        if piece.is_variable:
            item["index"] = index
            index += 1
        else:
            item["offset"] = offset
            offset += piece.nbytes
        if piece.type_name.startswith(PieceKind.ARRAY):
            item["size"] = piece.size
        item |= {"tags": piece.tags} if piece.tags else {}
        item |= {"required": True} if piece.required else {}
        item |= {"default": piece.default} if piece.default is not None else {}
        item |= {"properties": piece.properties} if piece.properties else {}
        items.append(item)
    return _dump({"data_layout": items})


# Surrogate escapes are not escaped: encoding turns them into the bytes they stand for.
_TO_ESCAPE = re.compile('[\x00-\x1f"\\\\\ud800-\udc7f\udd00-\udfff]')
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def _dump(value: Any) -> str:
    """Format JSON with the escapes and numbers of the reference (RapidJSON's writer)."""
    if isinstance(value, str):
        return f'"{_TO_ESCAPE.sub(_escape, value)}"'
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_dump(str(k))}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump, value)) + "]"
    if isinstance(value, JsonFloat):
        return value.text
    # NaN and Infinity are valid in these definitions; the standard library writes them, too.
    return json.dumps(value)
