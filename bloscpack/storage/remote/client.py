"""Clients of fsspec, cached by URL scheme, host and options, separately in each process.

Those of a chain of URLs (``zip://m.blp::c.zip``) are not cached: each is for one archive, whose
content they read when they are created.

A forked child must neither use nor close the clients of its parent, as they share connections.

An unreferenced client is closed on the event loop, which holds its connections until then. fsspec
itself waits only 0.1 s for this; on a busy machine aiohttp then reports an unclosed client.
"""

import asyncio
import atexit
import gc
import os
import threading
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from tarfile import TarError
from typing import Any
from weakref import WeakKeyDictionary
from zipfile import BadZipFile

from ...exceptions import RemoteError
from ...parallel.imports import importing
from ..coalescing import MAX_REQUESTS
from ..url import shown, without_secrets
from .errors import cause_of, message_of, url_libraries

with url_libraries():
    import aiohttp
    import fsspec

# Largest number of cached clients; creating one takes about 0.1 s.
_MAX_CLIENTS = 8

# Clients of this process by `_key_of`, most recently used last. `_not_ours` holds those of
# the parent of a fork: a reference keeps them from being closed here.
_clients: dict[tuple[Any, ...] | None, Any] = {}
_clients_pid = os.getpid()
_not_ours: list[Any] = []
# Locks of synchronous clients, which may have one connection; used on the event loop only.
_gates: "WeakKeyDictionary[Any, asyncio.Lock]" = WeakKeyDictionary()

# Largest page of a web server that lists the files of a folder.
_MAX_LISTING_NBYTES = 64 << 20

# Longest wait for clients to close, in seconds.
_CLOSING_SECONDS = 10.0
_closing: set["Future[None]"] = set()
_is_exiting = False


class _Response(aiohttp.ClientResponse):  # type: ignore[misc]
    """Response whose text, in which fsspec looks for a list of files, is of limited size."""

    async def text(self, *_: Any, **__: Any) -> str:
        """Return the body as text."""
        found = bytearray()
        while part := await self.content.read(_MAX_LISTING_NBYTES):
            found += part
            if len(found) > _MAX_LISTING_NBYTES:
                raise ValueError(f"a list of files exceeds {_MAX_LISTING_NBYTES} bytes")
        return found.decode(errors="ignore")


def leave_alone(thing: Any) -> None:
    """Prevent a client of the parent process from being closed in this process."""
    _not_ours.append(thing)


def close_clients() -> None:
    """Drop the cached clients and wait until those that are not in use are closed."""
    global _clients
    if _clients_pid != os.getpid():
        return
    if _clients:
        _clients = {}
        gc.collect()  # clients of fsspec are in reference cycles
    wait(_closing.copy(), _CLOSING_SECONDS)


@atexit.register
def _exit() -> None:
    global _is_exiting
    _is_exiting = True
    close_clients()


async def _close(session: Any) -> None:
    with suppress(Exception):  # a lost connection does not need to be closed
        await session.__aexit__(None, None, None)


def _close_session(loop: Any, session: Any) -> None:
    """Close the session of a deleted client; called by fsspec, from any thread."""
    if loop is None or not loop.is_running():
        connector = getattr(session, "_connector", None)
        if connector is not None:
            connector._close()
        return
    closing = asyncio.run_coroutine_threadsafe(_close(session), loop)
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    if _is_exiting and threading.current_thread() is threading.main_thread():
        wait([closing], _CLOSING_SECONDS)


def client(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return a file system of this process for a URL, and the path in it."""
    global _clients
    _leave_those_of_parent()
    scheme, is_chain = url.partition("://")[0], "::" in url
    try:
        key = None if is_chain else _key_of(scheme, url, options)
        filesystem = _clients.get(key)
        if filesystem is None:
            with importing:  # fsspec imports s3fs and the like here
                found = fsspec.core.url_to_fs(url, **_with_ours(scheme, options))
            filesystem, path = found
            if hasattr(filesystem, "close_session"):
                filesystem.close_session = _close_session
        else:
            path = filesystem._strip_protocol(url)
    except ImportError as err:
        raise ImportError(
            f"{shown(url)}: {err}; 'bloscpack[s3]' brings s3fs, 'bloscpack[http]' aiohttp",
            name=err.name,
        ) from err
    except ValueError as err:
        raise ValueError(f"{shown(url)}: fsspec cannot open it: {without_secrets(str(err))}") from (
            cause_of(err)
        )
    except (OSError, BadZipFile, TarError) as err:  # some connect, or read an archive, immediately
        raise RemoteError(message_of(err)).at(path=shown(url)) from cause_of(err)
    if scheme in ("s3", "s3a"):
        filesystem.retries = 1
    elif scheme == "tar":
        path = path.lstrip("/")  # with it, fsspec found no member until 2026
    if key is None or scheme == "memory":
        return filesystem, path
    others = {other: each for other, each in _clients.copy().items() if other != key}
    # The dict is replaced, not changed, as another thread may be using it.
    _clients = dict([*others.items()][1 - _MAX_CLIENTS :]) | {key: filesystem}
    return filesystem, path


def _with_ours(scheme: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a new client, with those that the caller leaves to us."""
    # Not from the cache of fsspec: the client is changed, and the program may use the same one.
    options = {**options, "skip_instance_cache": True}
    if scheme in ("s3", "s3a"):
        # Retries happen in `retry.py`; by default botocore and s3fs would multiply them.
        options["config_kwargs"] = {
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": MAX_REQUESTS,
            **options.get("config_kwargs", {}),
        }
    elif scheme in ("http", "https") and "get_client" not in options:
        kwargs = options.get("client_kwargs", {})
        options["client_kwargs"] = {"response_class": _Response, **kwargs}
    return options


def _leave_those_of_parent() -> None:
    global _clients, _clients_pid
    if _clients_pid != os.getpid():
        leave_alone(_clients)
        _clients, _clients_pid = {}, os.getpid()
        _gates.clear()  # the parent may have held one
        _closing.clear()  # closed by a thread of the parent, so `close_clients` would wait in vain


def _key_of(scheme: str, url: str, options: dict[str, Any]) -> tuple[str, ...]:
    """Return the key of the client for a URL that is not a chain."""
    with importing:  # see `client`
        # Host, port and user; also whether an s3fs client looks at versions.
        from_url = fsspec.get_filesystem_class(scheme)._get_kwargs_from_urls(url)
    # As text, since options may hold dicts.
    both = (sorted(each.items(), key=lambda item: item[0]) for each in (from_url, options))
    return (scheme, *map(repr, both))


async def call_in_thread(filesystem: Any, method: str, *arguments: Any, **options: Any) -> Any:
    """Call a method of a file system in a thread; of a synchronous one, one at a time."""
    call = partial(asyncio.to_thread, getattr(filesystem, method), *arguments, **options)
    if filesystem.async_impl:
        return await call()
    gate = _gates.setdefault(filesystem, asyncio.Lock())
    await gate.acquire()

    def release(done: "asyncio.Future[Any]") -> None:
        gate.release()
        if not done.cancelled():
            done.exception()  # so that asyncio does not report it if the caller was cancelled

    task = asyncio.ensure_future(call())
    task.add_done_callback(release)
    return await asyncio.shield(task)  # a thread goes on when its caller is cancelled


def kind_of(filesystem: Any) -> str:
    """Return the first protocol name of a file system: "s3", "http", "memory"."""
    protocol = filesystem.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])
