"""Read-only dicts and lists: the attrs of a file that is open for reading.

Changing an ordinary dict would succeed and then be lost, since nothing writes it to the file.
"""

from collections.abc import Callable, Mapping
from typing import Any, Never, TypeVar

from ..format.metadata import describes_array

Values = TypeVar("Values", dict[str, Any], list[Any])

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
