"""Threads: how many are used, and how work is divided among them.

Threads are started for a call and joined before it returns, so a fork never loses one. No thread
is started for work that a single thread finishes sooner. The calling thread works too, so
`nthreads` is the number of threads that work.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count as counter
from operator import itemgetter
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_DEFAULT_THREADS = 8
# Starting and joining a thread costs about 100 us; a codec processes some hundred KiB in that time.
MIN_NBYTES_PER_THREAD = 1 << 20
# Size of work that never limits the number of threads: encoding, or bytes not counted beforehand.
ALL_THREADS = 1 << 62
# How often a waiting helper checks for interruption, in seconds.
_POLL_INTERVAL = 0.2
# How long to wait for a thread whose start was interrupted to begin running, in seconds.
_START_TIMEOUT = 1.0


def resolve_nthreads(
    nthreads: int | None,
    nbytes: int,
    *,
    limit: int = MAX_DEFAULT_THREADS,
    least: int = MIN_NBYTES_PER_THREAD,
) -> int:
    """Return the number of threads to use for `nbytes` decoded bytes.

    An explicit `nthreads`, at least 1, takes precedence, then ``BLOSCPACK_NTHREADS``. The default
    is 1 inside a worker (`in_worker`), and elsewhere the number of processors this process may use,
    at most `limit` and one thread per `least` bytes. The result is never more than one thread per
    `MIN_NBYTES_PER_THREAD` bytes.
    """
    if nthreads is None:
        # Small reads are the common case and must not pay for reading the environment.
        if nbytes < 2 * MIN_NBYTES_PER_THREAD:
            return 1
        text = os.environ.get("BLOSCPACK_NTHREADS")
        if text:
            if not text.isdecimal():
                raise ValueError(f"BLOSCPACK_NTHREADS must be a number, not {text!r}")
            nthreads = int(text)
        elif nbytes < 2 * least or in_worker():
            return 1
        else:
            nthreads = min(limit, available_cpus(), nbytes // least)
    if not hasattr(nthreads, "__index__"):
        raise TypeError(f"nthreads must be an integer, not {nthreads!r:.80}")
    if nthreads < 1:
        raise ValueError(f"nthreads must be at least 1, not {nthreads}")
    return max(1, min(nthreads, nbytes // MIN_NBYTES_PER_THREAD))


def available_cpus() -> int:
    """Return the number of processors this process may use."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_worker() -> bool:
    """Return whether the calling thread is one of several workers that share the processors.

    Those are processes made by `multiprocessing` (by its pools, torch's DataLoader, joblib or dask,
    for example), tasks of joblib, tasks on a worker of distributed, and threads of dask's pool.
    Imports nothing: a library that has not been imported cannot have called us. Takes a few
    microseconds.
    """
    parent_process = _imported("multiprocessing", "parent_process")
    if parent_process is not None and parent_process() is not None:
        return True
    get_active_backend = _imported("joblib.parallel", "get_active_backend")
    if get_active_backend is not None and (get_active_backend()[0].nesting_level or 0) > 0:
        return True
    get_worker = _imported("distributed", "get_worker")
    if get_worker is not None:
        try:
            get_worker()
        except ValueError:  # raised outside of tasks
            pass
        else:
            return True
    # dask does not name the threads of its pool; this is the default name that Python gives them.
    return "dask.threaded" in sys.modules and current_thread().name.startswith("ThreadPoolExecutor")


def _imported(module: str, name: str) -> Callable[[], Any] | None:
    """Return a function of a module if the program has imported that module, else None."""
    return getattr(sys.modules.get(module), name, None)


class _Helper(Thread):
    """Helper thread of a crew."""

    is_interrupted = False  # whether to stop waiting, because the caller was interrupted


def result_of(future: "Future[Result]") -> Result:
    """Return the result of a future, such as a request in flight, or raise its error.

    A helper thread stops waiting when the thread that started it was interrupted.
    """
    thread = current_thread()
    if not isinstance(thread, _Helper):
        return future.result()
    while not thread.is_interrupted:
        try:
            return future.result(_POLL_INTERVAL)
        except TimeoutError:
            if future.done():  # the TimeoutError may come from the task itself
                return future.result()
    raise KeyboardInterrupt


