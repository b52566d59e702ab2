"""Parts of a file behind a URL that several processes write, and the one object they become.

Parts are objects in a hidden folder beside the file: on S3, keys that begin with its name. There S3
itself puts them together, by copies on its side; from other stores they are fetched, and written
again as one. Requests, their errors and repetitions are those of all remote objects.
"""

import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_hexdigest

from ...exceptions import UnsupportedError, notice
from ...parallel.imports import importing
from ...types import BytesLike
from ..partfolder import GONE, SUFFIX, checked_id
from ..protocol import ByteSink, JoinSink
from ..url import shown
from .source import MAX_RUN_NBYTES, RemotePlace, RemoteSource
from .upload import check_writable, exists, is_s3_url, open_upload

if TYPE_CHECKING:
    from .partobjects import PartObjects


class RemoteParts:
    """Where the parts of one job wait behind a URL, and where they are joined.

    Pickles as URL, options and id. Making one, or pickling, asks for nothing.

    Parameters
    ----------
    url : str
        The file to be.
    id_ : str
        Tells the jobs for one file apart; letters, digits, "_" and "-".
    options : mapping, optional
        For the file system of fsspec.
    overwrite : bool
        Whether an object that is there may be replaced.

    Attributes
    ----------
    name : str
        The URL, for messages.

    Raises
    ------
    UnsupportedError
        Nothing can be written to such URLs, or nothing in parts.
    """

    def __init__(
        self,
        url: str,
        id_: str,
        options: Mapping[str, Any] | None = None,
        *,
        overwrite: bool,
    ) -> None:
        self.id = checked_id(id_)
        self.name = shown(url)
        check_writable(url)
        parent, _, name = url.rpartition("/")
        if "::" in url or not name or parent.endswith(":/"):
            why = "is a chain of file systems" if "::" in url else "names no object in a folder"
            error = UnsupportedError(f"it {why}, and has no place for parts")
            error.path = self.name
            raise error
        self._url = url
        self._options = dict(options or {})
        self._overwrite = overwrite
        self._parent = parent
        self._prefix = f".bloscpack-{xxh3_64_hexdigest(name.encode())}-"
        # Size and version of parts that were opened: joining them compares.
        self._seen: dict[str, tuple[int, str]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._url, self.id, self._options, self._overwrite)

    @property
    def _folder(self) -> str:
        return f"{self._prefix}{self.id}{SUFFIX}"

    def _part_url(self, key: str) -> str:
        return f"{self._parent}/{self._folder}/{key}"

    def begin(self) -> None:
        """Make the place for parts; it may be there already. One request, or two.

        Raises
        ------
        FileExistsError
            There is an object that must not be replaced.
        FileNotFoundError, PermissionError, RemoteError
            Nothing can be written there.
        """
        self._check_target()
        self._objects().begin(self._folder)

    def create_part(self, key: str) -> ByteSink:
        """Return a sink for a new part; it counts once somebody knows its key.

        Raises
        ------
        FileNotFoundError
            The job has ended; committing the sink may raise it as well, and leaves no part then.
        """
        self.check_begun()
        return _PartSink(self, self._part_url(key), self._options)

    def check_begun(self) -> None:
        """Check that there is a place for parts, by one request.

        Raises
        ------
        FileNotFoundError
            The job has ended.
        """
        with importing:  # on use: fsspec, asyncio and the clients take long to load
            from .partobjects import begun_url, stat

        try:
            stat(begun_url(self._part_url("")[:-1]), self._options)
        except FileNotFoundError as err:
            raise FileNotFoundError(errno.ENOENT, GONE, self.name) from err

    def open_part(self, key: str) -> RemoteSource:
        """Return a part, to be read. One request, for its size.

        Raises
        ------
        FileNotFoundError
            There is none.
        """
        with importing:  # see `check_begun`
            from .partobjects import stat

        found = stat(self._part_url(key), self._options)
        self._seen[key] = found.size, found.tag
        return self.reopen_part(key)

    def reopen_part(self, key: str) -> RemoteSource:
        """Return a part that was opened before, or any; the former by no request."""
        if key not in self._seen:
            return self.open_part(key)
        url = self._part_url(key)
        place = RemotePlace(url, self._options, *self._seen[key], b"")
        return RemoteSource(url, self._options, version=place, fetches_head=False)

    def open_target(self) -> RemoteSource:
        """Return the object that is there under the final name; FileNotFoundError if none is."""
        return RemoteSource(self._url, self._options)

    def target_tag(self) -> str:
        """Return what tells the object that is there under the final name from others.

        Empty if there is none. Objects of the same content differ by when they were made, which
        stores tell in seconds, or finer.
        """
        with importing:  # see `check_begun`
            from .partobjects import stat

        try:
            return " ".join(map(str, stat(self._url, self._options)))
        except FileNotFoundError:
            return ""

    def join(self) -> JoinSink:
        """Return a sink for the whole file, which also takes parts; errors as for `begin`.

        Raises
        ------
        FileNotFoundError
            The job has ended.
        """
        self.check_begun()
        self._check_target()
        if is_s3_url(self._url):
            with importing:  # see `check_begun`
                from .s3join import JoinedUpload

            return JoinedUpload(self._url, self._options, self._part_url("")[:-1], self._seen)
        return _FetchedParts(self, open_upload(self._url, self._options))

    def _check_target(self) -> None:
        if not self._overwrite and exists(self._url, self._options):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.name)

    def discard(self, *, others: bool = False) -> None:
        """Remove all parts, and what an interrupted `join` has left; there may be none.

        With `others`, also those of other jobs for the same file.

        Raises
        ------
        PermissionError, RemoteError
            Some cannot be removed.
        """
        objects = self._objects()
        folders = {self._folder}
        if others:
            found = objects.folders(self._prefix)
            folders.update(name for name in found if name.endswith(SUFFIX))
        for folder in sorted(folders):
            objects.clear(folder)

    def _objects(self) -> "PartObjects":
        with importing:  # see `check_begun`
            from .partobjects import part_objects

        return part_objects(self._url, self._options)


