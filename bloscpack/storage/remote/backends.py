"""Backends for remote objects: S3, HTTP, and any other file system of fsspec.

`get` makes one request. It returns the bytes together with the version and the size of the object,
so that no extra request is needed for these.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from ...exceptions import RemoteError, UnsupportedError
from ..coalescing import MAX_REQUESTS
from ..url import shown
from .client import call_in_thread, client, kind_of
from .errors import (
    OWN_ERRORS,
    cause_of,
    changed_error,
    no_ranges_error,
    s3_status,
    status_of,
    translate,
    url_libraries,
)

with url_libraries():
    import aiohttp

# Seconds without a byte after which a request counts as lost.
_SILENCE = 60.0
# Largest object accepted from a server that ignores Range and sends the whole object.
MAX_WHOLE_NBYTES = 1 << 20
# Keys that hold the version of an object; each file system has some of them.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "generation",
    "md5Hash",
    "mtime",
    "LastModified",
    "last_modified",
    "modify",
    "updated",
    "created",
)


class Answer(NamedTuple):
    """Result of one request."""

    data: bytes  # the requested bytes, fewer only at the end of the object
    size: int  # size of the whole object in bytes
    tag: str  # version of the object as reported by its server; empty if it reports none


class RemoteObject(Protocol):
    """Object that is read in parts."""

    gate: asyncio.Semaphore
    """Passed by each request, so that few are made at once."""

    async def get(self, offset: int, nbytes: int, *, is_first: bool) -> Answer:
        """Make one request for `nbytes`, at least 1, from `offset` on."""
        ...


class S3Object:
    """Object in S3, read through the client of s3fs."""

    def __init__(self, filesystem: Any, path: str, name: str) -> None:
        self.gate = asyncio.Semaphore(MAX_REQUESTS)
        self._filesystem = filesystem
        self._bucket, self._key, version = filesystem.split_path(path)
        if not self._key:
            raise IsADirectoryError(21, "is a bucket: add the name of an object in it", name)
        self._version = {"VersionId": version} if version else {}
        self._name = name

    async def get(self, offset: int, nbytes: int, *, is_first: bool) -> Answer:
        """Make one request (GetObject)."""
        try:
            answer = await self._filesystem._call_s3(
                "get_object",
                Bucket=self._bucket,
                Key=self._key,
                Range=f"bytes={offset}-{offset + nbytes - 1}",
                **self._version,
            )
            body = answer["Body"]
            try:
                data, size = await self._content(answer, body, offset, nbytes)
            finally:
                body.close()
        except OWN_ERRORS:
            raise
        except Exception as err:
            status = s3_status(err)
            if status == 416:
                return _beyond(self._name, is_first, None)
            raise translate(err, status, self._name) from cause_of(err)
        return Answer(data, size, answer.get("ETag") or str(answer.get("LastModified", "")))

    async def _content(
        self, answer: dict[str, Any], body: Any, offset: int, nbytes: int
    ) -> tuple[bytes, int]:
        """Return the received bytes and the size of the object."""
        content_range = answer.get("ContentRange")
        if content_range is not None:
            size = _size_of(content_range, offset)
            if size is None:
                raise _misplaced_error(self._name, offset, content_range)
            return await _body(body.read, nbytes), size
        # The server sent the whole object, which is acceptable if it is small enough.
        length = answer.get("ContentLength")
        if not offset and (length is None or length <= nbytes):
            data = await _body(body.read, nbytes + 1)  # one more shows that there are others
            if len(data) <= nbytes:
                return data, len(data) if length is None else int(length)
        raise no_ranges_error(self._name, length)


class HttpObject:
    """File on a web server, read through the session of fsspec."""

    def __init__(self, filesystem: Any, url: str, name: str) -> None:
        self.gate = asyncio.Semaphore(MAX_REQUESTS)
        self._filesystem = filesystem
        self._url = url
        self._name = name
        options = dict(filesystem.kwargs)
        # Unencoded, as a range would be one of the compressed bytes.
        self._headers = {**options.pop("headers", {}), "Accept-Encoding": "identity"}
        if "timeout" not in options and "timeout" not in filesystem.client_kwargs:
            options["timeout"] = aiohttp.ClientTimeout(
                total=None, sock_connect=_SILENCE, sock_read=_SILENCE
            )
        self._options = options

    async def get(self, offset: int, nbytes: int, *, is_first: bool) -> Answer:
        """Make one request (GET)."""
        headers = {**self._headers, "Range": f"bytes={offset}-{offset + nbytes - 1}"}
        try:
            session = await self._filesystem.set_session()
            async with session.get(
                self._filesystem.encode_url(self._url), headers=headers, **self._options
            ) as response:
                if response.status == 416:
                    return _beyond(self._name, is_first, response.headers.get("Content-Range"))
                response.raise_for_status()
                return await self._answer(response, offset, nbytes)
        except OWN_ERRORS:
            raise
        except Exception as err:
            raise translate(err, getattr(err, "status", None), self._name) from cause_of(err)

    async def _answer(self, response: Any, offset: int, nbytes: int) -> Answer:
        found = response.headers
        if found.get("Content-Encoding", "").lower() not in ("", "identity"):
            message = (
                f"the server sends it encoded ({found['Content-Encoding']}), so its parts cannot "
                "be read separately; configure the server to send it unencoded"
            )
            raise UnsupportedError(message).at(path=self._name)
        tag = found.get("ETag") or found.get("Last-Modified") or ""
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            size = _size_of(found.get("Content-Range"), offset)
            if size is None:
                raise _misplaced_error(self._name, offset, found.get("Content-Range"))
            return Answer(await _body(response.content.read, nbytes), size, tag)
        if response.status != HTTPStatus.OK:
            raise RemoteError(f"HTTP status {response.status}").at(path=self._name)
        length = response.content_length
        if offset or (length or 0) > MAX_WHOLE_NBYTES:
            raise no_ranges_error(self._name, length)
        data = await _body(response.content.read, MAX_WHOLE_NBYTES + 1)
        if len(data) > MAX_WHOLE_NBYTES:
            raise no_ranges_error(self._name, None)
        return Answer(data, len(data) if length is None else length, tag)


class OtherObject:
    """Object of any other file system of fsspec.

    Size and version take a request of their own: before the first part is fetched, and after each
    later part.
    """

    def __init__(self, filesystem: Any, path: str, name: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._name = name
        # A chain is used synchronously, as some link of it may not be async.
        self._is_async = filesystem.async_impl and "::" not in name
        # Synchronous file systems may not be safe from several threads.
        self.gate = asyncio.Semaphore(MAX_REQUESTS if self._is_async else 1)

    async def get(self, offset: int, nbytes: int, *, is_first: bool) -> Answer:
        """Fetch a part and the size and version of the object."""
        stop = offset + nbytes
        # In this order, a change between the two requests shows in this version or in a later one.
        try:
            if is_first:
                size, tag = await self._version()
                stop = min(stop, size)
                data = await self._call("cat_file", start=offset, end=stop) if size else b""
            else:
                data = await self._call("cat_file", start=offset, end=stop)
                size, tag = await self._version()
        except OWN_ERRORS:
            raise
        except Exception as err:
            raise translate(err, status_of(err), self._name) from cause_of(err)
        if len(data) > stop - offset:
            raise no_ranges_error(self._name, len(data))
        return Answer(bytes(data), size, tag)

    async def _version(self) -> tuple[int, str]:
        self._filesystem.invalidate_cache()  # some answer from a listing that they made earlier
        info = await self._call("info")
        if info.get("type") == "directory":
            raise IsADirectoryError
        size = info.get("size")
        if size is None:
            raise UnsupportedError("its size is not known").at(path=self._name)
        return int(size), tag_of(info)

    async def _call(self, method: str, **arguments: Any) -> Any:
        if self._is_async:
            return await getattr(self._filesystem, f"_{method}")(self._path, **arguments)
        return await call_in_thread(self._filesystem, method, self._path, **arguments)


def tag_of(info: dict[str, Any]) -> str:
    """Return the version of a file as reported by a file system of fsspec; empty if missing."""
    for key in _VERSION_KEYS:
        if info.get(key) is not None:
            return str(info[key])
    return ""


async def _body(read: Callable[[int], Awaitable[bytes]], limit: int) -> bytes:
    """Return at most `limit` bytes of a response body, as a server may send without end."""
    parts, nbytes = [], 0
    while nbytes < limit and (part := await read(limit - nbytes)):
        parts.append(part)
        nbytes += len(part)
    return b"".join(parts)


def _misplaced_error(name: str, offset: int, content_range: str | None) -> RemoteError:
    """Return the error for a response with another range than the requested one."""
    message = (
        f"asked for bytes from {offset} on, the server answered with "
        f"Content-Range {content_range!r}"
    )
    return RemoteError(message).at(path=name)


def _size_of(content_range: str | None, offset: int) -> int | None:
    """Return the size in "bytes first-last/size"; None if `first` is not `offset`."""
    unit, _, rest = (content_range or "").partition(" ")
    extent, _, size = rest.partition("/")
    first = extent.partition("-")[0]
    if unit != "bytes" or not (first.isdecimal() and size.isdecimal()) or len(size) > 18:
        return None
    return int(size) if int(first) == offset else None


def _beyond(name: str, is_first: bool, content_range: str | None) -> Answer:
    """Return the answer for status 416: the object is empty, or raise that it became shorter."""
    size = (content_range or "").rpartition("/")[2]
    if is_first and size.isdecimal() and int(size):
        raise RemoteError(
            f"the server refuses its first bytes (416), although it has {size:.20} of them"
        ).at(path=name)
    if is_first:
        return Answer(b"", 0, "")
    raise changed_error(name, "it has become shorter")


def open_object(url: str, options: dict[str, Any]) -> RemoteObject:
    """Return the object at `url` without making a request.

    Raises
    ------
    ImportError
        The library for this URL scheme is missing.
    ValueError
        The URL scheme is unknown.
    """
    filesystem, path = client(url, options)
    kind = kind_of(filesystem)
    if kind == "s3" and hasattr(filesystem, "_call_s3"):
        return S3Object(filesystem, path, shown(url))
    if kind == "http" and hasattr(filesystem, "set_session"):
        return HttpObject(filesystem, path, shown(url))
    return OtherObject(filesystem, path, shown(url))
