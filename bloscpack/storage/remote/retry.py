"""Requests for remote objects, many at a time, repeated until they succeed or clearly will not.

Trouble that may pass (a connection that is dropped, too few bytes, a server that fails or is too
busy) is tried again, later each time; what is left of it then is a `RemoteError`. The event loop is
that of fsspec, in a thread of its own; a forked child has none of it and makes its own.
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
from .client import MAX_REQUESTS, client, kind_of
from .errors import TransientError, about, cause_of, named, s3_status, status_of

# How often a request is made before it is given up.
TRIES = 5
# Seconds before the second try; twice as long each time, and up to half of it less by chance.
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 20.0

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[Any]]
# Tests put a clock of their own here.
sleep: Sleep = asyncio.sleep

Answers: TypeAlias = "Future[list[Answer]]"
"""Answers that are on their way."""


def start(
    remote: RemoteObject, extents: Sequence[tuple[int, int]], name: str, *, is_first: bool = False
) -> Answers:
    """Start to fetch all `extents`, (offset, nbytes) each, and return where the answers will be."""
    coroutine = get_all(remote, extents, name, is_first)
    return asyncio.run_coroutine_threadsafe(coroutine, get_loop())


async def get_all(
    remote: RemoteObject, extents: Sequence[tuple[int, int]], name: str, is_first: bool
) -> list[Answer]:
    """Return the answers for all `extents`, (offset, nbytes) each."""
    gate = asyncio.Semaphore(min(remote.max_requests, MAX_REQUESTS))

    async def get(offset: int, nbytes: int) -> Answer:
        async def attempt() -> Answer:
            answer = await remote.get(offset, nbytes, is_first=is_first)
            expected = min(nbytes, answer.size - offset)
            if len(answer.data) < expected:
                raise TransientError(f"{len(answer.data)} of {expected} bytes came")
            return answer

        async with gate:
            return await surely(attempt, f"bytes {offset} to {offset + nbytes}", name)

    tasks = [asyncio.ensure_future(get(*extent)) for extent in extents]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def surely(attempt: Callable[[], Awaitable[Result]], what: str, name: str) -> Result:
    """Return what `attempt` gives, which is tried again after trouble that may pass.

    Raises
    ------
    RemoteError
        Each try has failed.
    """
    number = 0
    while True:
        number += 1
        try:
            return await attempt()
        except TransientError as err:
            if number == TRIES:
                error = RemoteError(f"{what}: {TRIES} requests failed: {err}")
                raise about(error, name) from (err.__cause__ or err)
        wait = min(_FIRST_WAIT * 2 ** (number - 1), _LONGEST_WAIT)
        await sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - to keep clients apart


def list_folder(url: str, options: dict[str, Any]) -> dict[str, tuple[int | None, str]]:
    """Return the files right below `url` by their names: size and version, as far as it is told.

    Raises
    ------
    FileNotFoundError
        There are none.
    """
    filesystem, path = client(url, options)
    # What web servers have for a folder are pages, some of them only with the slash.
    path = path.rstrip("/") + ("/" if kind_of(filesystem) == "http" else "")
    found: dict[str, tuple[int | None, str]] = {}
    for info in run(_list(filesystem, path, shown(url))):
        name = str(info["name"]).rstrip("/").rpartition("/")[2]
        if name and info.get("type") != "directory":
            # Others have other words for the version in a list than for that of a file.
            found[name] = info.get("size"), str(info.get("ETag") or "")
    if not found:
        raise FileNotFoundError(2, "nothing is listed below this URL", shown(url))
    return found


def matching(pattern: str, options: dict[str, Any]) -> list[str]:
    """Return the URLs of the files that fit a pattern, hidden ones only if it has hidden parts."""
    scheme = pattern.partition("://")[0]
    if "::" in scheme:
        raise about(UnsupportedError("patterns of chained URLs are not known"), shown(pattern))
    filesystem, path = client(pattern, options)
    filesystem.invalidate_cache()
    found = run(once(filesystem, shown(pattern), "glob", path, detail=True))
    names = [
        name
        for name, info in found.items()
        if info.get("type") != "directory" and (_is_hidden(path) or not _is_hidden(name))
    ]
    # The place, such as "//host:22", which file systems leave out of their names.
    if pattern.endswith(path):
        before = pattern.removesuffix(path)
        return [name if "://" in name else f"{before}{name}" for name in names]
    return [name if "://" in name else f"{scheme}://{name.lstrip('/')}" for name in names]


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part.strip(".") for part in path.split("/"))


async def _list(filesystem: Any, path: str, name: str) -> list[dict[str, Any]]:
    async def attempt() -> list[dict[str, Any]]:
        filesystem.invalidate_cache()
        try:
            if filesystem.async_impl and "::" not in name:
                return list(await filesystem._ls(path, detail=True))
            return list(await asyncio.to_thread(filesystem.ls, path, detail=True))
        except Exception as err:
            raise named(err, s3_status(err) or status_of(err), name) from cause_of(err)

    return await surely(attempt, "its list", name)


# File systems where what is put appears whole, or where nobody can see it half.
_WHOLE = frozenset(("gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "memory"))


def has_folders(filesystem: Any) -> bool:
    """Return whether a file system may have folders that must be made before files in them."""
    return kind_of(filesystem) not in _WHOLE


def exists(url: str, options: dict[str, Any]) -> bool:
    """Return whether there is an object at `url`; errors as for reading it."""
    filesystem, path = client(url, options)
    remote = open_object(url, options)
    name = shown(url)
    try:
        if kind_of(filesystem) == "s3":
            run(get_all(remote, [(0, 1)], name, True))
        else:
            filesystem.invalidate_cache()
            run(once(filesystem, name, "info", path))
    except FileNotFoundError:
        return False
    return True


def put_file(url: str, options: dict[str, Any], local: str) -> None:
    """Make an object of a local file: under another name first, where it could be seen half.

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
        run(once(filesystem, name, "put_file", local, path))
        return
    folder, _, _ = path.rpartition("/")
    temporary = f"{folder}/.bloscpack-{os.urandom(8).hex()}.tmp"
    try:
        run(once(filesystem, name, "put_file", local, temporary))
        run(once(filesystem, name, "mv", temporary, path))
    except BaseException:
        with suppress(Exception):  # the first error is the one to tell
            filesystem.rm_file(temporary)
        raise


async def once(filesystem: Any, name: str, method: str, *arguments: Any, **options: Any) -> Any:
    """Call a method of a file system, in a thread: it waits for the loop itself."""

    async def attempt() -> Any:
        try:
            return await asyncio.to_thread(getattr(filesystem, method), *arguments, **options)
        except Exception as err:
            raise named(err, status_of(err), name) from cause_of(err)

    return await surely(attempt, method, name)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return what a coroutine gives that runs on the loop of fsspec; an interrupt cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, get_loop())
    try:
        return result_of(future)
    finally:
        future.cancel()