class _Crew:
    """The helper threads of one call: they run `work` beside the calling thread.

    All of them have ended when the context ends. `stop` makes `work` return soon, and may be called
    more than once. An interrupt (Ctrl-C) may arrive at any point in the context, including its
    exit. A crew is therefore entered twice: the outer context joins the threads that an interrupt
    of the inner exit left running. A second interrupt ends the waiting.
    """

    def __init__(self, work: Callable[[], None], stop: Callable[[], None]) -> None:
        self._work = work
        self._stop = stop
        self._threads: list[_Helper] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop()
        # Ctrl-C, or an exception from another signal handler, means that nothing should wait;
        # GeneratorExit only means that the caller needs no more results.
        if kind is not None and not issubclass(kind, Exception | GeneratorExit):
            self.interrupt()
        # The garbage collector may close a generator in one of its own helper threads.
        for thread in [one for one in self._threads if one is not current_thread()]:
            if not _join(thread):
                self._threads.remove(thread)

    def grow(self, size: int) -> bool:
        """Start helpers until there are `size` of them, and return whether that succeeded."""
        while len(self._threads) < size:
            # Daemons, so that a program can exit while one of its own daemon threads is reading.
            thread = _Helper(target=self._work, name="bloscpack", daemon=True)
            self._threads.append(thread)
            try:
                thread.start()
            except RuntimeError as err:
                if isinstance(err.__context__, KeyboardInterrupt):  # raised while taking a lock
                    raise err.__context__ from None
                # No more threads are available, or the interpreter is shutting down: use fewer.
                self._threads.pop()
                return False
        return True

    def interrupt(self) -> None:
        """Make all helpers stop waiting for futures."""
        for thread in self._threads:
            thread.is_interrupted = True


def _join(thread: Thread) -> bool:
    """Wait for a thread to end and return whether it has begun.

    If its start was interrupted, it begins within a moment or never.
    """
    until = monotonic() + _START_TIMEOUT
    while True:
        try:
            thread.join()
        except RuntimeError:
            if monotonic() > until:
                return False
            sleep(0.001)
        else:
            return True


def run_indexed(task: Callable[[int], None], indices: Sequence[int], nthreads: int) -> None:
    """Call ``task(i)`` for every index, in any order, on `nthreads` threads.

    After a failure, or an interrupt of the calling thread, no more indices are started. The error
    of the lowest failed index is raised.
    """
    if nthreads <= 1 or len(indices) <= 1:
        for index in indices:
            task(index)
        return
    # next() on itertools.count is atomic under the GIL, and lock-free without it.
    ticket = counter()
    errors: list[tuple[int, BaseException]] = []
    stopped = False

    def work() -> None:
        while not (errors or stopped):
            position = next(ticket)
            if position >= len(indices):
                return
            try:
                task(indices[position])
            except BaseException as err:
                errors.append((position, err))

    def stop() -> None:
        nonlocal stopped
        stopped = True

    crew = _Crew(work, stop)
    try:
        with crew, crew:
            crew.grow(min(nthreads, len(indices)) - 1)
            work()
            if not all(isinstance(error, Exception) for _, error in errors):
                crew.interrupt()
        if errors:
            raise min(errors, key=itemgetter(0))[1]
    finally:
        errors.clear()  # errors refer to this frame, which refers to the buffers being filled


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], nthreads: int
) -> Iterator[Result]:
    """Return an iterator of ``function(item)`` in order, computed on `nthreads` threads.

    At most ``2 * nthreads`` items and results exist at once, so memory is bounded. Items are taken
    in the iterating thread, which computes results while it waits. The iterator cannot be used
    after a fork.
    """
    if nthreads <= 1:
        return map(function, items)
    return _map_in_threads(function, items, nthreads, 2 * nthreads, takes_part=True)


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], nthreads: int, ahead: int
) -> Iterator[Result]:
    """Return an iterator of ``function(item)`` in order, computed before they are requested.

    Work continues while the caller is busy: on `nthreads` threads besides the calling one, up to
    `ahead` items beyond the last result returned; twice `nthreads` is a good value. Items are taken
    in the iterating thread. The iterator cannot be used after a fork.
    """
    return _map_in_threads(function, items, nthreads, ahead + 1, takes_part=False)


