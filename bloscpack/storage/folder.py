"""A folder of files, local or behind a URL: what is in it, and what reads it."""

import os
from collections.abc import Mapping
from typing import Any

from .file import FileSource
from .protocol import ByteSource
from .remote import RemotePlace, RemoteSource
from .url import is_url, shown


class Folder:
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
            from . import transport  # fsspec, asyncio and the clients take long to load

            self.where = os.fspath(where).rstrip("/")
            self.name = shown(self.where)
            self._entries = transport.list_folder(self.where, self._options)
            self.names = list(self._entries)
            return
        if storage_options:
            raise ValueError(f"storage_options are for URLs, not for {where!r}")
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
