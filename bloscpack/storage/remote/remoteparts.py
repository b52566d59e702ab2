"""Parts of a file behind a URL that several processes write, and their joining into one object.

Parts are objects in a hidden folder beside the file; on S3, keys that begin with the folder's name.
S3 joins them itself, by server-side copies. From other stores, the parts are fetched and written
again as one object. Requests, errors and retries are those of all remote objects.
"""

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_hexdigest

from ...exceptions import UnsupportedError
from ...notice import notice
from ...parallel.imports import importing
from ...types import BytesLike
from ..coalescing import REMOTE
from ..partfolder import GONE, SUFFIX, checked_id
from ..protocol import ByteSink, JoinSink
from ..url import options_of, shown
from .source import RemotePlace, RemoteSource
from .upload import check_absent, check_writable, is_s3_url, open_upload

if TYPE_CHECKING:
    from .partobjects import PartObjects


class RemoteParts:
    """Folder behind a URL for the parts of one job, in which they are also joined.

    Pickled as URL, options and id, as that of `PartFolder`. Creating and pickling this object make
    no request. `name` is the URL, for messages.

    Raises
    ------
    UnsupportedError
        URLs of this scheme cannot be written to, or not in parts.
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
        if "::" in url or parent.endswith(":/"):
            why = "is a chain of file systems" if "::" in url else "names no object in a folder"
            raise UnsupportedError(f"it {why}, so parts cannot be stored beside it").at(
                path=self.name
            )
        self._url = url
        self._options = options_of(options)
        self._overwrite = overwrite
        self._parent = parent
        self._prefix = f".bloscpack-{xxh3_64_hexdigest(name.encode())}-"
        # Size and version of opened parts, compared when they are joined.
        self._seen: dict[str, tuple[int, str]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._url, self.id, self._options, self._overwrite)

    @property
    def _folder(self) -> str:
        return f"{self._prefix}{self.id}{SUFFIX}"

    def _part_url(self, key: str) -> str:
        return f"{self._parent}/{self._folder}/{key}"

    def begin(self) -> None:
        """Create the folder for parts; it may exist already. One or two requests.

        Raises
        ------
        FileExistsError
            The object exists and may not be replaced.
        FileNotFoundError, PermissionError, RemoteError
            The place cannot be written to.
        """
        self._check_target()
        self._objects().begin(self._folder)

    def create_part(self, key: str) -> ByteSink:
        """Return a sink for a new part, which is used only if its key is recorded.

        Raises
        ------
        FileNotFoundError
            The job has ended. Committing the sink may also raise this; no part is left then.
        """
        self.check_begun()
        return _PartSink(self, self._part_url(key), self._options)

    def check_begun(self) -> None:
        """Check that the folder for parts exists; one request.

        Raises
        ------
        FileNotFoundError
            The job has ended.
        """
        with importing:  # loaded on use: fsspec, asyncio and the clients take long to load
            from .partobjects import begun_url, stat

        try:
            stat(begun_url(self._part_url("")[:-1]), self._options)
        except FileNotFoundError as err:
            raise FileNotFoundError(errno.ENOENT, GONE, self.name) from err

    def open_part(self, key: str) -> RemoteSource:
        """Open a part for reading; one request, for its size.

        Raises
        ------
        FileNotFoundError
            It does not exist.
        """
        with importing:  # see `check_begun`
            from .partobjects import stat

        found = stat(self._part_url(key), self._options)
        self._seen[key] = found.size, found.tag
        return self.reopen_part(key)

    def reopen_part(self, key: str) -> RemoteSource:
        """Open a part for reading; no request if it was opened before."""
        if key not in self._seen:
            return self.open_part(key)
        url = self._part_url(key)
        place = RemotePlace(url, self._options, *self._seen[key], b"")
        return RemoteSource(url, self._options, version=place, fetches_head=False)

    def open_target(self) -> RemoteSource:
        """Open the object that now has the final name; FileNotFoundError if it does not exist."""
        return RemoteSource(self._url, self._options)

    def target_tag(self) -> str:
        """Return a string that identifies the object that now has the final name; "" if none has.

        Objects of equal content differ in their time of creation, which stores report with a
        resolution of a second or better.
        """
        with importing:  # see `check_begun`
            from .partobjects import stat

        try:
            return " ".join(map(str, stat(self._url, self._options)))
        except FileNotFoundError:
            return ""

    def join(self) -> JoinSink:
        """Return a sink for the final file, which also takes parts; raises as `begin` does.

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

            folder = self._part_url("")[:-1]
            return JoinedUpload(
                self._url, self._options, folder, self._seen, overwrite=self._overwrite
            )
        return _FetchedParts(self, open_upload(self._url, self._options, overwrite=self._overwrite))

    def _check_target(self) -> None:
        check_absent(self._url, self._options, overwrite=self._overwrite)

    def discard(self, *, others: bool = False) -> None:
        """Remove all parts, if any, and the remains of an interrupted `join`.

        With `others`, also remove those of other jobs for the same file.

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


def _unpickle(url: str, id_: str, options: dict[str, Any], overwrite: bool) -> RemoteParts:
    return RemoteParts(url, id_, options, overwrite=overwrite)


class _PartSink:
    """Sink for a part, which is discarded if the job ends before the commit."""

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
        except FileNotFoundError as err:  # `discard` has aborted the upload
            raise FileNotFoundError(errno.ENOENT, GONE, self.name) from err

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes at the beginning of the part."""
        self._sink.write_at(offset, data)

    def commit(self) -> None:
        """Create the part."""
        self._may_be_there = True
        try:
            self._sink.commit()
        except FileNotFoundError as err:
            raise FileNotFoundError(errno.ENOENT, GONE, self.name) from err
        self._store.check_begun()

    def abort(self) -> None:
        """Discard the part."""
        self._sink.abort()
        if self._may_be_there:
            with importing:  # see `RemoteParts.check_begun`
                from .partobjects import remove

            try:
                remove(self._url, self._options)
            except OSError as err:  # the error that led to the abort is the one to raise
                notice("a part without a record may remain until the job is aborted: %s", err)


class _FetchedParts:
    """Sink for the final file on a store without server-side copies; fetches the parts."""

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
            It was removed or replaced, or cannot be fetched.
        """
        source = self._store.reopen_part(key)
        try:
            if source.size() < nbytes:
                raise OSError(
                    errno.EIO, f"a part has {source.size()} bytes, expected {nbytes}", self.name
                )
            step = REMOTE.max_nbytes
            for start in range(0, nbytes, step):
                self._sink.write(source.read_at(start, min(step, nbytes - start)))
        finally:
            source.close()
