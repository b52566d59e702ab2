"""Uploads to URLs: an object appears as a whole when it is finished, or not at all.

A file that is written front to back is sent to S3 in parts while it is written. Any other file, and
every file for another store, is a local temporary file first.
"""

import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import finalize

from ...exceptions import UnsupportedError
from ...parallel.imports import importing
from .. import disk
from ..file import Place
from ..newfile import NewFile
from ..protocol import ByteSink
from ..url import options_of, shown

if TYPE_CHECKING:
    from .s3upload import MultipartUpload

_BLOCK_NBYTES = 8 << 20


def open_upload(
    url: str,
    storage_options: Mapping[str, Any] | None = None,
    *,
    front_nbytes: int = 0,
    overwrite: bool = True,
) -> ByteSink:
    """Open a sink for an object.

    Parameters
    ----------
    url : str
        URL of the object.
    storage_options : mapping, optional
        Options of the file system of fsspec.
    front_nbytes : int
        Bytes at the beginning that `write_at` may replace; at least 8 MiB.
    overwrite : bool
        Without it, the commit refuses to replace an object.

    Raises
    ------
    UnsupportedError
        URLs of this scheme cannot be written to.
    ImportError
        A library for this URL scheme is missing.
    """
    check_writable(url)
    if is_s3_url(url):
        return _part_sink(url, options_of(storage_options), front_nbytes, overwrite=overwrite)
    return _FileSink(Upload(url, storage_options, overwrite=overwrite))


def check_writable(url: str) -> None:
    """Raise UnsupportedError if the URL cannot be written to."""
    parent, _, name = url.rpartition("/")
    if Place.of(url).inner:  # fsspec would replace the whole object
        raise UnsupportedError(
            "it names an array of an archive, which behind a URL is replaced as a whole or not at "
            "all: write another object, or all arrays with savez"
        ).at(path=shown(url))
    if "::" not in url and (not name or (is_s3_url(url) and parent.endswith(":/"))):
        raise UnsupportedError("it names no object in a folder: add its name").at(path=shown(url))
    if is_s3_url(url) and "?versionId=" in url:
        raise UnsupportedError(
            "a version of an object cannot be replaced: leave ?versionId= out of the URL to write "
            "a new version"
        ).at(path=shown(url))
    if url.startswith(("http://", "https://")):
        raise UnsupportedError(
            "nothing can be written to a web server: write a file and copy it to the folder that "
            "the server serves, or write to its object store through another URL"
        ).at(path=shown(url))


def check_absent(url: str, storage_options: Mapping[str, Any] | None, *, overwrite: bool) -> None:
    """Refuse to replace an object unless `overwrite` is true; one request.

    Raises
    ------
    FileExistsError
        The object exists.
    """
    if overwrite:
        return
    with importing:  # loaded on use: fsspec, asyncio and the clients take long to load
        from .retry import exists

    if exists(url, options_of(storage_options)):
        raise disk.exists_already(shown(url))


def is_s3_url(url: str) -> bool:
    """Return whether a URL names an object in S3 or in a store with the same API."""
    return url.startswith(("s3://", "s3a://"))


class Upload:
    """Local file, at `path` in a folder of its own, that is uploaded on commit.

    The folder of temporary files (``TMPDIR``) must have room for the whole file.
    """

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        overwrite: bool = True,
    ) -> None:
        check_writable(url)
        self._overwrite = overwrite
        self.name = shown(url)
        self._url = url
        self._options = options_of(storage_options)
        folder = disk.make_temporary_folder(prefix="bloscpack-")
        self.path = os.path.join(folder, "content")
        self._discard = finalize(self, _remove, folder, os.getpid())

    def check_absent(self) -> None:
        """Refuse to replace an object unless `overwrite` is true; see `check_absent`."""
        check_absent(self._url, self._options, overwrite=self._overwrite)

    def commit(self) -> None:
        """Upload the file and remove it, also after an error; raises as `check_absent` does."""
        try:
            self.check_absent()  # it may have been made since
            if is_s3_url(self._url):
                self._send_parts()
            else:
                with importing:  # see `check_absent`
                    from .retry import put_file

                put_file(self._url, self._options, self.path)
        finally:
            self.discard()

    def _send_parts(self) -> None:
        sink = _part_sink(self._url, self._options, 0, overwrite=self._overwrite)
        try:
            with open(self.path, "rb") as stream:
                for block in iter(lambda: stream.read(_BLOCK_NBYTES), b""):
                    sink.write(block)
            sink.commit()
        except BaseException:
            sink.abort()
            raise

    def discard(self) -> None:
        """Remove the file; idempotent."""
        self._discard()


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # a forked child runs finalizers too, and must not remove the file
        shutil.rmtree(folder, ignore_errors=True)


def _part_sink(
    url: str, options: dict[str, Any], front_nbytes: int, *, overwrite: bool
) -> "MultipartUpload":
    """Return a sink for an object in S3, sent in parts."""
    with importing:  # see `check_absent`
        from .s3upload import MultipartUpload

    return MultipartUpload(url, options, front_nbytes, overwrite=overwrite)


class _FileSink(NewFile):
    """Sink for an object in another store, written to a local file until the commit."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        super().__init__(upload.path, upload.path, upload.path)

    def commit(self) -> None:
        """Make the object appear."""
        super().commit()
        self._upload.commit()

    def abort(self) -> None:
        """Discard everything that was written."""
        self._close()
        self._upload.discard()
