"""Remote objects by what they are reached through: S3, HTTP, or anything that fsspec knows.

`get` makes one request and tells, with the bytes, which version of the object they are of and how
long that is, so that no other request has to ask.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

try:
    import aiohttp
except ImportError as err:
    raise ImportError(
        f"URLs need fsspec and aiohttp ({err}): pip install 'bloscpack[http]'"
        " (for S3 'bloscpack[s3]')",
        name=err.name,
    ) from err

from ...exceptions import RemoteError, UnsupportedError
from ..url import shown
from .client import MAX_REQUESTS, client, kind_of
from .errors import OURS, about, cause_of, changed, named, no_ranges, s3_status, status_of

# Seconds without a byte before a request is taken for lost.
_SILENCE = 60.0
# The most that is taken of a server that gives no parts of an object, but all of it.
MAX_WHOLE_NBYTES = 1 << 20
# What tells versions of an object apart, by file system.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "generation",
    "md5Hash",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
)


class Answer(NamedTuple):
    """What one request gave.

    Attributes
    ----------
    data : bytes
        As many as were asked for, fewer only at the end of the object.
    size : int
        Size of the whole object in bytes.
    tag : str
        Version of the object as its server tells it; empty if it does not.
    """

    data: bytes
    size: int
    tag: str


class RemoteObject(Protocol):
    """One object, to be read in parts."""

    max_requests: int
    """How many may be under way at once."""

    async def get(self, offset: int, nbytes: int, *, is_first: bool) -> Answer:
        """Make one request for `nbytes`, 1 or more, from `offset` on."""
        ...


class S3Object:
    """An object in S3, read through the client that s3fs has."""

    max_requests = MAX_REQUESTS

    def __init__(self, filesystem: Any, path: str, name: str) -> None:
        self._filesystem = filesystem
        self._bucket, self._key, version = filesystem.split_path(path)
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
        except OURS:
            raise
        except Exception as err:
            status = s3_status(err)
            if status == 416:
                return _beyond(self._name, is_first)
            raise named(err, status, self._name) from cause_of(err)
        return Answer(data, size, answer.get("ETag") or str(answer.get("LastModified", "")))

    async def _content(
        self, answer: dict[str, Any], body: Any, offset: int, nbytes: int
    ) -> tuple[bytes, int]:
        """Return what came, and the size of the object."""
        told = answer.get("ContentRange")
        if told is not None:
            size = _size_of(told, offset)
            if size is None:
                raise _misplaced(self._name, offset, told)
            return await _body(body.read, nbytes), size
        # The whole object: it may be that small.
        length = answer.get("ContentLength")
        if not offset and (length is None or length <= nbytes):
            data = await _body(body.read, nbytes + 1)
            if len(data) <= nbytes:
                return data, len(data) if length is None else int(length)
        raise no_ranges(self._name, length)


class HttpObject:
    """A file behind a web server, read through the session that fsspec has."""

    max_requests = MAX_REQUESTS

    def __init__(self, filesystem: Any, url: str, name: str) -> None:
        self._filesystem = filesystem
        self._url = url
        self._name = name
        options = dict(filesystem.kwargs)
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
                    return _beyond(self._name, is_first)
                response.raise_for_status()
                return await self._answer(response, offset, nbytes)
        except OURS:
            raise
        except Exception as err:
            raise named(err, getattr(err, "status", None), self._name) from cause_of(err)

    async def _answer(self, response: Any, offset: int, nbytes: int) -> Answer:
        found = response.headers
        if found.get("Content-Encoding", "identity") != "identity":
            message = (
                f"the server sends it encoded ({found['Content-Encoding']}), so that no part of "
                "it can be read alone; have it served as it is"
            )
            raise about(UnsupportedError(message), self._name)
        tag = found.get("ETag") or found.get("Last-Modified") or ""
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            size = _size_of(found.get("Content-Range"), offset)
            if size is None:
                raise _misplaced(self._name, offset, found.get("Content-Range"))
            return Answer(await _body(response.content.read, nbytes), size, tag)
        if response.status != HTTPStatus.OK:
            raise about(RemoteError(f"HTTP status {response.status}"), self._name)
        length = response.content_length
        if offset or (length or 0) > MAX_WHOLE_NBYTES:
            raise no_ranges(self._name, length)
        data = await _body(response.content.read, MAX_WHOLE_NBYTES + 1)
        if len(data) > MAX_WHOLE_NBYTES:
            raise no_ranges(self._name, None)
        return Answer(data, len(data) if length is None else length, tag)


class OtherObject:
    """An object of any other file system of fsspec.

    It tells size and version by a request of its own: before the first part is fetched, and after
    each other one.
    """

    def __init__(self, filesystem: Any, path: str, name: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._name = name
        # A chain answers in one way only: it may have a link that is not async.
        self._is_async = filesystem.async_impl and "::" not in name
        # The others may not be safe from several threads.
        self.max_requests = MAX_REQUESTS if self._is_async else 1

    async def get(self, offset: int, nbytes: int, *, is_first: bool) -> Answer:
        """Fetch a part, and what the file system tells of the object."""
        stop = offset + nbytes
        try:
            if is_first:
                size, tag = await self._version()
                stop = min(stop, size)
                data = await self._call("cat_file", start=offset, end=stop) if size else b""
            else:
                data = await self._call("cat_file", start=offset, end=stop)
                size, tag = await self._version()
        except OURS:
            raise
        except Exception as err:
            raise named(err, status_of(err), self._name) from cause_of(err)
        return Answer(bytes(data), size, tag)

    async def _version(self) -> tuple[int, str]:
        info = await self._call("info")
        if info.get("type") == "directory":
            raise IsADirectoryError
        size = info.get("size")
        if size is None:
            raise about(UnsupportedError("its size is not known"), self._name)
        return int(size), tag_of(info)

    async def _call(self, method: str, **arguments: Any) -> Any:
        if self._is_async:
            return await getattr(self._filesystem, f"_{method}")(self._path, **arguments)
        return await asyncio.to_thread(getattr(self._filesystem, method), self._path, **arguments)


def tag_of(info: dict[str, Any]) -> str:
    """Return what a file system of fsspec tells of the version of a file; empty if nothing."""
    for key in _VERSION_KEYS:
        if info.get(key) is not None:
            return str(info[key])
    return ""


async def _body(read: Callable[[int], Awaitable[bytes]], limit: int) -> bytes:
    """Return the body of an answer, of at most `limit` bytes; a server may send without end."""
    parts, nbytes = [], 0
    while nbytes < limit and (part := await read(limit - nbytes)):
        parts.append(part)
        nbytes += len(part)
    return b"".join(parts)


def _misplaced(name: str, offset: int, told: str | None) -> RemoteError:
    """Return the error to raise for an answer that is not of the part that was asked for."""
    message = f"asked for bytes from {offset} on, the server answered with Content-Range {told!r}"
    return about(RemoteError(message), name)


def _size_of(content_range: str | None, offset: int) -> int | None:
    """Return the size by "bytes first-last/size"; None if it does not begin at `offset`."""
    unit, _, rest = (content_range or "").partition(" ")
    extent, _, size = rest.partition("/")
    first = extent.partition("-")[0]
    if unit != "bytes" or not (first.isdecimal() and size.isdecimal()) or len(size) > 18:
        return None
    return int(size) if int(first) == offset else None


def _beyond(name: str, is_first: bool) -> Answer:
    """Return what "range not satisfiable" means: an empty object, or one that became shorter."""
    if is_first:
        return Answer(b"", 0, "")
    raise changed(name, "it has become shorter")


def open_object(url: str, options: dict[str, Any]) -> RemoteObject:
    """Return the object at `url`; nothing is asked for yet.

    Raises
    ------
    ImportError
        The library for this kind of URL is missing.
    ValueError
        No library knows this kind of URL.
    """
    filesystem, path = client(url, options)
    kind = kind_of(filesystem)
    if kind == "s3" and hasattr(filesystem, "_call_s3"):
        return S3Object(filesystem, path, shown(url))
    if kind == "http" and hasattr(filesystem, "set_session"):
        return HttpObject(filesystem, path, shown(url))
    return OtherObject(filesystem, path, shown(url))
