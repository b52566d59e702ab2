"""Parts of remote objects, fetched through fsspec: one request each, many at a time.

Every answer says which version of the object it is of and how long that is, so that no other
request has to ask: S3 and HTTP tell it beside the bytes. Trouble that may pass (a connection that
is dropped, too few bytes, a server that fails or is too busy) is tried again, later each time;
what is left of it then is a `RemoteError`. The event loop is that of fsspec, in a thread of its
own; a forked child has none of it and makes its own, with new clients.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ..exceptions import FileChangedError, RemoteError, UnsupportedError
from .url import shown

try:
    import aiohttp
    import fsspec
    from fsspec.asyn import AsyncFileSystem, get_loop
except ImportError as err:
    raise ImportError(
        f"URLs are reached through fsspec and aiohttp: install bloscpack[remote] ({err})"
    ) from err

# How often a request is made before it is given up.
TRIES = 5
# Seconds before the second try; twice as long each time, and up to half of it less by chance.
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 20.0
# Requests under way at once.
_MAX_REQUESTS = 16
# Seconds without a byte before a request is taken for lost.
_SILENCE = 60.0
# Clients that are kept for the next object of the same kind and options; one costs some 0.1 s.
_MAX_CLIENTS = 8
# The most that is taken of a server that gives no parts of an object, but all of it.
MAX_WHOLE_NBYTES = 1 << 20

Ours = TypeVar("Ours", UnsupportedError, FileChangedError, RemoteError)
Sleep = Callable[[float], Awaitable[Any]]
# Tests put a clock of their own here.
sleep: Sleep = asyncio.sleep

# Errors that need no other words.
_OURS = (UnsupportedError, FileChangedError, RemoteError, ImportError)
_TRANSIENT_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))


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


Answers: TypeAlias = "Future[list[Answer]]"
"""Answers that are on their way."""


class TransientError(Exception):
    """Trouble that may have passed at the next try."""


class RemoteObject(Protocol):
    """One object, to be read in parts."""

    max_requests: int
    """How many may be under way at once."""

    async def get(self, offset: int, nbytes: int, *, is_first: bool) -> Answer:
        """Make one request for `nbytes`, 1 or more, from `offset` on."""
        ...


def open_object(url: str, options: dict[str, Any]) -> RemoteObject:
    """Return the object at `url`; nothing is asked for yet.

    Raises
    ------
    ImportError
        The library for this kind of URL is missing.
    ValueError
        No library knows this kind of URL.
    """
    filesystem, path = _client(url, options)
    kind = filesystem.protocol if isinstance(filesystem.protocol, str) else filesystem.protocol[0]
    if kind == "s3" and hasattr(filesystem, "_call_s3"):
        return S3Object(filesystem, path, shown(url))
    if kind == "http" and hasattr(filesystem, "set_session"):
        return HttpObject(filesystem, path, shown(url))
    return OtherObject(filesystem, path, shown(url))


def start(
    remote: RemoteObject, extents: Sequence[tuple[int, int]], name: str, *, is_first: bool = False
) -> Answers:
    """Start to fetch all `extents`, (offset, nbytes) each, and return where the answers will be."""
    coroutine = _get_all(remote, extents, name, is_first)
    return asyncio.run_coroutine_threadsafe(coroutine, get_loop())


async def _get_all(
    remote: RemoteObject, extents: Sequence[tuple[int, int]], name: str, is_first: bool
) -> list[Answer]:
    gate = asyncio.Semaphore(min(remote.max_requests, _MAX_REQUESTS))

    async def get(offset: int, nbytes: int) -> Answer:
        async with gate:
            return await _get_surely(remote, offset, nbytes, name, is_first)

    tasks = [asyncio.ensure_future(get(*extent)) for extent in extents]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _get_surely(
    remote: RemoteObject, offset: int, nbytes: int, name: str, is_first: bool
) -> Answer:
    """Return the answer to a request that is repeated until it is whole.

    Raises
    ------
    RemoteError
        Each try has failed.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return await _get_whole(remote, offset, nbytes, is_first)
        except TransientError as err:
            if attempt == TRIES:
                message = f"bytes {offset} to {offset + nbytes}: {TRIES} requests failed: {err}"
                raise _about(RemoteError(message), name) from (err.__cause__ or err)
        wait = min(_FIRST_WAIT * 2 ** (attempt - 1), _LONGEST_WAIT)
        await sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - to keep clients apart


