"""Outputs of a command: a file, or ``-`` for standard output."""

import errno
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ...exceptions import FileNotFound
from ...storage import disk
from ...storage.file import Place
from ...storage.protocol import ByteSink
from ...storage.sink import open_sink
from ...storage.url import refuse_url_as_target, shown_name
from ...types import BytesLike
from .options import STDIO
from .output import Console, binary_stdout
from .status import UsageError

# Keys of an entry of a log: of 'frames create', and of 'gulp ingest'.
_ENTRIES = ({"id", "source", "text", "skipped"}, {"id", "reason"})
_MAX_ENTRY_NBYTES = 1 << 20


@contextmanager
def open_output(
    name: str, *, is_ordered: bool = False, like: str | None = None
) -> Iterator[ByteSink]:
    """Open a sink for a path or ``-`` that is committed at the end of the block.

    A new file has the times and permissions of the input `like`, if that is a file.

    If `is_ordered`, the output is produced in order: on standard output it appears at once, not at
    the end.
    """
    if name == STDIO and is_ordered:
        sink = PassSink(binary_stdout())
        yield sink
        sink.commit()
    else:
        like = None if like == STDIO else like
        with open_sink(binary_stdout() if name == STDIO else name, like=like) as committed:
            yield committed


@contextmanager
def json_log(name: str | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Open a log of JSON lines for a long command: yield the function that adds one.

    The log of an interrupted command is whole. Without a name, there is none. It replaces an
    earlier log, and FileExistsError for any other file.
    """
    if name is None:
        yield lambda fields: None
        return
    _check_log(name)
    with open(name, "w", encoding="ascii") as file:

        def add(fields: Mapping[str, Any]) -> None:
            with disk.naming(name):
                file.write(json.dumps(fields) + "\n")
                file.flush()

        yield add


def _check_log(name: str) -> None:
    if name == STDIO:
        raise UsageError("--log must be the name of a file, not '-'")
    if not regular_nbytes(name, is_output=True):
        return
    with open(name, "rb") as file:
        line = file.readline(_MAX_ENTRY_NBYTES)
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict) or set(entry) not in _ENTRIES:
        raise FileExistsError(
            f"'{shown_name(name)}' exists and is not a log of skipped items: name another file"
        )


class PassSink:
    """Sink that writes directly to a stream, for output that is produced in order and verified."""

    name: str | None = None

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, data: BytesLike) -> None:
        """Write `data`."""
        with disk.naming("standard output"):
            self._stream.write(data)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Raise OSError: a stream has no positions."""
        raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))

    def commit(self) -> None:
        """Flush the stream."""
        with disk.naming("standard output"):
            self._stream.flush()

    def abort(self) -> None:
        """Do nothing."""


def check_output(name: str, inputs: Sequence[Place], console: Console, *, force: bool) -> None:
    """Check that an output may be written.

    ValueError if it is one of the inputs, UnsupportedError for a URL. Without `force`, FileNotFound
    if it exists (bloscpack 0.16 has this exception) or is a terminal.
    """
    refuse_url_as_target(name, "the output of a command")
    for each in inputs:
        if is_same_file(each, name):
            raise ValueError(f"input and output are the same file: '{shown_name(name)}'")
    if name == STDIO:
        if sys.stdout is not None and sys.stdout.isatty() and not force:
            raise FileNotFound("standard output is a terminal; use -f to write binary data to it")
        return
    status = _status(name, is_output=True)
    if status is None:
        folder = Path(name).parent
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder", os.fspath(folder))
    elif stat.S_ISREG(status.st_mode) or stat.S_ISBLK(status.st_mode):
        # Writing to a pipe or a device like /dev/null destroys nothing: no --force is needed.
        if not force:
            raise FileNotFound(f"output file '{shown_name(name)}' exists!")
        console.verbose(f"overwriting existing file: '{shown_name(name)}'")


def is_same_file(source: Place, target: str) -> bool:
    """Return whether an input and an output are one regular file."""
    one = _status(source.path, is_output=False)
    two = _status(target, is_output=True)
    if one is None or two is None or not stat.S_ISREG(two.st_mode):
        return False
    return os.path.samestat(one, two)


def regular_nbytes(name: str, *, is_output: bool = False) -> int | None:
    """Return the size of a regular file in bytes, or None for anything else."""
    status = _status(name, is_output=is_output)
    return status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None


def _status(name: str, *, is_output: bool) -> os.stat_result | None:
    stream = sys.stdout if is_output else sys.stdin
    try:
        return os.fstat(stream.fileno()) if name == STDIO else Path(name).stat()
    except (OSError, ValueError, AttributeError):
        # The file is missing, or the stream is closed, None or without a descriptor.
        return None
