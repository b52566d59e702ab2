"""JSON values kept with a file, as a reader gets them: dicts and lists that refuse to be changed.

A change of an ordinary dict would be lost without a word, as nothing writes it to the file.
"""

from collections.abc import Callable
from typing import Any, Never

_CHANGING = (
    *("__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__", "append", "clear", "extend"),
    *("insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"),
)


class ReadOnlyDict(dict[str, Any]):
    """A dict whose methods that would change it raise `TypeError` with advice.

    A copy of it, by ``copy.deepcopy`` or by pickling, is an ordinary dict. ``dict(x)`` and
    ``x.copy()`` are ordinary dicts with the same values.
    """

    __slots__ = ("_advice",)
    _advice: str

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]


class ReadOnlyList(list[Any]):
    """A list whose methods that would change it raise `TypeError` with advice."""

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


def read_only(value: dict[str, Any], advice: str) -> dict[str, Any]:
    """Return JSON values that cannot be changed; an attempt raises `TypeError` with `advice`."""

    def empty(of: Any) -> Any:
        found: Any = ReadOnlyDict() if isinstance(of, dict) else ReadOnlyList()
        found._advice = advice
        return found

    return _rebuilt(value, empty)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """Return a dict or list of JSON values as ordinary ones, new."""
    return _rebuilt(value, lambda of: {} if isinstance(of, dict) else [])


def _rebuilt(value: Any, empty: Callable[[Any], Any]) -> Any:
    """Return nested dicts and lists in containers that `empty` makes.

    Without recursion: the nesting in a file may be deeper than Python's stack.
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
