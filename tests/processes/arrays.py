"""Scenarios with arrays: forks, threads and interrupts; each raises if it fails."""

import atexit
import io
import random
import signal
import sys
import threading
from pathlib import Path

import sharing
from forks import in_child, wait_for
from scenario import check_rows, check_whole, content

import bloscpack as bp
from bloscpack.parallel.threads import map_ordered, run_indexed


def opened(path: Path, kind: str) -> bp.Array:
    """Open the array in one of the supported ways."""
    if kind == "path":
        return bp.open(path)
    if kind == "bytes":
        return bp.open(path.read_bytes())
    if kind == "file object":
        return bp.open(path.open("rb"))
    if kind == "other object":
        return bp.open(io.BytesIO(path.read_bytes()))
    raise ValueError(kind)


def check(array: bp.Array, seed: int) -> None:
    """Read random rows, then everything."""
    check_rows(array, seed)
    check_whole(array)


def fork_after_use(path: Path, kind: str) -> None:
    sharing.fork_after_use(opened(path, kind), check)


def fork_while_reading(path: Path, kind: str) -> None:
    sharing.fork_while_reading(opened(path, kind), check)


def threads_share_a_handle(path: Path, kind: str) -> None:
    sharing.read_in_threads(opened(path, kind), check)


def close_while_reading(path: Path) -> None:
    """Close handles while threads read, and open others: no read gets data of another file."""
    other = path.with_name("other.blp")
    bp.save(other, -content(), codec="lz4")
    handles = [bp.open(path)]
    stopped = threading.Event()
    errors: list[BaseException] = []
    sys.setswitchinterval(1e-4)  # threads that find a closed handle retry at once

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
    """Interrupt reads and writes at any moment: no thread is left, and the handle still works."""
    array, target = bp.open(path), path.with_name("new.blp")
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    whole = content()
    for trial in range(20):
        try:
            # Again later: CPython drops an interrupt that falls into a weakref callback.
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.03), 20)
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
    """Exit while a daemon thread reads and an iterator is open, then read once more."""
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
    """Fork in a task while helpers are working; the child starts its own threads."""
    array = bp.open(path)
    children: list[int] = []

    def task(index: int) -> None:
        if index % 40 == 0:
            children.append(in_child(lambda: check_whole(array)))
        array[index]

    run_indexed(task, range(200), 4)
    wait_for(children)