def _made(url: str, id_: str, options: dict[str, Any], overwrite: bool) -> RemoteParts:
    return RemoteParts(url, id_, options, overwrite=overwrite)


class _PartSink:
    """A part that is being made: it is there if the job has not ended meanwhile."""

    def __init__(self, store: RemoteParts, url: str, options: dict[str, Any]) -> None:
        self.name: str | None = store.name
        self._store = store
        self._url = url
        self._options = options
        self._sink = open_upload(url, options)
        self._may_be_there = False

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        try:
            self._sink.write(data)
        except FileNotFoundError as err:  # the upload was ended
            raise FileNotFoundError(errno.ENOENT, GONE, self.name) from err

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes of the front."""
        self._sink.write_at(offset, data)

    def commit(self) -> None:
        """Make the part."""
        self._may_be_there = True
        try:
            self._sink.commit()
        except FileNotFoundError as err:
            raise FileNotFoundError(errno.ENOENT, GONE, self.name) from err
        self._store.check_begun()

    def abort(self) -> None:
        """Leave nothing behind."""
        self._sink.abort()
        if self._may_be_there:
            with importing:  # see `RemoteParts.check_begun`
                from .partobjects import remove

            try:
                remove(self._url, self._options)
            except OSError as err:  # what led here is the error to tell
                notice("a part may stay that no record tells of, until abort: %s", err)


class _FetchedParts:
    """The whole file, written as any other one; parts pass through here."""

    def __init__(self, store: RemoteParts, sink: ByteSink) -> None:
        self.name: str | None = store.name
        self._store = store
        self._sink = sink
        self.write = sink.write
        self.write_at = sink.write_at
        self.commit = sink.commit
        self.abort = sink.abort

    def append_part(self, key: str, nbytes: int) -> None:
        """Append the first `nbytes` of a part.

        Raises
        ------
        FileNotFoundError, FileChangedError, RemoteError
            It is gone, or another one by now, or cannot be fetched.
        """
        source = self._store.reopen_part(key)
        try:
            if source.size() < nbytes:
                raise OSError(
                    errno.EIO, f"a part has {source.size()} bytes, not {nbytes}", self.name
                )
            for start in range(0, nbytes, MAX_RUN_NBYTES):
                self._sink.write(source.read_at(start, min(MAX_RUN_NBYTES, nbytes - start)))
        finally:
            source.close()
