"""Work in several processes: results in order, the shared object sent once to each process.

Processes are started for a call and have ended when it returns, errors and interrupts included. A
worker whose parent was killed ends by itself, and one that was killed (or ran out of memory) is an
error of the call, never a hang. Objects travel as `multiprocessing` sends them; which start method
is used is up to the program.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from threading import Thread
from typing import Any, TypeVar

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

# What a worker process calls, and with what; set once, when it starts.
_task: tuple[Callable[[Any, Any], Any], Any]


def map_in_processes(
    function: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Iterable[Item],
    nprocesses: int,
) -> Generator[Result, None, None]:
    """Yield ``function(shared, item)`` in the order of `items`.

    Parameters
    ----------
    function : callable
        A function of a module, if there is more than one process.
    shared : object
        Sent once to each process.
    items : iterable
        Taken as they are needed: at most ``2 * nprocesses`` are under way or done and not taken.
    nprocesses : int
        With 1 the work is done in this process.

    Raises
    ------
    ValueError
        `nprocesses` is less than 1.
    RuntimeError
        A process was killed.

    Notes
    -----
    An error of `function` is raised when its turn has come; what other processes have begun is
    finished first, and the rest dropped. The same happens when the iterator is closed.
    """
    if nprocesses < 1:
        raise ValueError(f"the number of processes must be at least 1, not {nprocesses}")
    if nprocesses == 1:
        return (function(shared, item) for item in items)
    return _map(function, shared, items, nprocesses)


def _map(
    function: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Iterable[Item],
    nprocesses: int,
) -> Generator[Result, None, None]:
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    todo = iter(items)
    first = list(islice(todo, 2 * nprocesses))
    pool = ProcessPoolExecutor(
        min(nprocesses, max(1, len(first))), initializer=_start, initargs=(function, shared)
    )
    futures: deque[Future[Result]] = deque()
    try:
        futures.extend(pool.submit(_run, item) for item in first)
        while futures:
            result = futures.popleft().result()
            # Before the consumer works on this one, so that no process has to wait.
            futures.extend(pool.submit(_run, item) for item in islice(todo, 1))
            yield result
    except BrokenProcessPool as err:
        raise RuntimeError(
            "a worker process ended before its work was done: it was killed, or memory ran out"
        ) from err
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start(function: Callable[[Any, Any], Any], shared: Any) -> None:
    """Prepare a worker process."""
    global _task
    _task = (function, shared)
    # Ctrl-C goes to all processes of a terminal: the parent tells of it.
    signal.signal(signal.SIGINT, _end)
    Thread(target=_end_with_parent, name="bloscpack", daemon=True).start()


def _run(item: Any) -> Any:
    """Work on one item, in a worker process."""
    function, shared = _task
    return function(shared, item)


def _end(*_: object) -> None:
    os._exit(1)


def _end_with_parent() -> None:
    """End this process when its parent does: its queues would wait forever."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        _end()
