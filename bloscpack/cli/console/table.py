"""Fields and tables for people, on a terminal; scripts get the plain text of each command.

`output.is_for_people` decides which of the two is printed. Every text is escaped here, so that a
name or an attribute in a file cannot send commands to the terminal.
"""

import io
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ...parallel.imports import importing
from .output import double_pretty_size, encode_json, pretty_size, printable
from .terminal import colors, is_utf8, size

_MAX_VALUE = 300  # characters of a value; later ones are left out
_MAX_CELL = 32  # characters in the columns of a table, but for the last one
_MIN_VALUE_COLUMNS = 16
_GAP = "  "


def fields_text(fields: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Yield lines of names and values, wrapped to the width of the terminal.

    A field whose value is None is left out.
    """
    shown = [(name, _cut(str(value), _MAX_VALUE)) for name, value in fields if value is not None]
    column = max((len(name) for name, _ in shown), default=0) + len(_GAP)
    # One column stays free, as some terminals wrap a line that fills all of them.
    width = max(size()[0] - 1 - column, _MIN_VALUE_COLUMNS)
    for name, value in shown:
        label = name
        for line in textwrap.wrap(printable(value), width) or [""]:
            yield f"{label:<{column}}{line}".rstrip()
            label = ""


def table_text(
    names: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()
) -> Iterator[str]:
    """Yield the lines of a table; columns named in `right` are aligned to the right.

    Only the last column, of names, is folded to the width of the terminal, by the library rich.
    Without it (extra ``terminal``), and on a narrow terminal, lines are left to the terminal.
    """
    limits = [*(_MAX_CELL for _ in names[1:]), _MAX_VALUE]
    cells = [
        [printable(_cut(cell, limit)) for cell, limit in zip(row, limits, strict=True)]
        for row in rows
    ]
    widths = _widths(names, cells)
    last = min(widths[-1], _MIN_VALUE_COLUMNS)
    fits = sum(widths[:-1]) + len(_GAP) * (len(names) - 1) + last < size()[0]
    lines = _rich_table(names, cells, right) if fits else None
    yield from plain_table(names, cells, right=right) if lines is None else lines


def plain_table(
    names: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()
) -> Iterator[str]:
    """Yield the lines of a table for a pipe, as wide as it is."""
    cells = [list(map(printable, row)) for row in rows]
    widths = _widths(names, cells)
    for line in (names, *cells):
        padded = (
            f"{cell:>{width}}" if name in right else f"{cell:<{width}}"
            for name, cell, width in zip(names, line, widths, strict=True)
        )
        yield _GAP.join(padded).rstrip()


def _widths(names: Sequence[str], cells: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(names, *cells, strict=True)]


def attrs_text(attrs: object) -> str | None:
    """Return attributes as JSON; None if there are none."""
    return encode_json(attrs) if attrs else None


def size_text(nbytes: int) -> str:
    """Return a size in human units: ``1.5K``, or ``12B`` without a unit to shorten it."""
    return pretty_size(nbytes) if nbytes >= 1024 else f"{nbytes}B"


def exact_size_text(nbytes: int) -> str:
    """Return a size in human units, and the number of bytes: ``1.5K (1536B)``."""
    return double_pretty_size(nbytes) if nbytes >= 1024 else f"{nbytes}B"


def span_text(start: int | None, stop: int | None) -> str:
    """Return a range as Python's slices write it: ``512:640``, or ``-`` for None."""
    return "-" if start is None else f"{start}:{'' if stop is None else stop}"


def _rich_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str]
) -> list[str] | None:
    """Return the lines of a table, or None if rich is not installed."""
    try:
        with importing:
            from rich.box import SIMPLE_HEAD
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
    except ImportError:
        return None
    # A box adds a column to the gap.
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    if not is_utf8():
        table.box, table.padding = None, (0, len(_GAP), 0, 0)
    for name in names:
        justify: Any = "right" if name in right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name != names[-1])
    for row in rows:
        table.add_row(*map(Text, row))
    # Into a text and not to standard output, whose encoding may lack some of the characters. Rich
    # would take that for a file, without colours, and would look at variables such as FORCE_COLOR
    # itself: what `size` and `colors` found is passed instead.
    console = Console(
        file=io.StringIO(),
        width=size()[0] - 1,
        force_terminal=True,
        color_system="256" if colors() else None,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
