"""fsspec clients of the test process: those of bloscpack, and those made by tests."""

import asyncio
import gc
import sys
from typing import Any

_SECONDS = 120.0
_KINDS = (
    ("fsspec.implementations.http", "HTTPFileSystem", "_session"),
    ("s3fs.core", "S3FileSystem", "_s3creator"),
)


def close_all() -> None:
    """Close all cached clients, and wait until they are closed."""
    ours = sys.modules.get("bloscpack.storage.remote.client")
    has_clients = ours is not None and bool(ours._clients)
    for module, kind, session in _KINDS:
        if module in sys.modules:
            cached = getattr(sys.modules[module], kind)
            has_clients |= bool(cached._cache)
            _close_cached(cached, session)
    if ours is not None:
        if has_clients:  # in a process that has run thousands of tests, this takes seconds
            gc.collect()  # handles that tests no longer use
        ours.close_clients()


def _close_cached(kind: Any, attribute: str) -> None:
    """Close the instances that fsspec caches for one kind of file system."""
    for filesystem in [*kind._cache.values()]:
        session, loop = getattr(filesystem, attribute, None), filesystem.loop
        if session is not None and loop is not None and loop.is_running():
            asyncio.run_coroutine_threadsafe(_close(session), loop).result(_SECONDS)
        elif (connector := getattr(session, "_connector", None)) is not None:
            connector._close()
    kind.clear_instance_cache()


async def _close(session: Any) -> None:
    await session.__aexit__(None, None, None)