class _Job(Generic[Item, Result]):
    """One item of `map_ordered` and its result."""

    __slots__ = ("done", "error", "finished", "item", "result")

    item: Item
    result: Result

    def __init__(self, item: Item) -> None:
        self.item = item
        self.error: BaseException | None = None
        self.done = False
        # Locked until the job is done.
        self.finished = Lock()
        self.finished.acquire()

    def run(self, function: Callable[[Item], Result]) -> None:
        """Compute the result, or record the error."""
        try:
            self.result = function(self.item)
        except BaseException as err:
            self.error = err
        del self.item
        self.done = True
        self.finished.release()

    def take(self) -> Result:
        """Return the result, or raise the error without keeping a reference to it.

        The error refers to the frame of `run`, which refers to the job: a reference cycle.
        """
        error, self.error = self.error, None
        if error is None:
            return self.result
        try:
            raise error
        finally:
            del error


def _map_in_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    nthreads: int,
    limit: int,
    *,
    takes_part: bool,
) -> Iterator[Result]:
    """Implement `map_ordered` and `map_ahead`, with at most `limit` items and results at once.

    With `takes_part` the calling thread is one of `nthreads`, and computes while it waits.
    """
    jobs: deque[_Job[Item, Result]] = deque()  # in order, not returned yet
    todo: SimpleQueue[_Job[Item, Result] | None] = SimpleQueue()  # those not started yet
    stopped = False

    def work() -> None:
        while True:
            job = todo.get()
            if job is None or stopped:
                todo.put(None)  # wakes the next waiting thread
                return
            job.run(function)
            del job  # so that a waiting thread does not keep the result alive

    def stop() -> None:
        nonlocal stopped
        stopped = True
        todo.put(None)

    crew, process = _Crew(work, stop), os.getpid()

    def results() -> Iterator[Result]:
        nonlocal takes_part
        for item in items:
            jobs.append(_Job(item))
            todo.put(jobs[-1])
            del item  # would stay alive while the consumer works
            # A single item starts no thread if the caller can compute it.
            grown = crew.grow(min(nthreads, len(jobs)) - takes_part)
            takes_part = takes_part or not grown
            if len(jobs) >= limit:
                yield _finish(jobs.popleft(), function, todo if takes_part else None, process)
        while jobs:
            yield _finish(jobs.popleft(), function, todo if takes_part else None, process)

    try:
        # Not with the loops in this block: an interrupt at the end of one would not run the exits
        # on Python 3.12 and 3.13 (python/cpython#130279).
        with crew, crew:
            yield from results()
    finally:
        for job in jobs:
            job.error = None  # see `take`


def _finish(
    job: _Job[Item, Result],
    function: Callable[[Item], Result],
    todo: "SimpleQueue[_Job[Item, Result] | None] | None",
    process: int,
) -> Result:
    """Return the result of `job`; while waiting, run jobs from `todo`."""
    if os.getpid() != process:
        raise RuntimeError("this iterator works on threads that a forked child does not have")
    while todo is not None and not job.done:
        try:
            other = todo.get_nowait()
        except Empty:
            break
        if other is not None:
            other.run(function)
            # An interrupt of this thread is raised at once, out of order.
            if other.error is not None and not isinstance(other.error, Exception):
                other.take()
    if not job.done:
        job.finished.acquire()
    return job.take()


async def run_beside(function: Callable[[], Result]) -> Result:
    """Call a function in a thread of the running event loop, and await its result."""
    import asyncio

    return await asyncio.to_thread(function)
