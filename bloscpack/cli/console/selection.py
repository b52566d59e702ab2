"""Parser of selections, written like a numpy index without its brackets.

::

    selection = entry ("," entry)* [","]
    entry     = "..." | integer | [integer] ":" [integer] [":" [integer]]

Brackets around it are allowed, blanks are ignored. The text is parsed, never evaluated.
"""

import argparse
import re
from types import EllipsisType

from ...exceptions import WrongKindError
from ...filetypes.table import ARRAYS
from ...storage.file import Place
from .inputfile import each_input, open_input
from .options import STDIO
from .status import UsageError

Index = tuple[int | slice | EllipsisType, ...]

_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_MAX_PARTS = 3


def take_name(args: argparse.Namespace) -> list[Place]:
    """Return the places that FILE stands for; a name behind it is moved into ``FILE::/NAME``.

    The only word behind the file is the selection if it can be one, or if the file has no names;
    the commands for one type take it for the name.
    """
    name, args.selection = args.selection, args.second
    places = each_input([args.file_])
    if name is None:
        return places
    first = places[0]
    if args.selection is None and (not args.kinds or first.inner):
        try:
            parse_selection_text(name)
        except UsageError:
            if first.path == STDIO or first.inner or not _has_names(first):
                raise
        else:
            args.selection = name
            return places
    args.file_ = f"{args.file_}::/{name}"
    return [Place(str(each), name) for each in places]


def _has_names(place: Place) -> bool:
    try:
        filetype, source = open_input(place)
    except WrongKindError:
        return False
    source.close()
    return filetype is not ARRAYS


def strip_brackets(text: str) -> str:
    """Remove the brackets around `text`, if any."""
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
    return inner


def parse_selection_text(text: str | None) -> Index:
    """Parse a selection; None selects everything."""
    if text is None:
        return ()
    entries = strip_brackets(text).split(",")
    if len(entries) > 1 and not entries[-1].strip():
        entries.pop()
    try:
        index = tuple(_parse_entry(entry.strip()) for entry in entries)
    except ValueError as err:
        raise UsageError(f"selection '{text}': {err}") from None
    if index.count(...) > 1:
        raise UsageError(f"selection '{text}': there can be only one '...'")
    return index


def parse_range(text: str | None, count: int, unit: str) -> slice:
    """Parse a number, or one range, of `count` items that are called `unit`; None is all."""
    if text is None:
        return slice(None)
    index = parse_selection_text(text)
    if len(index) != 1 or index[0] is ...:
        raise UsageError(f"selection '{text}': expected a number or one range of {unit}")
    if isinstance(index[0], slice):
        return index[0]
    number = int(index[0])
    if not -count <= number < count:
        raise ValueError(f"selection '{text}' is out of range: there are {count} {unit}")
    return slice(number, number + 1 or None)


def _parse_entry(text: str) -> int | slice | EllipsisType:
    if text == "...":
        return ...
    parts = text.split(":")
    if len(parts) == 1:
        return _parse_integer(text)
    if len(parts) > _MAX_PARTS:
        raise ValueError(f"'{text}' has more than start, stop and step")
    numbers = [_parse_integer(part.strip()) if part.strip() else None for part in parts]
    if len(parts) == _MAX_PARTS and numbers[2] == 0:
        raise ValueError(f"the step of '{text}' is zero")
    return slice(*numbers)


def _parse_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"'{text}' is not an integer, a slice or '...'")
    return int(text)
