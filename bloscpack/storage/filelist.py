"""Folders and patterns of files, local or behind URLs: what is there, and what reads it."""

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..parallel.imports import importing
from .file import FileSource
from .protocol import ByteSource
from .remote.source import RemotePlace, RemoteSource
from .url import is_url, refuse_options, shown


class ListedFolder:
    """A folder that exists.

    Parameters
    ----------
    where : str or PathLike
        Path or URL.
    storage_options : mapping, optional
        For a URL.

    Attributes
    ----------
    name : str
        For messages.
    names : list of str
        The files in it when this was made: one request.
    is_remote : bool
        Whether it is behind a URL.

    Raises
    ------
    OSError
        It is not there, or cannot be read; `FileNotFoundError` too for a URL below which there is
        nothing.
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._options = dict(storage_options or {})
        self.is_remote = is_url(where)
        self._entries: dict[str, tuple[int | None, str]] = {}
        if self.is_remote:
            with importing:  # on use: fsspec, asyncio and the clients take long to load
                from .remote import retry as transport

            self.where = os.fspath(where).rstrip("/")
            self.name = shown(self.where)
            self._entries = transport.list_folder(self.where, self._options)
            self.names = list(self._entries)
            return
        refuse_options(where, storage_options)
        self.name = name = os.fsdecode(where)
        # Whatever becomes of the working directory. Not normalised: behind a link ".." is another.
        self.where = name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
        self.names = os.listdir(where)

    def path(self, name: str) -> str:
        """Return path or URL of a file in the folder."""
        return f"{self.where}/{name}" if self.is_remote else os.path.join(self.where, name)

    def open(self, name: str) -> ByteSource:
        """Return what reads a file in the folder.

        Of a remote one size and version are those that the folder told, if it did: opening is no
        request then.
        """
        path = self.path(name)
        if not self.is_remote:
            return FileSource(path)
        size, tag = self._entries.get(name, (None, ""))
        if size is None or not tag:
            return RemoteSource(path, self._options)
        place = RemotePlace(path, self._options, size, tag, b"")
        return RemoteSource(path, self._options, version=place, fetches_head=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self._options)


def is_pattern(where: Any) -> bool:
    """Return whether `where` is a pattern of paths or URLs; no path of a file that is there is."""
    if not isinstance(where, str | os.PathLike):
        return False
    text = os.fspath(where)
    if not isinstance(text, str) or not glob.has_magic(_path_of(text)):
        return False
    return is_url(text) or not os.path.lexists(text)


def _path_of(text: str) -> str:
    """Return a path, or a URL without its query, which "?" begins."""
    return text.partition("?")[0] if text.startswith(("http://", "https://")) else text


def expanded(
    where: str | os.PathLike[str] | Sequence[Any],
    storage_options: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Return what one or several paths, URLs or patterns name: of a pattern by name, as text.

    Raises
    ------
    FileNotFoundError
        A pattern fits no file.
    TypeError
        `where` is none of these.
    """
    if isinstance(where, str | os.PathLike):
        where = [where]
    elif isinstance(where, bytes | bytearray | memoryview) or not isinstance(where, Sequence):
        raise TypeError(f"a path, a pattern or a list of these is needed, not {where!r:.80}")
    found: list[Any] = []
    for each in where:
        found += _matching(os.fspath(each), storage_options) if is_pattern(each) else [each]
    return found


def _matching(pattern: str, storage_options: Mapping[str, Any] | None) -> list[str]:
    if is_url(pattern):
        with importing:  # see `ListedFolder`
            from .remote import retry as transport

        names = transport.matching(pattern, dict(storage_options or {}))
    else:
        names = [name for name in glob.glob(pattern, recursive=True) if os.path.isfile(name)]
    if not names:
        raise FileNotFoundError(2, "no file fits the pattern", shown(pattern))
    return sorted(names)
