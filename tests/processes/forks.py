"""Scenarios with forks, threads and interrupts; each is a function that raises if it fails."""

import atexit
import faulthandler
import io
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scenario import TIMEOUT_SECONDS, check_rows, check_whole, content

import bloscpack as bp
from bloscpack.threads import map_ordered, run_indexed


def opened(path: Path, kind: str) -> bp.Array:
    """Open the array in one of the ways a handle can come."""
    if kind == "path":
        return bp.open(path)
    if kind == "bytes":
        return bp.open(path.read_bytes())
    if kind == "file object":
        return bp.open(path.open("rb"))
    if kind == "other object":
        return bp.open(io.BytesIO(path.read_bytes()))
    raise ValueError(kind)


def in_child(work: Callable[[], Any]) -> int:
    """Fork, do `work` in the child and return its id."""
    child = os.fork()
    if child == 0:
        # The watchdog of the parent is a thread, which is gone here.
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
    if threading.active_count() != 1:
        raise ValueError(f"threads are left: {threading.enumerate()}")


def fork_after_use(path: Path, kind: str) -> None:
    """Read, fork, read in parent and children, at the same time."""
    array = opened(path, kind)
    check_whole(array)
    check_no_thread_is_left()

    def read() -> None:
        for seed in range(5):
            check_rows(array, seed)
            check_whole(array)

    children = [in_child(read) for _ in range(3)]
    read()
    wait_for(children)
    check_whole(array)


def fork_while_reading(path: Path, kind: str) -> None:
    """Fork again and again while other threads are in the middle of reads."""
    array = opened(path, kind)
    stopped = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        while not stopped.is_set():
            try:
                check_rows(array, random.randrange(1000))
                check_whole(array)
            except BaseException as err:
                errors.append(err)
                return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for seed in range(12):
            child = in_child(lambda seed=seed: (check_rows(array, seed), check_whole(array)))
            check_rows(array, seed)
            wait_for([child])
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def threads_share_a_handle(path: Path, kind: str) -> None:
    """Read random rows of one handle in 8 threads."""
    array = opened(path, kind)
    errors: list[BaseException] = []
    together = threading.Barrier(8)

    def read(seed: int) -> None:
        together.wait()
        try:
            check_rows(array, seed, 200)
            check_whole(array)
        except BaseException as err:
            errors.append(err)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    check_no_thread_is_left()


def close_while_reading(path: Path) -> None:
    """Close handles that threads read from, and open others: no read gets another file's bytes."""
    other = path.with_name("other.blp")
    bp.save(other, -content(), codec="lz4")
    handles = [bp.open(path)]
    stopped = threading.Event()
    errors: list[BaseException] = []
    sys.setswitchinterval(1e-4)  # threads that find a closed handle try again at once

    def read() -> None:
        while not stopped.is_set():
            try:
                check_rows(handles[-1], random.randrange(1000), 5)
            except BaseException as err:
                if "closed" not in str(err):
                    errors.append(err)
                    return

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        handles[-1].close()
        with bp.open(other) as elsewhere:
            elsewhere[0]
            handles.append(bp.open(path))
    stopped.set()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def interrupt(path: Path) -> None:
    """Interrupt reads and writes at any moment: no thread is left and the handle works on."""
    array, target = bp.open(path), path.with_name("new.blp")
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    whole = content()
    for trial in range(20):
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.03))
        try:
            while True:
                if trial % 2:
                    array[:]
                else:
                    bp.save(target, whole)
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        helpers = [
            one for one in threading.enumerate() if one.name == "bloscpack" and one.is_alive()
        ]
        if helpers:
            raise ValueError(f"threads are left: {helpers}")
        check_rows(array, trial)
    check_whole(array)


def end_while_reading(path: Path) -> None:
    """End the program while a daemon thread reads, an iterator is open, and then read once more."""
    array = bp.open(path)
    begun = threading.Event()

    def read() -> None:
        while True:
            check_whole(array)
            begun.set()

    threading.Thread(target=read, daemon=True).start()
    begun.wait()
    results = map_ordered(bytes, iter(lambda: 1000, None), 4)
    next(results)
    globals()["left_open"] = results
    atexit.register(check_whole, array)


def fork_in_a_read(path: Path) -> None:
    """Fork in a task while helpers are at work; the child starts threads of its own."""
    array = bp.open(path)
    children: list[int] = []

    def task(index: int) -> None:
        if index % 40 == 0:
            children.append(in_child(lambda: check_whole(array)))
        array[index]

    run_indexed(task, range(200), 4)
    wait_for(children)
