"""Exceptions and warnings that bloscpack raises on purpose.

``BloscpackError`` is their base. The second half are the names of bloscpack 0.16, with the bases
they had there, so that code written for 0.16 keeps working: ``except ValueError`` still catches a
foreign file, and ``except RuntimeError`` a damaged one.

Mistakes of the caller raise plain ``TypeError``, ``ValueError`` and ``IndexError``. Storage
failures raise ``OSError``, unwrapped.
"""

import os
from typing import Any, Self


class _Placed(BaseException):
    """Error whose message starts with its path and the place inside that file."""

    path: str | None = None
    _is_damage = False  # whether `verify` and `recover` may help
    _whole = ""  # what they take then

    def __str__(self) -> str:
        _, (message, *_) = self._split_args()
        return f"{self.path}: {message}" if self.path else str(message)

    def at(
        self,
        where: str = "",
        path: str | os.PathLike[str] | None = None,
        whole: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Add a place to the message, and return the error itself.

        A handler that adds a place ends in a bare ``raise``, which keeps cause and traceback. With
        the path, an error about damage gets a note that names the calls to make next.

        Parameters
        ----------
        where : str, optional
            Place inside the file or inside the place that the caller will add, such as
            ``"chunk 3 at offset 512"``. Not repeated if the message already starts with it.
        path : path-like, optional
            Path of the file. The first one stays: the innermost caller opened the file.
        whole : path-like, optional
            File or folder that `bloscpack.verify` takes, for the note; by default `path`. Empty if
            there is none, as for files that only `convert` or an ingest reads.
        """
        before, (message, *after) = self._split_args()
        if where and not str(message).startswith(f"{where}: "):
            self.args = (*before, f"{where}: {message}", *after)
        if path is not None and not self.path:
            self.path = os.fsdecode(path)
            if self._is_damage:
                self._whole = name = self.path if whole is None else os.fsdecode(whole)
                if name:
                    self.add_note(
                        f"bloscpack.verify({name!r}, decode=True) lists all damage; "
                        f"bloscpack.recover({name!r}, 'OUT') saves what is whole."
                    )
        return self

    def _split_args(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arguments before the message, which is an errno, and those from it on."""
        start = 1 if getattr(self, "errno", None) is not None else 0
        return self.args[:start], self.args[start:] or ("",)


class BloscpackError(_Placed, Exception):
    """Base of all errors of this package.

    Attributes
    ----------
    path : str or None
        The file concerned, set by the layer that opened it; part of ``str(error)``.
    """


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

    _is_damage = True

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

    _is_damage = True

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

    # Command in messages; its names are replaced when the path is known.
    _COMMAND = "blpk convert IN OUT.blp"

    def at(
        self,
        where: str = "",
        path: str | os.PathLike[str] | None = None,
        whole: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Add a place to the message, and the path to the command that it names."""
        super().at(where, path, whole)
        before, (message, *after) = self._split_args()
        if self.path and self._COMMAND in str(message):
            name = self.path.rstrip("/")
            folder, slash, last = name.rpartition("/")
            stem = last.rpartition(".")[0] or last
            # A copy of what is behind a URL is made here.
            target = f"{'' if '://' in folder else folder + slash}{stem}.blp"
            words = (
                f'"{each}"' if set(each) & set(" '&;*?$()") else each for each in (name, target)
            )
            self.args = (
                *before,
                str(message).replace(self._COMMAND, f"blpk convert {' '.join(words)}"),
                *after,
            )
        return self


class NotBloscpackError(FormatError, WrongKindError):
    """The bytes do not start with the Bloscpack magic: a file or folder of another type."""

    _is_damage = False


class IsAFolderError(NotBloscpackError, IsADirectoryError):
    """A file is expected, but the path is a folder; the message names the call that reads it."""

    def __new__(cls, *args: object) -> Self:
        """Create it as an `OSError`: `NotImplementedError.__new__` would refuse the layout."""
        return IsADirectoryError.__new__(cls, *args)


class NotFoundError(BloscpackError, KeyError):
    """The frame, stream, record or item does not exist."""


class LockedError(BloscpackError, OSError):
    """Another writer has the file open; only one may append at a time."""


class FileChangedError(BloscpackError):
    """The file was replaced, appended to or changed since the handle was made."""


class RemoteError(_Placed, OSError):
    """Every attempt to access an object behind a URL failed or was incomplete.

    A storage failure, so an `OSError` and not a `BloscpackError`: the file itself may be intact.

    Attributes
    ----------
    path : str or None
        The URL, without password and query; part of ``str(error)``. ``__cause__`` is the last
        error of the library that made the request.
    """


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


class ObjectNumpyArrayRejection(BloscpackError, RuntimeError, TypeError):  # noqa: N818
    """Arrays of Python objects are neither written nor read."""