async def _get_whole(remote: RemoteObject, offset: int, nbytes: int, is_first: bool) -> Answer:
    answer = await remote.get(offset, nbytes, is_first=is_first)
    expected = min(nbytes, answer.size - offset)
    if len(answer.data) < expected:
        raise TransientError(f"{len(answer.data)} of {expected} bytes came")
    return answer


class S3Object:
    """An object in S3, read through the client that s3fs has."""

    max_requests = _MAX_REQUESTS

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
                length = int(answer["ContentLength"])
                size = _size_of(answer.get("ContentRange"), offset)
                if size is None and offset == 0 and length <= nbytes:
                    size = length  # the whole object, which needs no range
                if size is None or length > nbytes:
                    raise _no_ranges(self._name, length)
                data = await body.read()
            finally:
                body.close()
        except _OURS:
            raise
        except Exception as err:
            status = _s3_status(err)
            if status == 416:
                return _beyond(self._name, is_first)
            raise _named(err, status, self._name) from err
        return Answer(data, size, answer.get("ETag") or str(answer.get("LastModified", "")))


class HttpObject:
    """A file behind a web server, read through the session that fsspec has."""

    max_requests = _MAX_REQUESTS

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
        except _OURS:
            raise
        except Exception as err:
            raise _named(err, getattr(err, "status", None), self._name) from err

    async def _answer(self, response: Any, offset: int, nbytes: int) -> Answer:
        found = response.headers
        if found.get("Content-Encoding", "identity") != "identity":
            message = (
                f"the server sends it encoded ({found['Content-Encoding']}), so that no part of "
                "it can be read alone; have it served as it is"
            )
            raise _about(UnsupportedError(message), self._name)
        tag = found.get("ETag") or found.get("Last-Modified") or ""
        if response.status == 206:
            size = _size_of(found.get("Content-Range"), offset)
            if size is None:
                message = (
                    f"asked for bytes from {offset} on, the server answered with Content-Range "
                    f"{found.get('Content-Range')!r}"
                )
                raise _about(RemoteError(message), self._name)
            return Answer(await _body(response, nbytes), size, tag)
        length = response.content_length
        if offset or (length or 0) > MAX_WHOLE_NBYTES:
            raise _no_ranges(self._name, length)
        data = await _body(response, MAX_WHOLE_NBYTES + 1)
        if len(data) > MAX_WHOLE_NBYTES:
            raise _no_ranges(self._name, None)
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
        self._is_async = isinstance(filesystem, AsyncFileSystem)
        # The others may not be safe from several threads.
        self.max_requests = _MAX_REQUESTS if self._is_async else 1

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
        except _OURS:
            raise
        except Exception as err:
            raise _named(err, _status_of(err), self._name) from err
        return Answer(bytes(data), size, tag)

    async def _version(self) -> tuple[int, str]:
        info = await self._call("info")
        if info.get("type") == "directory":
            raise IsADirectoryError
        size = info.get("size")
        if size is None:
            raise _about(UnsupportedError("its size is not known"), self._name)
        for key in _VERSION_KEYS:
            if info.get(key) is not None:
                return int(size), str(info[key])
        return int(size), ""

    async def _call(self, method: str, **arguments: Any) -> Any:
        if self._is_async:
            return await getattr(self._filesystem, f"_{method}")(self._path, **arguments)
        return await asyncio.to_thread(getattr(self._filesystem, method), self._path, **arguments)


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


async def _body(response: Any, limit: int) -> bytes:
    """Return the body of an answer, of at most `limit` bytes; a server may send without end."""
    parts, nbytes = [], 0
    while nbytes < limit and (part := await response.content.readany()):
        parts.append(part)
        nbytes += len(part)
    return b"".join(parts)[:limit]


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


def changed(name: str, why: str) -> FileChangedError:
    """Return the error to raise for an object that is another one by now."""
    message = f"the object has changed since it was opened ({why}); open it anew"
    return _about(FileChangedError(message), name)


def _about(error: Ours, name: str) -> Ours:
    error.path = name
    return error


