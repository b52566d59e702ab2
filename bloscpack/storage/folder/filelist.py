"""Folders and glob patterns, local or behind URLs: list the files and open them."""

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...parallel.imports import importing
from ..file import FileSource
from ..protocol import ByteSource
from ..remote.source import RemotePlace, RemoteSource
from ..url import in_folder, is_url, options_of, refuse_options, shown


class ListedFolder:
    """Existing folder, by path or URL, with the `names` of its files when this object was created.

    Listing takes one request. `has_latency` is whether each file takes a request.

    Raises
    ------
    OSError
        It does not exist or cannot be read; `FileNotFoundError` also for a URL with no files
        below it.
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options_of(storage_options)
        self.has_latency = is_url(where)
        self._entries: dict[str, tuple[int | None, str]] = {}
        if self.has_latency:
            with importing:  # on use: fsspec, asyncio and the clients take long to load
                from ..remote import retry

            self.where = os.fspath(where).rstrip("/")
            self.name = shown(self.where)
            self._entries = retry.list_folder(self.where, self.options)
            self.names = list(self._entries)
            return
        refuse_options(where, storage_options)
        self.name = name = os.fsdecode(where)
        # Absolute, as the working directory may change. Not normalised: after a link ".." is a
        # different folder.
        self.where = name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
        self.names = os.listdir(where)

    def path(self, name: str) -> str:
        """Return the path or URL of a file in the folder."""
        return in_folder(self.where, name) if self.has_latency else os.path.join(self.where, name)

    def open(self, name: str) -> ByteSource:
        """Return a source for a file in the folder.

        If the listing of a remote folder has the size and version of the file, opening it takes no
        request.
        """
        path = self.path(name)
        if not self.has_latency:
            return FileSource(path)
        size, tag = self._entries.get(name, (None, ""))
        if size is None or not tag:
            return RemoteSource(path, self.options)
        place = RemotePlace(path, self.options, size, tag, b"")
        return RemoteSource(path, self.options, version=place, fetches_head=False)

    def close(self) -> None:
        """Do nothing: a folder is not kept open."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.options)


def is_pattern(where: Any) -> bool:
    """Return whether `where` is a glob pattern; the path of an existing file is not one."""
    if not isinstance(where, str | os.PathLike):
        return False
    text = os.fspath(where)
    if not isinstance(text, str) or not glob.has_magic(_path_of(text)):
        return False
    return is_url(text) or not os.path.lexists(text)


def _path_of(text: str) -> str:
    """Return a path, or a URL without its query, whose "?" is not a wildcard."""
    return text.partition("?")[0] if text.startswith(("http://", "https://")) else text


def expanded(
    where: str | os.PathLike[str] | Sequence[Any],
    storage_options: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Expand one or several paths, URLs or patterns; the matches of a pattern are sorted strings.

    Raises
    ------
    FileNotFoundError
        A pattern matches no file.
    TypeError
        `where` has another type.
    """
    if isinstance(where, str | os.PathLike):
        where = [where]
    elif isinstance(where, bytes | bytearray | memoryview) or not isinstance(where, Sequence):
        raise TypeError(f"expected a path, a pattern or a list of these, not {where!r:.80}")
    found: list[Any] = []
    for each in where:
        found += _matching(os.fspath(each), storage_options) if is_pattern(each) else [each]
    return found


def _matching(pattern: str, storage_options: Mapping[str, Any] | None) -> list[str]:
    if is_url(pattern):
        with importing:  # see `ListedFolder`
            from ..remote import retry

        options = options_of(storage_options)
        # Brackets do not match themselves, as the wildcards do.
        if "[" in pattern and "::" not in pattern and retry.exists(pattern, options):
            return [pattern]
        names = retry.matching(pattern, options)
    else:
        names = [name for name in glob.glob(pattern, recursive=True) if os.path.isfile(name)]
    if not names:
        raise FileNotFoundError(2, "no file matches the pattern", shown(pattern))
    return sorted(names)
