"""Shared by the modules of this folder: streams for libraries, their errors, names of arrays."""

import errno
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..plugin import (
    BloscpackError,
    ByteSource,
    ChoiceError,
    FormatError,
    NotFoundError,
    listed,
    only,
)

# Units that are divided, or 0. numpy divides by such numbers, and 0 ends the process.
_UNIT = re.compile(r"(?:[mM]8|(?:datetime|timedelta)64)\[(?:[^]]*/|0+\D)")


class SourceStream(io.RawIOBase):
    """Seekable binary stream of a source, for libraries that read file objects."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._position = 0
        self._size = source.size()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, and return it.

        Raises
        ------
        OSError
            It is before the start, as of a file.
        """
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, f"position {base + offset} is before the start")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: object) -> int:
        """Fill a buffer, and return the number of bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        room = max(0, min(len(view), self._size - self._position))
        count = self._source.read_into(self._position, view[:room]) if room else 0
        self._position += count
        return count


class TargetFile(io.FileIO):
    """New file for HDF5, which crashes if it cannot write what it has left when it closes.

    After an error nothing more is written: `check` raises it, and the file is of no use.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, "x+b")
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of `data`, unless an error occurred before."""
        view = memoryview(data).cast("B")
        rest = view
        try:
            while rest and self._error is None:
                rest = rest[super().write(rest) :]
        except OSError as err:
            self._error = err
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Change the size of the file, unless an error occurred before."""
        try:
            return self.tell() if self._error else super().truncate(size)
        except OSError as err:
            self._error = err
            return self.tell()

    def check(self) -> None:
        """Raise the first error that occurred."""
        if self._error is not None:
            raise self._error


@contextmanager
def target_file(path: str) -> Iterator[TargetFile]:
    """Yield a new file for HDF5, and raise the first error that occurred while it was written."""
    with TargetFile(path) as stream:
        yield stream
        stream.check()


@contextmanager
def errors_of(
    what: str, name: str | None, kind: type[BloscpackError] = FormatError
) -> Iterator[None]:
    """Raise our own error `kind` for any error of a library about a file.

    Errors of the system, such as a full disk, of memory, and our own pass unchanged.
    """
    try:
        yield
    except (BloscpackError, ChoiceError, ImportError, MemoryError):
        raise
    except Exception as err:
        if isinstance(err, OSError) and err.errno is not None:
            raise
        text = " ".join(str(err).split())[:300] or type(err).__name__
        raise kind(f"{what}: {text}").at(path=name, whole="") from err


def refuse_units(dtype: str) -> None:
    """Raise ValueError if the text of a dtype has times that numpy must not see."""
    if _UNIT.search(dtype):
        raise ValueError(f"times with a divided unit, or none: {dtype:.80}")


def bytes_behind(source: ByteSource, end: int) -> list[str]:
    """Return a short text if a file has bytes behind its end."""
    rest = source.size() - end
    return [f"{rest} bytes behind the end of the file"] * (rest > 0)


def chosen(inner: str, names: Iterable[str], what: str, name: str | None) -> str:
    """Return the one array of a file that was named, or the only one.

    Parameters
    ----------
    inner : str
        Name behind ``::/``; empty if none was given.
    names : iterable of str
        Names of all arrays in the file.
    what, name : str
        The file, for messages, and its path.

    Raises
    ------
    NotFoundError
        The file does not have this array.
    ChoiceError
        `inner` is empty, and the file does not have exactly one array.
    """
    found = tuple(names)
    if inner and inner not in found:
        raise NotFoundError(
            f"no array {inner!r:.80} in {what}: it has {listed(found) or 'none'}"
        ).at(path=name)
    return inner or only(found, what, name)
