"""A disk that fails, dies or loses power at a chosen call.

All changes of the package to files go through `bloscpack.storage.disk`. Each of its functions is
wrapped here, so that every call is a step at which a test can stop.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bloscpack.storage import disk

CALLS = (
    "create",
    "write_at",
    "copy_range",
    "truncate",
    "punch",
    "set_mode",
    "sync",
    "sync_folder",
    "replace",
    "rename_new",
    "unlink",
    "make_folder",
    "remove_folder",
)
REAL: dict[str, Callable[..., Any]] = {name: getattr(disk, name) for name in CALLS}
REAL_IDENTITY = disk.identity


class Crash(BaseException):
    """The process is dead: its later calls have no effect."""


class StoppingDisk:
    """Counts calls; raises at call number `stop_at`, and after a crash at every later one.

    Parameters
    ----------
    stop_at : int
        Number of the call, or -1 for never.
    kind : {"error", "crash", "torn"}
        Event at this call; "torn" writes half of the bytes before the crash.
    before : callable, optional
        Called before every step, and in the middle of every write.
    """

    def __init__(
        self, stop_at: int = -1, kind: str = "error", before: Callable[[], object] | None = None
    ) -> None:
        self.count = 0
        self.names: list[str] = []
        self._stop_at = stop_at
        self._kind = kind
        self._before = before
        self.is_dead = False
        self._is_looking = False

    def call(self, name: str, *args: Any) -> Any:
        if self.is_dead:
            raise Crash
        if self._is_looking:
            return REAL[name](*args)
        if self._before is not None:
            self._look()
        step, self.count = self.count, self.count + 1
        self.names.append(name)
        if step == self._stop_at:
            if self._kind == "error":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.is_dead = True
            if self._kind == "torn" and name == "write_at":
                write_half(*args)
            raise Crash
        if name in ("sync", "sync_folder"):
            return None  # syncs matter only in the tests of power loss
        if self._before is not None and name == "write_at":
            write_half(*args)
            self._look()
        return REAL[name](*args)

    def _look(self) -> None:
        self._is_looking = True
        try:
            if self._before is not None:
                self._before()
        finally:
            self._is_looking = False


def write_half(fd: int, offset: int, *parts: Any) -> None:
    data = b"".join(parts)
    REAL["write_at"](fd, offset, data[: len(data) // 2])


@contextmanager
def installed(target: Any) -> Iterator[None]:
    """Send all calls in the block to ``target.call(name, *args)``."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(disk, name, _sender(target, name))
        yield


def _sender(target: Any, name: str) -> Callable[..., Any]:
    return lambda *args: target.call(name, *args)


@contextmanager
def without_syncs() -> Iterator[None]:
    """Skip syncs in the block, for tests that do not need durable results."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("sync", "sync_folder"):
            patch.setattr(disk, name, lambda _: None)
        yield
