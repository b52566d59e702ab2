"""Concurrent requests for remote objects, with retries.

After a transient failure (a dropped connection, too few bytes, a server that fails or is too busy),
the request is repeated with growing waits; when all tries have failed, it is a `RemoteError`. The
event loop is that of fsspec, in a thread of its own. A forked child does not inherit the thread and
creates its own.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from fsspec.asyn import get_loop

from ...exceptions import RemoteError, UnsupportedError
from ...parallel.threads import result_of
from ..url import shown
from .backends import Answer, RemoteObject, open_object
from .client import call_in_thread, client, kind_of
from .errors import TransientError, cause_of, s3_status, status_of, translate

# Requests made before giving up, counting the first.
TRIES = 5
# Seconds before the second try. The wait doubles each time; a random part, up to half, is dropped.
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 20.0

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[Any]]
# Replaced by tests, which do not wait.
sleep: Sleep = asyncio.sleep

Answers: TypeAlias = "Future[list[Answer]]"
"""Future for the answers of a group of requests."""


def start(
    remote: RemoteObject, extents: Sequence[tuple[int, int]], name: str, *, is_first: bool = False
) -> Answers:
    """Start requests for all `extents`, (offset, nbytes) each; return a future for the answers."""
    coroutine = get_all(remote, extents, name, is_first)
    return asyncio.run_coroutine_threadsafe(coroutine, get_loop())


async def get_all(
    remote: RemoteObject, extents: Sequence[tuple[int, int]], name: str, is_first: bool
) -> list[Answer]:
    """Return the answers for all `extents`, (offset, nbytes) each."""

    async def get(offset: int, nbytes: int) -> Answer:
        async def attempt() -> Answer:
            answer = await remote.get(offset, nbytes, is_first=is_first)
            expected = min(nbytes, answer.size - offset)
            if len(answer.data) < expected:
                raise TransientError(f"received {len(answer.data)} of {expected} bytes")
            return answer

        async with remote.gate:
            return await retry(attempt, f"bytes {offset} to {offset + nbytes}", name)

    tasks = [asyncio.ensure_future(get(*extent)) for extent in extents]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:  # `gather` leaves those running that have not failed
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def retry(attempt: Callable[[], Awaitable[Result]], what: str, name: str) -> Result:
    """Return the result of `attempt`, repeated after transient failures.

    Raises
    ------
    RemoteError
        All tries have failed.
    """
    number = 0
    while True:
        number += 1
        try:
            return await attempt()
        except TransientError as err:
            if number == TRIES:
                message = f"{TRIES} requests failed: {err}"
                raise RemoteError(message).at(what, name) from (err.__cause__ or err)
        wait = min(_FIRST_WAIT * 2 ** (number - 1), _LONGEST_WAIT)
        await sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - to keep clients apart


def list_folder(url: str, options: dict[str, Any]) -> dict[str, tuple[int | None, str]]:
    """Return the size and version, if reported, of each file directly below `url`, by name.

    Raises
    ------
    FileNotFoundError
        No files are listed.
    """
    filesystem, path = client(url, options)
    is_web = kind_of(filesystem) == "http"
    # A folder on a web server is a page, which some servers have only with the final slash.
    path = path.rstrip("/") + "/" * is_web
    listed: list[dict[str, Any]] = []
    filesystem.invalidate_cache()
    with suppress(FileNotFoundError):
        listed = run(call_with_retry(filesystem, shown(url), "ls", path, detail=True))
    found: dict[str, tuple[int | None, str]] = {}
    for info in listed:
        name = str(info["name"]).rstrip("/").rpartition("/")[2]
        if name and info.get("type") != "directory":
            # Only an ETag: other versions in a listing may differ from those of the file itself.
            found[name] = info.get("size"), str(info.get("ETag") or "")
    if not found:
        what = "no files are listed below this URL"
        if is_web:
            what = (
                "no such object, and no folder whose files the web server lists; of a Zarr store "
                "there, serve a .zarr.zip file, or copy its folder to this machine"
            )
        raise FileNotFoundError(2, what, shown(url))
    return found


def matching(pattern: str, options: dict[str, Any]) -> list[str]:
    """Return the URLs of files that match; hidden ones only if the pattern has hidden parts."""
    scheme = pattern.partition("://")[0]
    if "::" in pattern:
        message = "patterns in chained URLs are not supported"
        raise UnsupportedError(message).at(path=shown(pattern))
    filesystem, path = client(pattern, options)
    filesystem.invalidate_cache()
    found = run(call_with_retry(filesystem, shown(pattern), "glob", path, detail=True))
    names = [
        name
        for name, info in found.items()
        if info.get("type") != "directory" and (_is_hidden(path) or not _is_hidden(name))
    ]
    # File systems leave the host, such as "//host:22", out of the names they return.
    if pattern.endswith(path):
        before = pattern.removesuffix(path)
        return [name if "://" in name else f"{before}{name}" for name in names]
    return [name if "://" in name else f"{scheme}://{name.lstrip('/')}" for name in names]


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part.strip(".") for part in path.split("/"))


# File systems where an object that is put becomes visible as a whole.
_WHOLE = frozenset(("gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "memory"))


def has_folders(filesystem: Any) -> bool:
    """Return whether folders must be created before the files in them."""
    return kind_of(filesystem) not in _WHOLE


def exists(url: str, options: dict[str, Any]) -> bool:
    """Return whether there is an object at `url`; raises as reading it does."""
    filesystem, path = client(url, options)
    remote = open_object(url, options)
    name = shown(url)
    try:
        if kind_of(filesystem) == "s3":
            run(get_all(remote, [(0, 1)], name, True))
        else:
            filesystem.invalidate_cache()
            run(call_with_retry(filesystem, name, "info", path))
    except FileNotFoundError:
        return False
    return True


def put_file(url: str, options: dict[str, Any], local: str) -> None:
    """Upload a local file; under a temporary name first if a partial upload would be visible.

    Raises
    ------
    PermissionError, RemoteError
        It cannot be written.
    """
    filesystem, path = client(url, options)
    name = shown(url)
    if kind_of(filesystem) == "memory":
        with open(local, "rb") as stream:
            filesystem.pipe_file(path, stream.read())
        return
    if kind_of(filesystem) in _WHOLE:
        run(call_with_retry(filesystem, name, "put_file", local, path))
        return
    folder, _, _ = path.rpartition("/")
    temporary = f"{folder}/.bloscpack-{os.urandom(8).hex()}.tmp"
    try:
        run(call_with_retry(filesystem, name, "put_file", local, temporary))
        run(call_with_retry(filesystem, name, "mv", temporary, path))
    except BaseException:
        with suppress(Exception):  # the first error is the one to raise
            filesystem.rm_file(temporary)
        raise


async def call_with_retry(
    filesystem: Any, name: str, method: str, *arguments: Any, **options: Any
) -> Any:
    """Call a method of a file system in a thread, as it may block on the loop; with retries."""

    async def attempt() -> Any:
        try:
            return await call_in_thread(filesystem, method, *arguments, **options)
        except Exception as err:
            raise translate(err, s3_status(err) or status_of(err), name) from cause_of(err)

    return await retry(attempt, method, name)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, run on the loop of fsspec; an interrupt cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, get_loop())
    try:
        return result_of(future)
    finally:
        future.cancel()
