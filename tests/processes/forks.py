"""Helpers that fork children and collect their results."""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from scenario import TIMEOUT_SECONDS


def in_child(work: Callable[[], Any]) -> int:
    """Fork, run `work` in the child, and return its process id."""
    child = os.fork()
    if child == 0:
        # The watchdog of the parent is a thread, which the child does not have.
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(TIMEOUT_SECONDS // 2)
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    return child


def wait_for(children: list[int]) -> None:
    for child in children:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            raise ValueError(f"a child ended with {status}")


def check_no_thread_is_left() -> None:
    # fsspec keeps a thread for its event loop, and that one threads for resolving addresses.
    lasting = ("MainThread", "fsspecIO", "asyncio_")
    if [one for one in threading.enumerate() if not one.name.startswith(lasting)]:
        raise ValueError(f"threads are left: {threading.enumerate()}")
