"""Data layouts declared as Python classes.

A subclass of `Layout` lists the pieces of a metadata block as class attributes. A writer stores its
definition with the stream; its instances are the values of such blocks::

    class Imu(Layout):
        temperature = Value("float", tags={"unit": "deg C"})
        accelerometer = Array("float", 3)
        note = String(optional=True)

    sample = Imu(temperature=21.5)
    sample.accelerometer = [0.0, 0.0, 9.81]

A class attribute that is itself a `Layout` class is a nested struct: the labels of its pieces start
with the name of the attribute and a ``/``. The pieces of base classes come first. In a definition,
pieces of fixed size come before those of variable size, as the reference writes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from ...plugin import NotFoundError
from .datalayout import DataLayout
from .pieces import ELEMENTS, STRING, Element, Piece, PieceKind

# Element types by Python type and by numpy type character. A Python float is a double.
_PYTHON_TYPES: dict[object, str] = {float: "double", int: "int64_t", bool: "Bool", str: "string"}
_NUMPY_TYPES = {"?": "Bool", "S": "char", "d": "double", "f": "float"}


def element_named(of: object) -> Element:
    """Return the element type for a name or type.

    This is a C++ name of the format (``"int32_t"``, ``"Point3Df"``, ``"string"``), a name or type
    of numpy (``"float32"``, ``np.uint8``), or ``float`` (a double), ``int`` (int64_t), ``bool``,
    ``str``. The text ``"float"`` is the C++ name: four bytes.
    """
    name = _PYTHON_TYPES.get(of, of) if isinstance(of, type) else of
    name = object if name is None else name  # numpy would read None as float64
    name = "Bool" if name == "bool" else name
    if isinstance(name, str) and (name in ELEMENTS or name == STRING.name):
        return ELEMENTS.get(name, STRING)
    try:
        dtype = np.dtype(name)  # type: ignore[call-overload]  # any other object raises TypeError
    except TypeError:
        dtype = np.dtype("O")
    if dtype.kind in "iu" and dtype.itemsize <= 8:
        return ELEMENTS[f"{dtype.name}_t"]
    known = _NUMPY_TYPES.get(dtype.char)
    if known is None or (known == "char" and dtype.itemsize != 1):
        raise TypeError(f"{of!r} is not an element type of a data layout")
    return ELEMENTS[known]


class _Named:
    """Attribute of a layout class that knows its name."""

    name = ""
    _label: str | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name and self.name != name:
            raise TypeError(f"a single piece is used for both {self.name!r} and {name!r}")
        self.name = name

    @property
    def label(self) -> str:
        """Name in the file, without the names of enclosing structs."""
        return self.name if self._label is None else self._label


class Field(_Named):
    """Piece of a layout class; base of `Value`, `Array`, `Vector`, `StringMap` and `String`.

    Parameters
    ----------
    label : str, optional
        Name in the file, by default that of the attribute; needed if it is not a Python name.
    optional : bool, optional
        Whether definitions leave the piece out unless it is requested.
    required : bool, optional
        Whether readers that expect this layout fail without the piece.
    default : object, optional
        Value of an unset piece, and for readers of a block without the piece.
    tags : mapping of str to str, optional
        Such as ``{"unit": "m/s", "description": "..."}``.
    """

    kind: ClassVar[PieceKind]
    """Kind of the piece, as it is named in the definition of a layout."""

    def __init__(
        self,
        of: object,
        size: int = 0,
        *,
        label: str | None = None,
        optional: bool = False,
        required: bool = False,
        default: Any = None,
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        is_fixed = self.kind in (PieceKind.VALUE, PieceKind.ARRAY)
        if properties and not is_fixed:
            raise TypeError("only values and arrays have properties")
        self.element = element_named(of)
        if self.element is STRING and is_fixed:
            raise TypeError("strings have no fixed size: use String or Vector")
        self.type_name = (
            str(self.kind) if self.kind is PieceKind.STRING else f"{self.kind}<{self.element.name}>"
        )
        self.size = size
        self._label = label
        self.optional = optional
        self.required = required
        self.tags = dict(sorted((tags or {}).items()))
        if not all(isinstance(text, str) for pair in self.tags.items() for text in pair):
            raise TypeError("tags must map str to str")
        self.default = None if default is None else self._json(self.type_name, size, default)
        self.properties = {
            name: self._json(f"{PieceKind.VALUE}<{self.element.name}>", 0, value)
            for name, value in sorted((properties or {}).items())
        }

    def _json(self, type_name: str, size: int, value: Any) -> Any:
        """Convert a value to the JSON of definitions; raises ValueError if it does not fit."""
        layout = DataLayout([Piece("default", type_name, size)])
        return _as_json(layout.decode(layout.encode({"default": value}))[0]["default"])

    def _piece(self, prefix: str = "") -> Piece:
        """Return the piece for a definition, with `prefix` before its label."""
        default = None if self.default in ([], {}, "") else self.default
        return Piece(
            prefix + self.label,
            self.type_name,
            self.size,
            self.tags,
            self.required,
            default,
            self.properties,
        )

    def __get__(self, instance: "Layout | None", owner: type) -> Any:
        if instance is None:
            return self
        for values in (instance._values, instance._defaults):
            if self.name in values:
                return values[self.name]
        # Stored, as it may be a list that the caller appends to.
        default = DataLayout([self._piece()]).defaults()[self.label]
        instance._defaults[self.name] = default
        return default

    def __set__(self, instance: "Layout", value: Any) -> None:
        instance._values[self.name] = value


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return int.from_bytes(value, "little", signed=True)
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if isinstance(value, dict):
        return {key: _as_json(one) for key, one in value.items()}
    return value


class Value(Field):
    """Single number, bool, character, point or matrix: ``Value("float")``.

    Accepts `properties` besides the options of every piece: numbers such as ``{"min": 0.0}``.
    """

    kind = PieceKind.VALUE

    def __init__(self, of: object, **options: Any) -> None:
        super().__init__(of, **options)


class Array(Field):
    """Fixed number of elements: ``Array("float", 3)``. Accepts `properties`, like `Value`."""

    kind = PieceKind.ARRAY

    def __init__(self, of: object, size: int, **options: Any) -> None:
        if not 0 <= size <= 0xFFFFFFFF:
            raise ValueError(f"array size {size}: expected 0 to 4294967295")
        super().__init__(of, size, **options)


class Vector(Field):
    """Number of elements that varies by record: ``Vector("uint8")``, ``Vector("string")``."""

    kind = PieceKind.VECTOR

    def __init__(self, of: object, **options: Any) -> None:
        super().__init__(of, **options)


class StringMap(Field):
    """Values by name: ``StringMap("int32_t")``."""

    kind = PieceKind.STRING_MAP

    def __init__(self, of: object, **options: Any) -> None:
        super().__init__(of, **options)


class String(Field):
    """Text of variable length."""

    kind = PieceKind.STRING

    def __init__(self, **options: Any) -> None:
        super().__init__("string", **options)


class Nested(_Named):
    """Nested struct with options; a `Layout` class as an attribute is one without options.

    Parameters
    ----------
    layout : type
        A subclass of `Layout`.
    label : str, optional
        Name before the ``/``, by default that of the attribute.
    optional : bool, optional
        Whether all pieces of the struct are optional.
    """

    def __init__(
        self, layout: "type[Layout]", *, label: str | None = None, optional: bool = False
    ) -> None:
        self.layout = layout
        self._label = label
        self.optional = optional

    def __get__(self, instance: "Layout | None", owner: type) -> Any:
        if instance is None:
            return self
        if self.name not in instance._values:
            instance._values[self.name] = self.layout()
        return instance._values[self.name]

    def __set__(self, instance: "Layout", value: Any) -> None:
        if not isinstance(value, self.layout):
            raise TypeError(
                f"{self.name}: expected a {self.layout.__name__}, got a {type(value).__name__}"
            )
        instance._values[self.name] = value


class Layout:
    """Base of layout classes; an instance holds the values of one block.

    Parameters
    ----------
    **values
        Values by attribute; other attributes have their defaults until they are set.

    Raises
    ------
    TypeError
        A name is not that of a piece. In a class statement: a piece has a name that the base class
        uses (rename it and give it a `label`), or two pieces have the same label and type.
    """

    _fields: ClassVar[dict[str, Field | Nested]] = {}
    _values: dict[str, Any]
    _defaults: dict[str, Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        fields = dict(cls._fields)
        for name, value in list(vars(cls).items()):
            if isinstance(value, type) and issubclass(value, Layout):
                value = Nested(value)
                value.__set_name__(cls, name)
                setattr(cls, name, value)
            if isinstance(value, Field | Nested):
                if hasattr(Layout, name):
                    raise TypeError(
                        f"{name!r} is an attribute of Layout: use another name with label={name!r}"
                    )
                fields[name] = value
        cls._fields = fields
        seen = set()
        for _, _, piece, _ in cls._pieces(""):
            if (piece.label, piece.type_name) in seen:
                raise TypeError(f"{cls.__name__} has two pieces {piece.label!r} of one type")
            seen.add((piece.label, piece.type_name))

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_defaults", {})
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._fields:
            raise TypeError(f"{type(self).__name__} has no piece {name!r}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return f"{type(self).__name__}({values})"

    @classmethod
    def _pieces(
        cls, prefix: str, optional: bool = False
    ) -> Iterator[tuple[tuple[str, ...], Field, Piece, bool]]:
        """Yield (attribute path, field, piece, whether optional) in declaration order."""
        for name, field in cls._fields.items():
            if isinstance(field, Field):
                yield (name,), field, field._piece(prefix), optional or field.optional
            else:
                inner = field.layout._pieces(f"{prefix}{field.label}/", optional or field.optional)
                for path, leaf, piece, is_optional in inner:
                    yield (name, *path), leaf, piece, is_optional

    @classmethod
    def definition(cls, *, with_optional: bool | Iterable[str] = False) -> DataLayout:
        """Return the definition: pieces of fixed size first, otherwise in declaration order.

        Parameters
        ----------
        with_optional : bool or iterable of str, optional
            Labels of the optional pieces to include; True for all. Default: none of them.

        Raises
        ------
        ValueError
            A label is not that of an optional piece.
        """
        rows = list(cls._pieces(""))
        wanted = with_optional
        if not isinstance(wanted, bool):
            wanted = {wanted} if isinstance(wanted, str) else set(wanted)
            unknown = wanted - {piece.label for _, _, piece, optional in rows if optional}
            if unknown:
                raise ValueError(f"{cls.__name__} has no optional piece {min(unknown)!r}")
        pieces = [
            piece
            for _, _, piece, optional in rows
            if not optional or wanted is True or (wanted and piece.label in wanted)
        ]
        return DataLayout(sorted(pieces, key=lambda piece: piece.is_variable))

    def to_values(self, layout: DataLayout | None = None) -> dict[str, Any]:
        """Return the values that are set, by the keys of a layout, for `DataLayout.encode`.

        Parameters
        ----------
        layout : DataLayout, optional
            By default, the definition without optional pieces.

        Raises
        ------
        ValueError
            A value is set whose piece is not in the layout.
        """
        layout = self.definition() if layout is None else layout
        values = {}
        for label, type_name, value, is_set in self._used_pieces(""):
            key = layout.key(label, type_name)
            if key is not None:
                values[key] = value
            elif is_set:
                raise ValueError(f"{label!r} is set, but the definition does not have it")
        return values

    def _used_pieces(self, prefix: str) -> Iterator[tuple[str, str, Any, bool]]:
        """Yield (label, type name, value, whether set) of the pieces that were set or accessed."""
        for name, value in (*self._defaults.items(), *self._values.items()):
            field = self._fields[name]
            if isinstance(field, Field):
                yield prefix + field.label, field.type_name, value, name in self._values
            else:
                yield from value._used_pieces(f"{prefix}{field.label}/")

    def encode(self, layout: DataLayout | None = None) -> bytes:
        """Encode as a metadata block; `layout` and errors are those of `to_values`."""
        layout = self.definition() if layout is None else layout
        return layout.encode(self.to_values(layout))

    @classmethod
    def from_values(cls, layout: DataLayout, values: Mapping[str, Any]) -> Self:
        """Create an instance from the values of a block, which may have another definition.

        Pieces match by label, kind, element type and size, at any position (reference:
        DataLayout.cpp, mapLayout). A missing piece keeps its default.

        Parameters
        ----------
        layout : DataLayout
            Definition of the block.
        values : mapping
            Result of ``layout.decode``.

        Raises
        ------
        NotFoundError
            The block lacks a piece that is `required` here.
        """
        found = {
            (piece.label, piece.type_name, piece.size): key
            for key, piece in zip(layout.keys, layout.pieces, strict=True)
            if key in values
        }
        instance = cls()
        for path, _, piece, _ in cls._pieces(""):
            key = found.get((piece.label, piece.type_name, piece.size))
            if key is not None:
                holder: Layout = instance
                for name in path[:-1]:
                    holder = getattr(holder, name)
                setattr(holder, path[-1], values[key])
            elif piece.required:
                raise NotFoundError(f"the block has no {piece.type_name} named {piece.label!r}")
        return instance
