"""Inputs and outputs of a command: a file, a URL, or ``-`` for standard input and output."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, overload

from ...container.reader import Container
from ...exceptions import FileNotFound, WrongKindError
from ...filetypes.identify import identify
from ...filetypes.table import FileType
from ...format.filekind import HEAD_NBYTES, wrong_kind
from ...storage import disk
from ...storage.protocol import ByteSink, ByteSource
from ...storage.sink import open_sink
from ...storage.url import is_url, shown_name
from ...types import BytesLike
from .output import Console, binary_stdout

STDIO = "-"


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


def readable(name: str) -> Any:
    """Return an argument for `open_source`: a path or URL, a seekable stream, or a pipe's bytes."""
    if name == STDIO:
        stream = _stdin()
        return stream if stream.seekable() else stream.read()
    if is_url(name):
        return name
    mode = Path(name).stat().st_mode
    # For a folder, `open_source` raises an error that names the call that reads it.
    return name if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else Path(name).read_bytes()


@overload
def open_input(name: str) -> tuple[FileType, ByteSource]: ...
@overload
def open_input(name: str, *, folders: Literal[True]) -> tuple[FileType, Any]: ...
def open_input(name: str, *, folders: bool = False) -> tuple[FileType, Any]:
    """Open a file of any type that this package reads; with `folders`, also a folder.

    A file with damaged first bytes is recognised by its last ones.

    Raises
    ------
    NotBloscpackError
        The file is empty, or of another type.
    OSError
        The file cannot be read.
    """
    filetype, source = identify(readable(name), folders=folders)
    if filetype is None:
        raise refused(name, source)
    return filetype, source


def open_bloscpack(name: str) -> tuple[FileType, ByteSource]:
    """Open a Bloscpack file; errors as for `open_input`."""
    filetype, source = open_input(name)
    if not filetype.is_bloscpack:
        raise refused(name, source)
    return filetype, source


def open_container(name: str) -> Container:
    """Open the container in a Bloscpack file; errors as for `open_input`."""
    return Container(open_bloscpack(name)[1])


def refused(name: str, source: Any) -> WrongKindError:
    """Close a file that is not a Bloscpack file, and return the error for it."""
    with closing(source):
        error = wrong_kind(source.read_at(0, HEAD_NBYTES), "a Bloscpack file", source.name)
    return error.at(path=shown_name(name))


@contextmanager
def open_stream(name: str) -> Iterator[IO[bytes]]:
    """Open plain content for sequential reading."""
    if name == STDIO:
        yield _stdin()
    else:
        with Path(name).open("rb") as stream:
            yield stream


@contextmanager
def open_output(name: str, *, is_ordered: bool = False) -> Iterator[ByteSink]:
    """Open a sink that is committed at the end of the block.

    Parameters
    ----------
    name : str
        A path or ``-``.
    is_ordered : bool
        The output is produced in order: on standard output it appears at once, not at the end.
    """
    if name == STDIO and is_ordered:
        sink = PassSink(binary_stdout())
        yield sink
        sink.commit()
    else:
        with open_sink(binary_stdout() if name == STDIO else name) as committed:
            yield committed


def check_input(name: str, what: str) -> None:
    """Check that an input exists.

    Raises
    ------
    FileNotFound
        It does not exist.
    """
    if name != STDIO and not is_url(name) and not Path(name).exists():
        raise FileNotFound(f"{what} '{name}' does not exist!")


def check_output(name: str, inputs: list[str], console: Console, *, force: bool) -> None:
    """Check that an output may be written.

    Raises
    ------
    ValueError
        The output is one of the inputs, or a URL.
    FileNotFound
        The output exists (bloscpack 0.16 has this exception) or is a terminal, without `force`.
    OSError
        The folder of the output does not exist.
    """
    if is_url(name):
        raise ValueError(
            f"output '{shown_name(name)}' is a URL: commands write local files; copy the file "
            "there, or write to the URL in Python, with bloscpack.save"
        )
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


def is_same_file(source: str, target: str) -> bool:
    """Return whether an input and an output are one regular file."""
    one, two = _status(source, is_output=False), _status(target, is_output=True)
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


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
    return sys.stdin.buffer
