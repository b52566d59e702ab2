"""Output of a command: results on standard output, everything else on standard error.

File names and everything read from files may be hostile: `printable` escapes characters that a
terminal could take as a command. Characters that the encoding of a stream lacks are escaped too,
so that no text makes printing fail.
"""

import errno
import json
import math
import os
import pprint
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, TextIO

from ...original.args import SUFFIXES

if TYPE_CHECKING:
    from ...parallel.progressbar import ProgressBar

PROG = "blpk"
SCHEMA_VERSION = 1

# The time of pprint is proportional to size times depth: larger values are printed as JSON.
_MAX_PRETTY_NBYTES = 1 << 20
# Fields of JSON documents that are printed with one entry per line.
_LISTS = frozenset(("files", "clips", "records", "streams", "versions"))


class Console:
    """Messages and progress of one command, filtered by the global options."""

    def __init__(self, args: Namespace) -> None:
        self._debug: bool = args.debug
        self._verbose: bool = args.verbose or args.debug
        self.is_quiet: bool = args.quiet
        self._bar = not (args.quiet or args.no_progress)

    def debug(self, text: str) -> None:
        """Print a message under ``--debug``."""
        if self._debug:
            message(text)

    def verbose(self, text: str) -> None:
        """Print a message under ``--verbose``."""
        if self._verbose:
            message(text)

    def note(self, text: str) -> None:
        """Print a message unless ``--quiet``."""
        if not self.is_quiet:
            message(text)

    def progress(self, *, unit: str | None = None) -> "ProgressBar":
        """Return a progress bar, a context manager; it counts bytes without a `unit`."""
        from ...parallel.progressbar import ProgressBar  # on use: few commands have one

        return ProgressBar(sys.stderr if self._bar else None, unit=unit)


def is_for_people(args: Namespace) -> bool:
    """Return whether a result goes to a terminal, and so may be laid out for people.

    Pipes, ``--json`` and ``--classic`` get the text that scripts parse.
    """
    asked = getattr(args, "json", False) or getattr(args, "classic", False)
    return not asked and sys.stdout is not None and sys.stdout.isatty()


def message(text: str) -> None:
    """Print lines to standard error, each after the name of the program."""
    if sys.stderr is not None:
        _write(sys.stderr, "".join(f"{PROG}: {printable(line)}\n" for line in _lines(text)))


def error(text: str) -> None:
    """Print an error as one line to standard error."""
    message(f"error: {printable(text)}")


def warning(text: str) -> None:
    """Print a warning as one line to standard error."""
    message(f"warning: {printable(text)}")


def result(text: str) -> None:
    """Print a line of a result to standard output."""
    _write(_stdout(), text + "\n")


def results(lines: Iterable[str]) -> None:
    """Print lines of a result, each when it is yielded."""
    for line in lines:
        result(line)


def prefixed(text: str) -> Iterator[str]:
    """Yield lines of a result, each after the name of the program, as bloscpack 0.16 does."""
    return (f"{PROG}: {line}" for line in _lines(text))


def binary_stdout() -> IO[bytes]:
    """Return standard output as a binary stream; OSError if it is closed."""
    stream = _stdout()
    stream.flush()
    return stream.buffer


def print_json(command: str, fields: Mapping[str, Any]) -> None:
    """Print a result as one JSON document, with one line per field, file, clip or record.

    A field may be an iterator: each entry is printed when the iterator yields it.
    """
    document = {"schema_version": SCHEMA_VERSION, "command": command, **fields}
    before = "{"
    for key, value in document.items():
        result(before)
        name = f"  {json.dumps(key)}: "
        if isinstance(value, Iterator) or (key in _LISTS and isinstance(value, list)):
            before = name + "["
            for entry in value:
                result(before)
                before = f"    {encode_json(entry)},"
            before = f"{before.removesuffix(',')}\n  ]," if before != name + "[" else f"{before}],"
        else:
            before = f"{name}{encode_json(value)},"
    result(before.removesuffix(",") + "\n}")


def print_done(
    args: Namespace, command: str, fields: Mapping[str, Any], target: str, text: str
) -> None:
    """Print what was written: a JSON document, or one line with the name of the output."""
    if args.json:
        print_json(command, fields)
    else:
        result(printable(f"{target}: {text}"))


class _Token(str):
    """JSON text that is already encoded, among values that are not."""

    __slots__ = ()


def encode_json(value: Any) -> str:
    """Return strict JSON in ASCII for any JSON value.

    Numbers that JSON lacks become the strings "NaN", "Infinity" and "-Infinity"; lone surrogates
    are escaped. The depth of `value` is not bounded by Python's stack.
    """
    parts: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if type(item) is _Token:
            parts.append(item)
        elif isinstance(item, Mapping):
            todo.append(_Token("}"))
            for position, (key, entry) in reversed(list(enumerate(item.items()))):
                todo += (entry, _Token(f"{', ' if position else ''}{json.dumps(str(key))}: "))
            parts.append("{")
        elif isinstance(item, list | tuple):
            todo.append(_Token("]"))
            for position in reversed(range(len(item))):
                todo += (item[position], _Token(", " if position else ""))
            parts.append("[")
        elif isinstance(item, float) and not math.isfinite(item):
            parts.append('"NaN"' if math.isnan(item) else f'"{"-" * (item < 0)}Infinity"')
        else:
            parts.append(json.dumps(item))
    return "".join(parts)


def format_metadata(metadata: Any, nbytes: int) -> str:
    """Format metadata of `nbytes` bytes: with pprint unless they are large or deeply nested."""
    if nbytes <= _MAX_PRETTY_NBYTES:
        try:
            return pprint.pformat(metadata, width=90)
        except RecursionError:
            pass
    return encode_json(metadata)


def printable(text: str) -> str:
    """Escape every character that is not printable, such as controls and newlines."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def pretty_size(nbytes: int) -> str:
    """Return a size like ``1.5K``, as bloscpack 0.16 prints it."""
    for suffix, factor in reversed(SUFFIXES.items()):
        if nbytes >= factor:
            return f"{round(nbytes / factor, 2)}{suffix}"
    return "0B"


def double_pretty_size(nbytes: int) -> str:
    """Return a size like ``1.5K (1536B)``."""
    return f"{pretty_size(nbytes)} ({nbytes}B)"


def _stdout() -> TextIO:
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")
    return sys.stdout


def _lines(text: str) -> Iterable[str]:
    return (line for line in text.split("\n") if line)


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
