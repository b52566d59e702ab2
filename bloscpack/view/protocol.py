"""Protocol between the server and the modules that read files: `Query`, `Answer` and `Work`.

A request names a file by its ordinal and has numbers and words as parameters, which a `Query`
checks. The reply is JSON, or a packet: the length of a JSON document, the document, and arrays
behind it. Every reply is bounded, for any file: `plain` cuts long text and long lists.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from threading import Event
from typing import Any

import numpy as np

from ..plugin import AnyArray, BloscpackError

JSON = "application/json"
PACKET = "application/x-bloscpack-packet"
# Limits of a JSON reply: characters of a text, entries of a list or an object, nesting, and
# entries of the whole.
MAX_TEXT = 4000
MAX_ENTRIES = 500
MAX_DEPTH = 12
MAX_VALUES = 20_000
# Integers above lose digits in JavaScript, and are sent as text.
_MAX_EXACT = 1 << 53
_LENGTH = Struct("<I")


# Errors about a file or a request; any other is a bug.
EXPECTED = (
    *(BloscpackError, OSError, ValueError, MemoryError, ImportError),
    *(IndexError, TypeError, NotImplementedError),
)


class QueryError(ValueError):
    """Invalid parameter of a request."""


class WorkCancelled(Exception):  # noqa: N818
    """The client has gone away: nothing reads the result."""


class Work:
    """Work for one request, which ends early when the client goes away.

    Attributes
    ----------
    nsteps : int
        Number of calls of `step` so far.
    """

    def __init__(self, emit: Callable[[dict[str, Any]], object] | None = None) -> None:
        self._cancelled = Event()
        self.emit = emit or (lambda document: None)
        self.nsteps = 0

    def cancel(self) -> None:
        """Make the next `step` raise."""
        self._cancelled.set()

    def step(self) -> None:
        """Raise WorkCancelled if the client has gone away; called between frames and strips."""
        if self._cancelled.is_set():
            raise WorkCancelled
        self.nsteps += 1


class Query:
    """Parameters of a request.

    Parameters
    ----------
    values : mapping of str to str
        Names and values, as in the URL.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = "") -> str:
        """Return a text; QueryError if it is missing and `default` is None."""
        value = self._values.get(name, default)
        if value is None:
            raise QueryError(f"parameter {name!r} is missing")
        if len(value) > MAX_TEXT:
            raise QueryError(f"parameter {name!r} has more than {MAX_TEXT} characters")
        return value

    def integer(self, name: str, default: int | None, low: int, high: int) -> int:
        """Return an integer in ``low <= value <= high``; without `default` it must be given."""
        text = self.text(name, None if default is None else str(default))
        try:
            # Longer numbers are out of any range; `int` takes long for thousands of digits.
            value = int(text) if len(text) <= 20 else high + 1
        except ValueError:
            raise QueryError(f"parameter {name!r} must be an integer, not {text!r:.40}") from None
        if not low <= value <= high:
            raise QueryError(f"parameter {name!r} must be {low} to {high}, not {text!r:.40}")
        return value

    def number(self, name: str, default: float) -> float:
        """Return a finite number."""
        text = self.text(name, repr(default))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise QueryError(f"parameter {name!r} must be a number, not {text!r:.40}")
        return value

    def word(self, name: str, words: tuple[str, ...]) -> str:
        """Return one of `words`; the first is the default."""
        value = self.text(name, words[0])
        if value not in words:
            raise QueryError(f"parameter {name!r} must be one of {', '.join(words)}")
        return value


@dataclass(frozen=True, slots=True)
class Answer:
    """Reply to a request: a body, or blocks that are made while they are sent."""

    body: bytes
    media_type: str = JSON
    blocks: Iterator[bytes] | None = None


def document(value: Any) -> Answer:
    """Return a JSON reply."""
    return Answer(json.dumps(plain(value), allow_nan=False).encode())


def packet(head: dict[str, Any], *arrays: AnyArray) -> Answer:
    """Return a reply with a JSON document and arrays, little-endian and in C order.

    Layout: the length of the document as uint32, the document, padding with spaces to a multiple
    of eight, and each array padded with zeros to a multiple of eight. The document lists dtype
    and shape of each array under ``arrays``.
    """
    ordered = [np.ascontiguousarray(each, each.dtype.newbyteorder("<")) for each in arrays]
    listed = [{"dtype": each.dtype.str, "shape": list(each.shape)} for each in ordered]
    text = json.dumps({**plain(head), "arrays": listed}, allow_nan=False).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % 8)
    parts = [_LENGTH.pack(len(text)), text]
    for each in ordered:
        parts += [each.tobytes(), bytes(-each.nbytes % 8)]
    return Answer(b"".join(parts), PACKET)


def plain(value: Any) -> Any:
    """Return a value as bounded JSON: long text and lists are cut, and end with an ellipsis."""
    return _plain(value, MAX_DEPTH, [MAX_VALUES])


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):
        return value if abs(value) <= _MAX_EXACT else _long_integer(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return _plain_object(value, depth, left)
    if isinstance(value, list | tuple | range | np.ndarray):
        if depth == 0 or left[0] <= 0:
            return "…"
        shown = [_plain(each, depth - 1, left) for each in value[:MAX_ENTRIES]]
        return shown + ["…"] * (len(value) > MAX_ENTRIES)
    text = value if isinstance(value, str) else repr(value)
    # Lone surrogates cannot be encoded.
    text = text[: MAX_TEXT + 1].encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _plain_object(value: Mapping[Any, Any], depth: int, left: list[int]) -> Any:
    if depth == 0 or left[0] <= 0:
        return "…"
    shown = {}
    for number, key in enumerate(value):
        if number == MAX_ENTRIES:
            shown["…"] = f"{len(value) - number} more"
            break
        shown[str(key)[:200].encode("utf-8", "backslashreplace").decode()] = _plain(
            value[key], depth - 1, left
        )
    return shown


def _long_integer(value: int) -> str:
    return str(value) if value.bit_length() < 2048 else f"integer of {value.bit_length()} bits"
