"""The pieces of a data layout, and the JSON text in which a file defines them.

A stream keeps, in the tag ``DL:<type>:<version>:<block>``, one JSON object that lists the pieces of
a metadata block: ``{"data_layout":[{"name":...,"type":"DataPieceValue<float>","offset":0},...]}``.
`parse_definition` reads that text, `format_definition` writes it as the reference does, character
by character. A definition of an untrusted file is bounded in its length, its depth and the number
of its pieces before it is taken; anything else that is wrong with it is a `FormatError`. Layout of
the text and the types: docs/formats/vrs.md, "Data layouts".
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np

from ...exceptions import FormatError
from ..format.format import MAX_JSON_DEPTH, MAX_PIECES

# `MAX_PIECES` pieces with names of usual length fit.
MAX_DEFINITION_LENGTH = 1 << 24
# Lists and objects in a definition: every piece has a few, and defaults of matrices some more.
_MAX_BRACKETS = 16 * MAX_PIECES


class PieceKind(StrEnum):
    """What a piece holds: the first half of its type name. Stored on disk."""

    VALUE = "DataPieceValue"
    ARRAY = "DataPieceArray"
    """A fixed number of elements."""
    VECTOR = "DataPieceVector"
    """Elements as many as there are."""
    STRING_MAP = "DataPieceStringMap"
    STRING = "DataPieceString"


class Element(NamedTuple):
    """The type of one element of a piece.

    Attributes
    ----------
    name : str
        C++ name, stored on disk: ``int32_t``, ``Point3Df``, ``string``.
    code : str
        Character of the coordinate in the struct module; empty for ``string``.
    shape : tuple of int
        ``()`` for a scalar, ``(3,)`` for a point, ``(3, 3)`` for a matrix, by rows.
    nbytes : int
        Stored size of one element; 0 for ``string``, whose size varies.
    """

    name: str
    code: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element in numpy: little-endian, packed, a subarray for points and matrices."""
        base = _NUMPY_CODES.get(self.code, "<" + self.code)
        return np.dtype((base, self.shape)) if self.shape else np.dtype(base)

    @property
    def width(self) -> int:
        """Number of coordinates: 1 for a scalar, 9 for a matrix of three rows."""
        width = 1
        for n in self.shape:
            width *= n
        return width


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
_COORDINATES = {"d": ("d", 8), "f": ("f", 4), "i": ("i", 4)}
# Where numpy's character is another one than the struct module's.
_NUMPY_CODES = {"?": "?", "c": "S1"}

STRING = Element("string", "", (), 0)


def _elements() -> dict[str, Element]:
    elements = {name: Element(name, code, (), n) for name, (code, n) in _SCALARS.items()}
    for shape_name, ndim in (("Point", 1), ("Matrix", 2)):
        for n in (2, 3, 4):
            for letter, (code, nbytes) in _COORDINATES.items():
                name = f"{shape_name}{n}D{letter}"
                elements[name] = Element(name, code, (n,) * ndim, nbytes * n**ndim)
    return elements


ELEMENTS = _elements()
"""The element types of fixed size, by their C++ names."""


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
"""Kind and element by the type names that a definition may have. Stored on disk."""

# Kinds with one entry in the index of variable pieces, whatever their elements are.
_VARIABLE = (f"{PieceKind.VECTOR}<", f"{PieceKind.STRING_MAP}<", PieceKind.STRING)


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a definition.

    Attributes
    ----------
    label : str
        Its name, with ``/`` between the names of nested structs; bytes that are not UTF-8 are
        surrogate escapes, as everywhere in strings of a recording.
    type_name : str
        As stored, such as ``DataPieceArray<float>``; may be one that is unknown here.
    size : int
        Number of elements of an array; 0 for other kinds.
    tags : mapping of str to str
        Such as ``unit`` and ``description``.
    required : bool
        A reader that expects this piece cannot do without it.
    default : object
        JSON value that stands for a piece that is not there; None: there is none.
    properties : mapping of str to object
        Numbers such as ``min`` and ``max``; of values and arrays only.
    """

    label: str
    type_name: str
    size: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    default: Any = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> PieceKind | None:
        """The kind, or None if the type is unknown."""
        known = TYPES.get(self.type_name)
        return known[0] if known else None

    @property
    def element(self) -> Element | None:
        """The element type, or None if the type is unknown."""
        known = TYPES.get(self.type_name)
        return known[1] if known else None

    @property
    def is_variable(self) -> bool:
        """Whether its size varies, so that it has an entry in the index of a block."""
        return self.type_name.startswith(_VARIABLE)

    @property
    def count(self) -> int:
        """Elements in the fixed part of a block."""
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
        """The name that tells pieces of one label apart: ``float``, ``float_vector``, ``string``.

        As pyvrs 1.2.2 has it (its csrc/reader/FactoryHelper.hpp).
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
    """A number of a definition that is written back with the digits it was read with.

    The reference writes ``4.1000000000000009`` where Python writes ``4.100000000000001``.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Read a number of JSON, or a literal such as NaN."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # float gives a float
        return (self.text,)


# A string that does not end is taken to the end of the text, and nothing is tried twice.
_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}])', re.DOTALL)


def _check_depth(text: str) -> None:
    """Refuse what the parser of the standard library would follow into a RecursionError."""
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
    """Build an object as the reference looks into it: the first of equal names counts."""
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
    """Read the pieces of a definition.

    Parameters
    ----------
    text : str
        The value of a ``DL:`` tag.

    Returns
    -------
    list of Piece
        In the order of the definition. Offsets that the text declares are not looked at: the
        order of the pieces says where they are (reference: DataLayout.cpp, 1.2).

    Raises
    ------
    FormatError
        Not a definition, or one that exceeds a limit.
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
    """Write a definition as the reference does, with the offsets that the order gives.

    Returns
    -------
    str
        JSON without white space; not ASCII where labels are not. A definition of the reference
        comes back as it was.
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


# Surrogates of surrogateescape stay: they become the bytes they stand for.
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
    """Write JSON with the escapes and numbers of the reference (RapidJSON's writer)."""
    if isinstance(value, str):
        return f'"{_TO_ESCAPE.sub(_escape, value)}"'
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_dump(str(k))}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump, value)) + "]"
    if isinstance(value, JsonFloat):
        return value.text
    # NaN and Infinity are literals of these definitions, and of the standard library.
    return json.dumps(value)
