"""Every exception bloscpack raises on purpose, and its warning.

``BloscpackError`` catches all of them. The second half are the names of bloscpack 0.16, with the
bases they had there, so that code written for it keeps working: ``except ValueError`` still tells a
foreign file, ``except RuntimeError`` still catches a damaged one.

Mistakes of the caller are plain ``TypeError``, ``ValueError`` and ``IndexError``; trouble of the
storage is ``OSError``, unwrapped.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class BloscpackError(Exception):
    """Base of all errors of this package.

    Attributes
    ----------
    path : str or None
        The file the error is about, filled in by the layer that knows it; part of ``str(error)``.
    """

    path: str | None = None

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else ""
        return f"{self.path}: {message}" if self.path else message


class BloscpackWarning(UserWarning):
    """Not an error, but to be known: data left out or filled, a stale trailer that is ignored."""


class FormatError(BloscpackError, ValueError):
    """The bytes break the format.

    Attributes
    ----------
    offset : int or None
        Absolute byte position of the fault.
    field : str or None
        Name of the field at fault.
    """

    def __init__(
        self, message: str = "", *, offset: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.field = field


class TruncatedError(FormatError):
    """Fewer bytes are there than the format requires."""


class ChecksumError(FormatError):
    """A stored and a computed digest differ.

    Attributes
    ----------
    name : str or None
        The checksum.
    expected, actual : bytes or None
        The stored and the computed digest.
    index : int or None
        Ordinal of the damaged chunk; None for the metadata and the header.
    """

    def __init__(
        self,
        message: str = "",
        *,
        name: str | None = None,
        expected: bytes | None = None,
        actual: bytes | None = None,
        index: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message, offset=offset)
        self.name = name
        self.expected = expected
        self.actual = actual
        self.index = index


class CodecError(BloscpackError):
    """A codec refused or failed.

    Attributes
    ----------
    codec : str or None
        The codec.
    code : int or None
        What it returned.
    """

    def __init__(
        self, message: str = "", *, codec: str | None = None, code: int | None = None
    ) -> None:
        super().__init__(message)
        self.codec = codec
        self.code = code


class UnsupportedError(BloscpackError, NotImplementedError):
    """Valid, but of a version, with an id or a feature that this release does not have."""


class WrongKindError(UnsupportedError, ValueError):
    """The file is healthy, but of a kind that this call does not read; the message names the call.

    A ``ValueError``, too, as bloscpack 0.16 raises for a foreign file.
    """


class NotBloscpackError(FormatError, WrongKindError):
    """The bytes do not start with the Bloscpack magic: a file or folder of another kind."""


class IsAFolderError(NotBloscpackError, IsADirectoryError):
    """A folder where a file is expected; the message names the call that reads the folder."""


class NotFoundError(BloscpackError, KeyError):
    """No such frame, stream, record or item."""


class LockedError(BloscpackError, OSError):
    """Another writer has the file open; one at a time may append."""


class FileChangedError(BloscpackError):
    """The file is not the one the handle was made for: it was replaced, appended to or changed."""


class RemoteError(OSError):
    """An object behind a URL could not be reached, or not as a whole, each time it was tried.

    Trouble of the storage, so `OSError` and not `BloscpackError`: nothing is wrong with the file.

    Attributes
    ----------
    path : str or None
        The URL, without password and query; part of ``str(error)``. ``__cause__`` is the last
        error of the library that made the request.
    """

    path: str | None = None

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else ""
        return f"{self.path}: {message}" if self.path else message


class WorkerError(BloscpackError, RuntimeError):
    """A worker process ended before its work was done.

    Attributes
    ----------
    started : bool
        False if it ended before it took any work: none can be started.
    """

    def __init__(self, message: str = "", *, started: bool = True) -> None:
        super().__init__(message)
        self.started = started


# Names of bloscpack 0.16 (reference: its exceptions.py), bases kept.


class FormatVersionMismatch(UnsupportedError):  # noqa: N818
    """The format version is unknown (a RuntimeError, through NotImplementedError)."""


class ChecksumMismatch(ChecksumError, RuntimeError):  # noqa: N818
    """The digest of a chunk or of the metadata differs from the stored one."""


class FileNotFound(BloscpackError, OSError):  # noqa: N818
    """An input is missing, or an output exists already."""


class NoSuchChecksum(BloscpackError, ValueError):  # noqa: N818
    """No checksum has this name."""


class NoSuchCodec(BloscpackError, ValueError):  # noqa: N818
    """No codec has this name."""


class NoSuchSerializer(BloscpackError, ValueError):  # noqa: N818
    """No metadata serializer has this name."""


class ChunkingException(BloscpackError, BaseException):  # noqa: N818
    """More than 2^63-1 chunks."""


class ChunkSizeTypeSizeMismatch(BloscpackError, ValueError):  # noqa: N818
    """The chunk size is not a multiple of the item size."""


class ChecksumLengthMismatch(BloscpackError, RuntimeError):  # noqa: N818
    """A new metadata checksum has another digest size than the old one."""


class NoMetadataFound(BloscpackError, RuntimeError):  # noqa: N818
    """The file has no metadata section."""


class NoChangeInMetadata(BloscpackError, RuntimeError):  # noqa: N818
    """The new metadata equals the old."""


class MetadataSectionTooSmall(BloscpackError, RuntimeError):  # noqa: N818
    """The metadata does not fit into the reserved section."""


class NonUniformTypesize(BloscpackError, RuntimeError):  # noqa: N818
    """The typesize of the file is unknown, so that nothing can be appended."""


class NotEnoughSpace(BloscpackError, RuntimeError):  # noqa: N818
    """The offset table has too few spare entries for an append."""


class NotANumpyArray(BloscpackError, RuntimeError):  # noqa: N818
    """The file does not hold a numpy array."""


class ObjectNumpyArrayRejection(BloscpackError, RuntimeError):  # noqa: N818
    """Arrays of Python objects are neither written nor read."""


class Closeable(Protocol):
    """What was opened."""

    def close(self) -> None:
        """Close it."""
        ...


@contextmanager
def closed_on_error(opened: Closeable, name: str | None = None) -> Iterator[None]:
    """Close what was just opened if the block raises; errors of ours learn the name of the file."""
    try:
        yield
    except BaseException as err:
        if isinstance(err, BloscpackError):
            err.path = err.path or name
        opened.close()
        raise


_PACKAGE = __name__.partition(".")[0]
# What stands between our own functions: context managers, decorators, threads.
_BETWEEN = frozenset((_PACKAGE, "concurrent", "contextlib", "functools", "threading"))


def notice(text: str, *values: object) -> None:
    """Warn with a `BloscpackWarning` that points at the line outside of this package.

    Parameters
    ----------
    text : str
        A template for the ``%`` operator.
    *values
        What to put into it.
    """
    ours = frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        if frame.f_back is None:  # a thread of ours: nobody called it
            frame = ours
            break
        frame = frame.f_back
    warnings.warn_explicit(
        BloscpackWarning(text % values),
        None,  # that of the message
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_unclosed(what: str, name: str, outcome: str, source: object) -> None:
    """Warn of an object that was dropped without `close`; for its ``__del__``.

    Parameters
    ----------
    what : str
        What kind of object it was.
    name : str
        Of its file.
    outcome : str
        What became of the file.
    source : object
        The object: ``tracemalloc`` knows where it was made.
    """
    message = f"{name}: the {what} was never closed; {outcome}"
    warnings.warn(message, ResourceWarning, stacklevel=3, source=source)
