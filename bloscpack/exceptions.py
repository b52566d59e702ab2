"""Exceptions and warnings that bloscpack raises on purpose.

``BloscpackError`` is their base. The second half are the names of bloscpack 0.16, with the bases
they had there, so that code written for 0.16 keeps working: ``except ValueError`` still catches a
foreign file, and ``except RuntimeError`` a damaged one.

Mistakes of the caller raise plain ``TypeError``, ``ValueError`` and ``IndexError``. Storage
failures raise ``OSError``, unwrapped.
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
        The file concerned, set by the layer that opened it; part of ``str(error)``.
    """

    path: str | None = None

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else ""
        return f"{self.path}: {message}" if self.path else message


class BloscpackWarning(UserWarning):
    """Warning of this package: data left out or filled, a stale trailer ignored."""


class FormatError(BloscpackError, ValueError):
    """The bytes break the format.

    Attributes
    ----------
    offset : int or None
        Absolute offset of the fault in the file, in bytes.
    field : str or None
        Name of the faulty field.
    """

    def __init__(
        self, message: str = "", *, offset: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.field = field


class TruncatedError(FormatError):
    """The file has fewer bytes than the format requires."""


class ChecksumError(FormatError):
    """A stored and a computed digest differ.

    Attributes
    ----------
    name : str or None
        Name of the checksum.
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
        Name of the codec.
    code : int or None
        Return code of the codec.
    """

    def __init__(
        self, message: str = "", *, codec: str | None = None, code: int | None = None
    ) -> None:
        super().__init__(message)
        self.codec = codec
        self.code = code


class UnsupportedError(BloscpackError, NotImplementedError):
    """The data are valid, but this release does not support their version, id or feature."""


class WrongKindError(UnsupportedError, ValueError):
    """The file is of a type that this call does not read; the message names the right call.

    Also a ``ValueError``, which bloscpack 0.16 raises for a foreign file.
    """


class NotBloscpackError(FormatError, WrongKindError):
    """The bytes do not start with the Bloscpack magic: a file or folder of another type."""


class IsAFolderError(NotBloscpackError, IsADirectoryError):
    """A file is expected, but the path is a folder; the message names the call that reads it."""


class NotFoundError(BloscpackError, KeyError):
    """The frame, stream, record or item does not exist."""


class LockedError(BloscpackError, OSError):
    """Another writer has the file open; only one may append at a time."""


class FileChangedError(BloscpackError):
    """The file was replaced, appended to or changed since the handle was made."""


class RemoteError(OSError):
    """Every attempt to access an object behind a URL failed or was incomplete.

    A storage failure, so an `OSError` and not a `BloscpackError`: the file itself may be intact.

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
        False if the process ended before it accepted any work: workers cannot be started.
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
    """Object with a ``close`` method."""

    def close(self) -> None:
        """Close the object."""
        ...


@contextmanager
def closed_on_error(opened: Closeable, name: str | None = None) -> Iterator[None]:
    """Close `opened` if the block raises; set the path of our own errors to `name`."""
    try:
        yield
    except BaseException as err:
        if isinstance(err, BloscpackError):
            err.path = err.path or name
        opened.close()
        raise


_PACKAGE = __name__.partition(".")[0]
# Modules whose frames appear between our own: context managers, decorators, threads.
_BETWEEN = frozenset((_PACKAGE, "concurrent", "contextlib", "functools", "threading"))


def notice(text: str, *values: object) -> None:
    """Issue a `BloscpackWarning` that points at the caller's line outside this package.

    Parameters
    ----------
    text : str
        Message template for the ``%`` operator.
    *values
        Values of the template.
    """
    ours = frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        if frame.f_back is None:  # our own thread, without a caller outside
            frame = ours
            break
        frame = frame.f_back
    warnings.warn_explicit(
        BloscpackWarning(text % values),
        None,  # the category of the message
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_unclosed(what: str, name: str, outcome: str, source: object) -> None:
    """Issue a ResourceWarning for an object dropped without `close`; called by its ``__del__``.

    Parameters
    ----------
    what : str
        Kind of the object.
    name : str
        Name of its file.
    outcome : str
        Resulting state of the file.
    source : object
        The object; ``tracemalloc`` shows where it was created.
    """
    message = f"{name}: the {what} was never closed; {outcome}"
    warnings.warn(message, ResourceWarning, stacklevel=3, source=source)
