"""Pieces of HTML: tables and pictures, all of whose text is escaped and truncated here.

Names, dtypes and attrs come from files, which may be hostile. Every piece is a `Markup`; any other
value becomes escaped text of at most `_MAX_LENGTH` characters.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ..exceptions import BloscpackError
from .colormap import Pixels, encode_png

_MAX_LENGTH = 200  # characters shown of a value
_MAX_REPR = 10_000  # characters of a repr that are looked at

# What reading a damaged or unreachable file raises, and what showing odd data does.
ERRORS = (BloscpackError, OSError, ImportError, ValueError, TypeError, MemoryError, RecursionError)


class Markup(str):
    """HTML that is safe: made here, of escaped parts."""

    __slots__ = ()


def cut(value: object) -> str:
    """Return a value as one line of at most 200 characters."""
    line = " ".join(str(value)[:_MAX_REPR].split())
    # Lone surrogates cannot be sent, and controls could reverse the text around them.
    line = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in line)
    return line if len(line) <= _MAX_LENGTH else f"{line[: _MAX_LENGTH - 3]}..."


def html(value: object) -> Markup:
    """Return a value as HTML."""
    return value if isinstance(value, Markup) else Markup(escape(cut(value)))


def shown(make: Callable[[], object]) -> Markup:
    """Return what `make` returns as HTML, or the message of its error."""
    try:
        return html(make())
    except ERRORS as err:
        message = str(err) or type(err).__name__
        return Markup(f'<span style="color:#c00">{escape(cut(message))}</span>')


def fields(rows: Mapping[str, object]) -> Markup:
    """Return a table with a row for each field; functions are called, and their errors shown."""
    cells = "".join(
        f"<tr><th>{html(name)}</th><td>{shown(value) if callable(value) else html(value)}</td></tr>"
        for name, value in rows.items()
        if value is not None
    )
    return Markup(f"<table>{cells}</table>")


def grid(names: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> Markup:
    """Return a table with a head, and a line that says how many of `total` rows are missing."""
    head = "".join(f"<th>{html(name)}</th>" for name in names)
    lines = [
        "".join(f"<td>{shown(value) if callable(value) else html(value)}</td>" for value in row)
        for row in rows
    ]
    if not lines:
        return Markup()
    more = total - len(lines)
    note = f'<tr><td colspan="{len(names)}">... {more} more</td></tr>' if more > 0 else ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return Markup(f"<table><tr>{head}</tr>{body}{note}</table>")


def picture(pixels: Pixels, caption: str, *, width: int | None = None) -> Markup:
    """Return an RGB picture as an image element, enlarged to `width` pixels, with a caption."""
    data = b64encode(encode_png(pixels)).decode()
    shown_width = f' width="{width}"' if width else ""
    return Markup(
        f'<div><img src="data:image/png;base64,{data}"{shown_width} '
        f'style="image-rendering:pixelated;max-width:100%"/><br/><small>{html(caption)}</small></div>'
    )


def plot(svg: str, caption: str) -> Markup:
    """Return a plot with a caption; the SVG is made of numbers alone."""
    return Markup(f"<div>{svg}<br/><small>{html(caption)}</small></div>")


def joined(*parts: Any) -> str:
    """Return pieces of HTML as one plain string."""
    return "".join(map(html, parts))
