"""Files that become objects behind URLs: whole, when they are finished, or not at all.

What is written from front to back goes to S3 in parts as it comes. All else, and what goes to other
kinds of URLs, is a local temporary file first.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import finalize

from ...exceptions import UnsupportedError
from ...parallel.imports import importing
from ...types import BytesLike
from .. import disk
from ..protocol import ByteSink
from ..url import shown

_BLOCK_NBYTES = 8 << 20


def open_upload(
    url: str, storage_options: Mapping[str, Any] | None = None, *, front_nbytes: int = 0
) -> ByteSink:
    """Return a sink for an object.

    Parameters
    ----------
    url : str
        Where to.
    storage_options : mapping, optional
        For the file system of fsspec.
    front_nbytes : int
        How much of the beginning may be written again by `write_at`; 8 MiB in any case.

    Raises
    ------
    UnsupportedError
        Nothing can be written to such URLs.
    ImportError
        A library for them is missing.
    """
    check_writable(url)
    if is_s3_url(url):
        return _PartSink(url, dict(storage_options or {}), front_nbytes)
    return _FileSink(url, storage_options)


def check_writable(url: str) -> None:
    """Refuse URLs that nothing can be written to.

    Raises
    ------
    UnsupportedError
        It is such a URL.
    """
    if url.startswith(("http://", "https://")):
        error = UnsupportedError(
            "nothing can be written to a web server: write a file and copy it to where the server "
            "takes it from, or write to its object store by another URL"
        )
        error.path = shown(url)
        raise error


def exists(url: str, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Return whether there is an object at `url`."""
    with importing:  # on use: fsspec, asyncio and the clients take long to load
        from .retry import exists

    return exists(url, dict(storage_options or {}))


def is_s3_url(url: str) -> bool:
    """Return whether a URL is of an object in S3, or in what understands the same requests."""
    return url.startswith(("s3://", "s3a://"))


class Upload:
    """A local file that becomes an object.

    Parameters
    ----------
    url, storage_options
        As for `open_upload`.

    Attributes
    ----------
    name : str
        The URL, for messages.
    path : str
        Where the file is to be made, in a folder of its own.

    Notes
    -----
    Needs as much room where temporary files are (``TMPDIR``) as the file takes.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        check_writable(url)
        self.name = shown(url)
        self._url = url
        self._options = dict(storage_options or {})
        folder = tempfile.mkdtemp(prefix="bloscpack-")
        self.path = os.path.join(folder, "content")
        self._discard = finalize(self, _remove, folder, os.getpid())

    def check_absent(self, overwrite: bool) -> None:
        """Refuse to replace an object, unless that is wanted; one request.

        Raises
        ------
        FileExistsError
            There is one.
        """
        if not overwrite and exists(self._url, self._options):
            raise FileExistsError(f"{self.name!r} exists already: give overwrite=True")

    def commit(self) -> None:
        """Make the file the object; errors as for writing. The file is gone in any case."""
        try:
            if is_s3_url(self._url):
                self._send_parts()
            else:
                with importing:  # see `exists`
                    from .retry import put_file

                put_file(self._url, self._options, self.path)
        finally:
            self.discard()

    def _send_parts(self) -> None:
        sink = _PartSink(self._url, self._options, 0)
        try:
            with open(self.path, "rb") as stream:
                while block := stream.read(_BLOCK_NBYTES):
                    sink.write(block)
            sink.commit()
        except BaseException:
            sink.abort()
            raise

    def discard(self) -> None:
        """Remove the file; idempotent."""
        self._discard()


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # a forked child ends, too
        shutil.rmtree(folder, ignore_errors=True)


class _PartSink:
    """An object in S3, sent in parts."""

    def __init__(self, url: str, options: dict[str, Any], front_nbytes: int) -> None:
        with importing:  # see `exists`
            from .s3upload import MultipartUpload

        self.name: str | None = shown(url)
        self._upload = MultipartUpload(url, options, front_nbytes)

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        self._upload.write(memoryview(data))

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes of the front."""
        self._upload.write_at(offset, memoryview(data))

    def commit(self) -> None:
        """Make the object appear."""
        self._upload.commit()

    def abort(self) -> None:
        """Leave nothing behind."""
        self._upload.abort()


class _FileSink:
    """An object of another kind, a local file until it is finished."""

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None) -> None:
        self._upload = Upload(url, storage_options)
        self.name: str | None = self._upload.name
        self._file = open(self._upload.path, "w+b")  # noqa: SIM115 - closed by commit and abort

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        with disk.naming(self._upload.path):
            self._file.write(data)

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes written before."""
        with disk.naming(self._upload.path):
            self._file.seek(offset)
            self._file.write(data)
            self._file.seek(0, os.SEEK_END)

    def commit(self) -> None:
        """Make the object appear."""
        with disk.naming(self._upload.path):  # closing it writes what is left
            self._file.close()
        self._upload.commit()

    def abort(self) -> None:
        """Leave nothing behind."""
        with suppress(OSError):  # the error that is being handled is the one to report
            self._file.close()
        self._upload.discard()
