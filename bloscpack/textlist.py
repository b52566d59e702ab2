"""Lists of names that a caller gives: one text is not a list of its letters."""

import os
from collections.abc import Iterable
from typing import Any


def text_list(name: str, values: Any) -> list[Any]:
    """Return an argument that is a list of ids, names or paths.

    Raises
    ------
    TypeError
        It is a single text or path: its letters would be taken for the entries.
    """
    if isinstance(values, str | bytes | os.PathLike):
        raise TypeError(f"{name} is a list, not a single {type(values).__name__}: [{values!r:.80}]")
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} is a list, not {type(values).__name__}")
    return list(values)
