"""The clients of fsspec, one for each kind of URL and options, made by and for each process.

A forked child must neither use nor close what it has of its parent: connections are shared.

A client that nothing refers to any more is closed on the event loop, which holds its connections
until that is done. fsspec itself gives up after 0.1 s, and on a busy machine aiohttp then reports a
client that was never closed.
"""

import asyncio
import atexit
import gc
import os
import threading
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any

try:
    import fsspec
except ImportError as err:
    raise ImportError(
        f"URLs need fsspec and aiohttp ({err}): pip install 'bloscpack[http]'"
        " (for S3 'bloscpack[s3]')",
        name=err.name,
    ) from err

from ...exceptions import RemoteError
from ...parallel.imports import importing
from ..url import shown
from .errors import about, cause_of, words

# Clients that are kept for the next object of the same kind and options; one costs some 0.1 s.
_MAX_CLIENTS = 8
# Requests that may be under way at once.
MAX_REQUESTS = 16

# Clients of this process, by kind of URL and options, the last used last; and those of the process
# it was forked from, which must be neither used nor closed here: they share connections with it.
_clients: dict[tuple[Any, ...], Any] = {}
_clients_pid = os.getpid()
_not_ours: list[Any] = []

# Seconds that are waited for clients to be closed.
_CLOSING_SECONDS = 10.0
_closing: set["Future[None]"] = set()
_is_exiting = False


def leave_alone(thing: Any) -> None:
    """Keep a client of the parent process from being closed in this one."""
    _not_ours.append(thing)


def close_clients() -> None:
    """Forget the clients that are kept, and wait until all that are not in use are closed."""
    global _clients
    if _clients_pid != os.getpid():
        return
    if _clients:
        _clients = {}
        gc.collect()  # those of fsspec refer to themselves
    wait(_closing.copy(), _CLOSING_SECONDS)


@atexit.register
def _exit() -> None:
    global _is_exiting
    _is_exiting = True
    close_clients()


async def _close(session: Any) -> None:
    with suppress(Exception):  # a connection that is lost needs no closing
        await session.__aexit__(None, None, None)


def _close_session(loop: Any, session: Any) -> None:
    """Close the session of a client that is gone; called by fsspec, in any thread."""
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
            "max_pool_connections": MAX_REQUESTS,
            **options.get("config_kwargs", {}),
        }
        options = {**options, "config_kwargs": config}
    filesystem = _clients.get(key)
    try:
        if filesystem is None or "::" in scheme:
            with importing:  # s3fs and the like are
                found = fsspec.core.url_to_fs(url, skip_instance_cache=True, **options)
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
    except OSError as err:  # some connect at once
        raise about(RemoteError(words(err)), shown(url)) from cause_of(err)
    if scheme in ("s3", "s3a"):
        filesystem.retries = 1
    if scheme == "memory" or "::" in scheme:
        return filesystem, path
    kept = {other: each for other, each in _clients.copy().items() if other != key}
    # Replaced as a whole: another thread may be here.
    _clients = dict([*kept.items()][1 - _MAX_CLIENTS :]) | {key: filesystem}
    return filesystem, path


def kind_of(filesystem: Any) -> str:
    """Return the first name of a kind of file systems: "s3", "http", "memory"."""
    protocol = filesystem.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])
