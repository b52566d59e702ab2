"""How many threads work, and how: the one place that decides it.

Threads are started for a call and joined before it returns. None survives to be lost in a fork,
and none is started for work that a single thread finishes sooner.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count as counter
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_DEFAULT_THREADS = 8
# Starting and joining a thread costs about 100 us, in which a codec passes some hundred KiB.
MIN_NBYTES_PER_THREAD = 1 << 20


def resolve_nthreads(nthreads: int | None, nbytes: int) -> int:
    """Return the number of threads to use for `nbytes` decoded bytes.

    `nthreads` wins if given, then ``BLOSCPACK_NTHREADS``, then the processors this process may
    use, at most 8; in any case no more than the work is worth.

    Raises
    ------
    ValueError
        The number asked for is less than 1 or no number.
    """
    if nthreads is None:
        # The usual small read must not pay for looking at the environment.
        if nbytes < 2 * MIN_NBYTES_PER_THREAD:
            return 1
        text = os.environ.get("BLOSCPACK_NTHREADS")
        if text:
            if not text.isdecimal():
                raise ValueError(f"BLOSCPACK_NTHREADS must be a number, not {text!r}")
            nthreads = int(text)
        else:
            nthreads = min(MAX_DEFAULT_THREADS, available_cpus())
    if nthreads < 1:
        raise ValueError(f"nthreads must be at least 1, not {nthreads}")
    return max(1, min(nthreads, nbytes // MIN_NBYTES_PER_THREAD))


def available_cpus() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_indexed(task: Callable[[int], None], indices: Sequence[int], nthreads: int) -> None:
    """Call ``task(i)`` for every index, in any order, on `nthreads` threads.

    After a failure no new index is started; the error of the lowest failed index is raised.
    """
    if nthreads <= 1 or len(indices) <= 1:
        for index in indices:
            task(index)
        return
    # next() on itertools.count is one step under the GIL and a lock-free one without it.
    ticket = counter()
    errors: list[tuple[int, BaseException]] = []

    def work() -> None:
        while not errors:
            position = next(ticket)
            if position >= len(indices):
                return
            try:
                task(indices[position])
            except BaseException as err:
                errors.append((position, err))

    helpers = [Thread(target=work, daemon=True) for _ in range(min(nthreads, len(indices)) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if errors:
        raise min(errors, key=lambda failure: failure[0])[1]


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], nthreads: int
) -> Iterator[Result]:
    """Return an iterator of ``function(item)`` in order, computed on `nthreads` threads.

    At most ``2 * nthreads`` results exist at once, so memory stays bounded.
    """
    if nthreads <= 1:
        return map(function, items)
    return _map_in_pool(function, items, nthreads)


def _map_in_pool(
    function: Callable[[Item], Result], items: Iterable[Item], nthreads: int
) -> Iterator[Result]:
    import concurrent.futures  # on use: it takes 3 ms to load, and small content does without

    with concurrent.futures.ThreadPoolExecutor(nthreads) as pool:
        pending: deque[concurrent.futures.Future[Result]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= 2 * nthreads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