def _no_ranges(name: str, length: int | None) -> UnsupportedError:
    what = "all of it" if length is None else f"all of its {length} bytes"
    message = (
        f"asked for a part, the server answers with {what}; have it served by one that knows "
        "ranges (nginx, Apache, an object store), or copy the file and open the copy"
    )
    return _about(UnsupportedError(message), name)


def _s3_status(err: BaseException) -> int | None:
    """Return the HTTP status that an error of s3fs or botocore stems from."""
    seen: BaseException | None = err
    while seen is not None:
        response = getattr(seen, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            code = response.get("Error", {}).get("Code")
            if code in ("SlowDown", "RequestTimeout", "RequestTimeTooSkewed", "Throttling"):
                return 503
            return status if isinstance(status, int) else None
        seen = seen.__cause__
    return None


def _status_of(err: BaseException) -> int | None:
    """Return the HTTP status that an error of another client tells."""
    for name in ("status", "status_code", "code"):
        value = getattr(err, name, None)
        if isinstance(value, int):
            return value
    return None


def _named(err: Exception, status: int | None, name: str) -> Exception:
    """Return what to raise for an error of a client: ours, with the name of the object."""
    if isinstance(err, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(2, "no such object, or none that may be seen", name)
    if isinstance(err, PermissionError) or status in (401, 403):
        return PermissionError(13, f"access was refused: {_words(err)}", name)
    if "Credentials" in type(err).__name__:
        advice = "storage_options={'anon': True} reads what is public"
        return PermissionError(13, f"{_words(err)}; {advice}", name)
    if isinstance(err, IsADirectoryError):
        return IsADirectoryError(21, "is a folder", name)
    is_transient = (
        status in _TRANSIENT_STATUS
        if status is not None
        else isinstance(err, OSError | asyncio.TimeoutError | aiohttp.ClientError | EOFError)
        or "Timeout" in type(err).__name__
        or "Connection" in type(err).__name__
    )
    if is_transient and not isinstance(
        err, aiohttp.InvalidURL | aiohttp.ClientConnectorCertificateError
    ):
        return TransientError(_words(err))
    return _about(RemoteError(_words(err)), name)


def _words(err: BaseException) -> str:
    """Return the message of an error, which some have none of, without the URL that some have."""
    status = getattr(err, "status", None)
    if isinstance(err, aiohttp.ClientResponseError):
        return f"HTTP status {status} ({err.message})"
    text = str(err)
    return f"{type(err).__name__}: {text}" if text else type(err).__name__


# Clients of this process, by kind of URL and options, the last used last; and those of the process
# it was forked from, which must be neither used nor closed here: they share connections with it.
_clients: dict[tuple[Any, ...], Any] = {}
_clients_pid = os.getpid()
_not_ours: list[Any] = []


def leave_alone(thing: Any) -> None:
    """Keep a client of the parent process from being closed in this one."""
    _not_ours.append(thing)


def _client(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system for a URL, made by and for this process, and the path in it."""
    global _clients, _clients_pid
    if _clients_pid != os.getpid():
        leave_alone(_clients)
        _clients, _clients_pid = {}, os.getpid()
    scheme = url.partition("://")[0]
    key = (scheme, repr(sorted(options.items(), key=lambda item: item[0])))
    if scheme in ("s3", "s3a"):
        # Tries are counted here; by default botocore and s3fs would each repeat each of ours.
        config = {
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": _MAX_REQUESTS,
            **options.get("config_kwargs", {}),
        }
        options = {**options, "config_kwargs": config}
    filesystem = _clients.pop(key, None)
    try:
        if filesystem is None or "::" in scheme:
            filesystem, path = fsspec.core.url_to_fs(url, skip_instance_cache=True, **options)
        else:
            path = filesystem._strip_protocol(url)
    except ImportError as err:
        raise ImportError(
            f"{shown(url)}: {err}; bloscpack[remote] brings s3fs and aiohttp"
        ) from err
    if scheme in ("s3", "s3a"):
        filesystem.retries = 1
    if scheme == "memory" or "::" in scheme:
        return filesystem, path
    while len(_clients) >= _MAX_CLIENTS:
        _clients.pop(next(iter(_clients)), None)
    _clients[key] = filesystem
    return filesystem, path
