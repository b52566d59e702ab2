"""Identification of a file: it is opened once, and everything else reads from the open source."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ..exceptions import WrongKindError
from ..format.archiveindex import INDEX_MAGIC, INDEX_TAIL_SIZE
from ..format.filekind import (
    ARCHIVE,
    ARRAY,
    BLOSCPACK_MAGIC,
    COMMIT_COPIES_AT,
    COMMIT_MAGIC,
    COMMITS_AT,
    FRAME_STORE,
    HEAD_NBYTES,
    STORE_TAIL_MAGIC,
    STORE_TAIL_NBYTES,
    FileKind,
    kind_of,
    not_a_file,
    wrong_kind,
)
from ..format.trailer import TRAILER_MAGIC
from ..storage.file import Place, open_source
from ..storage.folder.filelist import ListedFolder
from ..storage.protocol import ByteSource, closed_on_error
from ..storage.url import is_url
from ..types import BytesLike
from .table import ARRAYS, FILETYPES, FileType


def identify(
    where: Any, storage_options: Mapping[str, Any] | None = None
) -> tuple[FileType | None, ByteSource | ListedFolder]:
    """Open a file or folder and find its type.

    Parameters
    ----------
    where : path, URL, bytes-like, binary file or ByteSource
        The file. ``path::/name`` is an array of an archive.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL.

    Returns
    -------
    filetype : FileType or None
        Its row of the table; None if it is not of any type in the table.
    source : ByteSource or ListedFolder
        The open file, which the caller closes.

    Raises
    ------
    OSError
        It cannot be opened or read.

    Notes
    -----
    Reads the first 4 KiB; also the last bytes, if the first ones are not conclusive.
    """
    place = Place.of(where)
    source = _open_either(place.path, storage_options)
    if isinstance(source, ListedFolder):
        return next((each for each in FILETYPES if each.is_folder), None), source
    with closed_on_error(source, source.name):
        filetype = _type_of(source)
        return open_member(filetype, source, place.inner) if place.inner else (filetype, source)


def identify_known(place: Any) -> tuple[FileType, Any]:
    """Open a file or folder of a type in the table.

    Raises
    ------
    WrongKindError
        It is of another type; the message names the function that reads it.
    """
    filetype, source = identify(place)
    with closed_on_error(source, source.name):
        refuse_other_folder(filetype, source)
        if filetype is None:
            head = source.read_at(0, HEAD_NBYTES)  # type: ignore[union-attr]
            raise wrong_kind(head, "a Bloscpack file", source.name)
    return filetype, source


def open_member(
    filetype: FileType | None, source: ByteSource, inner: str
) -> tuple[FileType | None, ByteSource]:
    """Return the type and the source of an array of an archive, which owns the archive's source."""
    with closed_on_error(source, source.name):
        if filetype is None or filetype.open_member is None:
            raise no_archive(filetype and filetype.kind, inner)
        member = filetype.open_member(source, inner)
        return _type_of(member), member


def no_archive(kind: FileKind | None, inner: str) -> WrongKindError:
    """Return the error for the name of an array in a file that is not an archive."""
    name = "of an unknown type" if kind is None else kind.name
    return WrongKindError(f"{name}, not an archive, so it has no array {inner!r:.80}")


def refuse_unread_folder(filetype: FileType | None, source: ByteSource | ListedFolder) -> None:
    """Raise IsAFolderError for a folder that no type of the table reads."""
    if filetype is None and isinstance(source, ListedFolder):
        raise not_a_file(source.names).at(path=source.name)


def refuse_other_folder(filetype: FileType | None, source: ByteSource | ListedFolder) -> None:
    """Raise IsAFolderError for a folder without any file of its type."""
    refuse_unread_folder(filetype, source)
    if filetype and isinstance(source, ListedFolder) and not filetype.has_part(source.names):
        raise not_a_file(source.names).at(path=source.name)


def _open_either(
    where: Any, storage_options: Mapping[str, Any] | None
) -> ByteSource | ListedFolder:
    """Open a file or a folder; a URL without an object is opened as a folder."""
    if isinstance(where, ListedFolder):
        return where
    if not is_url(where):
        is_folder = isinstance(where, str | os.PathLike) and os.path.isdir(where)
        return (ListedFolder if is_folder else open_source)(where, storage_options)
    if where.endswith("/"):
        return ListedFolder(where, storage_options)
    try:
        return open_source(where, storage_options)
    except (FileNotFoundError, IsADirectoryError) as err:
        try:
            return ListedFolder(where, storage_options)
        except FileNotFoundError as missing:
            raise (missing if where.startswith("http") else err) from None


def _type_of(source: ByteSource) -> FileType | None:
    if source.node is not None:
        return ARRAYS
    head = source.read_at(0, HEAD_NBYTES)
    if not len(head):
        return None
    kind = kind_of(head, source.name)
    # A frame store with a damaged header may look like an array, or like any other file.
    found = None if kind is ARRAY else _find({kind}, source, head)
    return found or _find({kind, *_kinds_of_rest(source, bytes(head))}, source, head)


def _find(kinds: set[FileKind | None], source: ByteSource, head: BytesLike) -> FileType | None:
    for filetype in FILETYPES:
        if kinds.intersection(filetype.kinds) and (
            filetype.matches is None or filetype.matches(source, head)
        ):
            return filetype
    return None


def _kinds_of_rest(source: ByteSource, head: bytes) -> Iterator[FileKind]:
    """Yield kinds that a file may be of by its last bytes, or because it is short."""
    if BLOSCPACK_MAGIC.startswith(head):
        yield ARRAY
    if not head.startswith(BLOSCPACK_MAGIC):  # the first block of a log may be lost
        head += bytes(source.read_at(len(head), COMMIT_COPIES_AT[-1]))
    if any(head.startswith(COMMIT_MAGIC, at) for at in (*COMMITS_AT, *COMMIT_COPIES_AT)):
        yield ARCHIVE
    tail = source.read_at(max(0, source.size() - STORE_TAIL_NBYTES), STORE_TAIL_NBYTES)
    if bytes(tail[: len(STORE_TAIL_MAGIC)]) == STORE_TAIL_MAGIC:
        yield FRAME_STORE
    elif bytes(tail[-INDEX_TAIL_SIZE:]).startswith(INDEX_MAGIC):
        yield ARCHIVE
    elif TRAILER_MAGIC in bytes(tail):
        yield ARRAY
