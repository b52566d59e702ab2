"""Read-only dicts and lists: the attrs of a file that is open for reading.

Changing an ordinary dict would succeed and then be lost, since nothing writes it to the file.
"""

from collections.abc import Callable, Mapping
from typing import Any, Never, TypeVar

from ..exceptions import UnsupportedError
from ..format.metadata import describes_array

Values = TypeVar("Values", dict[str, Any], list[Any])

# Attrs that give items their meaning: items with others are not joined to those of a file.
MEANING = (
    *("units", "calendar", "flag_values", "flag_masks", "flag_meanings", "_Unsigned"),
    *("scale_factor", "add_offset", "_FillValue", "missing_value"),
)
_CHANGING = (
    *("__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__", "append", "clear", "extend"),
    *("insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"),
)


def attrs_in(metadata: Any) -> dict[str, Any]:
    """Return the attrs in the metadata of a file: all of them if it has no array metadata."""
    attrs = metadata.get("attrs", {}) if describes_array(metadata) else metadata
    return attrs if isinstance(attrs, dict) else {}


def coords_in(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of the coordinates in attrs."""
    coords = attrs.get("coords")
    return coords if isinstance(coords, dict) else {}


def default_dims(
    shape: tuple[int, ...], length_of: Callable[[str], int | None] = lambda _: None
) -> list[str]:
    """Return the names that xarray gives to axes without names.

    If an axis of another length has the name already, by `length_of`, the length is added to it.
    """
    names = ((f"dim_{axis}", length) for axis, length in enumerate(shape))
    return [
        name if length_of(name) in (None, length) else f"{name}_{length}" for name, length in names
    ]


def dims_of(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the axes of an array.

    Raises
    ------
    UnsupportedError
        Those in its attrs do not fit its shape.
    """
    value, ndim = attrs.get("dims"), len(shape)
    if value is None:
        return tuple(default_dims(shape))
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UnsupportedError(f"attrs: dims is {value!r:.80}, which is not a list of names")
    if len(value) != ndim or len({*zip(value, shape, strict=True)}) != len({*value}):
        raise UnsupportedError(
            f"attrs: dims is {value!r:.200}, but an array of {ndim} dimensions needs as many "
            "names, all different; give 'dims' to open it anyway"
        )
    return tuple(value)


def check_dims(attrs: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError if attrs have names of axes that do not fit an array."""
    if not isinstance(attrs, Mapping) or "dims" not in attrs:
        return
    try:
        dims_of(attrs, shape)
    except UnsupportedError as err:
        raise ValueError(
            f"attrs['dims'] names the axes of an array: expected {len(shape)} names, all "
            f"different, not {attrs['dims']!r:.80}"
        ) from err


class ReadOnlyDict(dict[str, Any]):
    """Dict whose mutating methods raise `TypeError` with advice.

    ``copy.deepcopy`` and pickling return an ordinary dict, with ordinary values. ``dict(x)`` and
    ``x.copy()`` return ordinary dicts with the same (read-only) values.
    """

    __slots__ = ("_advice",)
    _advice: str

    def _ipython_key_completions_(self) -> list[str]:
        """Return the keys, for completion in IPython and notebooks."""
        return list(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]


class ReadOnlyList(list[Any]):
    """List whose mutating methods raise `TypeError` with advice."""

    __slots__ = ("_advice",)
    _advice: str

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return plain(self)  # type: ignore[no-any-return]


def _refuse(self: Any, *_: Any, **__: Any) -> Never:
    raise TypeError(f"the file would not change: {self._advice}")


for _kind in (ReadOnlyDict, ReadOnlyList):
    for _name in _CHANGING:
        if hasattr(_kind, _name):
            setattr(_kind, _name, _refuse)


def read_only(value: Values, advice: str) -> Values:
    """Return a read-only copy of JSON values; changing it raises `TypeError` with `advice`."""

    def empty(of: Any) -> Any:
        found: Any = ReadOnlyDict() if isinstance(of, dict) else ReadOnlyList()
        found._advice = advice
        return found

    return _rebuilt(value, empty)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """Return a copy of JSON values made of ordinary dicts and lists."""
    return _rebuilt(value, lambda of: {} if isinstance(of, dict) else [])


def _rebuilt(value: Any, empty: Callable[[Any], Any]) -> Any:
    """Copy nested dicts and lists into containers made by `empty`.

    Iterative, because the nesting in a file may be deeper than Python's stack.
    """
    result = empty(value)
    todo = [(value, result)]
    while todo:
        source, target = todo.pop()
        is_dict = isinstance(source, dict)
        for key, each in source.items() if is_dict else enumerate(source):
            found = each
            if isinstance(each, dict | list):
                found = empty(each)
                todo.append((each, found))
            if is_dict:
                dict.__setitem__(target, key, found)
            else:
                list.append(target, found)
    return result
