"""Scenarios shared by every kind of handle: forks, threads, and other processes.

`check(handle, seed)` reads in all ways, compares, and raises if anything differs; it returns the
process id.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from forks import check_no_thread_is_left, in_child, wait_for

Check = Callable[[Any, int], object]


def fork_after_use(handle: Any, check: Check) -> None:
    """Read, fork, and read in the parent and in children at the same time."""
    check(handle, 0)
    check_no_thread_is_left()
    children = [in_child(lambda seed=seed: check(handle, seed)) for seed in range(3)]
    check(handle, 9)
    wait_for(children)
    check(handle, 1)


@contextmanager
def readers(handle: Any, check: Check, count: int = 2) -> Iterator[None]:
    """Read repeatedly in threads while the block runs."""
    stopped = threading.Event()
    errors: list[BaseException] = []

    def read(seed: int) -> None:
        while not stopped.is_set():
            try:
                check(handle, seed := seed + count)
            except BaseException as err:
                errors.append(err)
                return

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def fork_while_reading(handle: Any, check: Check, nforks: int = 6) -> None:
    """Fork repeatedly while other threads are reading."""
    with readers(handle, check):
        for seed in range(nforks):
            child = in_child(lambda seed=seed: check(handle, seed))
            check(handle, seed)
            wait_for([child])


def read_in_threads(handle: Any, check: Check, times: int = 3) -> None:
    """Read in 8 threads from the start, so that they all fill the caches of the handle at once."""
    errors: list[BaseException] = []
    together = threading.Barrier(8)

    def read(seed: int) -> None:
        together.wait()
        try:
            for each in range(times):
                check(handle, 10 * seed + each)
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


def travel(handle: Any, check: Check, method: str) -> None:
    """Pass a handle that has been used to processes, to a pool and to an executor."""
    context = multiprocessing.get_context(method)
    check(handle, 0)
    processes = [context.Process(target=check, args=(handle, seed)) for seed in range(2)]
    for process in processes:
        process.start()
    check(handle, 1)
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise ValueError([process.exitcode for process in processes])
    with context.Pool(2) as pool:
        if os.getpid() in pool.starmap(check, [(handle, seed) for seed in range(4)]):
            raise ValueError("not another process")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        if os.getpid() in executor.map(check, [handle] * 4, range(4)):
            raise ValueError("not another process")
    check(handle, 2)
