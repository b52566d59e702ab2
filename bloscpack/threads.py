"""How many threads work, and how: the one place that decides it.

Threads are started for a call and joined before it returns. None survives to be lost in a fork,
and none is started for work that a single thread finishes sooner. The calling thread works too,
so that `nthreads` is the number of threads that work.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count as counter
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_DEFAULT_THREADS = 8
# Starting and joining a thread costs about 100 us, in which a codec passes some hundred KiB.
MIN_NBYTES_PER_THREAD = 1 << 20
# Seconds until a helper that waits sees that it need not.
_PATIENCE = 0.2


def resolve_nthreads(nthreads: int | None, nbytes: int, *, limit: int = MAX_DEFAULT_THREADS) -> int:
    """Return the number of threads to use for `nbytes` decoded bytes.

    `nthreads` wins if given, then ``BLOSCPACK_NTHREADS``, then 1 inside a worker (`in_worker`),
    then the processors this process may use, at most `limit`; in any case no more than the work is
    worth.

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
            nthreads = 1 if in_worker() else min(limit, available_cpus())
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
    """Return whether the calling thread is one of several that share the processors already.

    That is any process made by `multiprocessing` (those of its pools, of torch's DataLoader, of
    joblib and of dask among them), a task of joblib, a task on a worker of distributed, and a
    thread of dask's pool.

    Notes
    -----
    Nothing is imported: what a program has not imported cannot have called us. A few microseconds.
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
        except ValueError:  # what it raises outside of tasks
            pass
        else:
            return True
    # dask names no thread of its own pool; this is the name that Python gives them.
    return "dask.threaded" in sys.modules and current_thread().name.startswith("ThreadPoolExecutor")


def _imported(module: str, name: str) -> Callable[[], Any] | None:
    """Return a function of a module if the program has imported that, else None."""
    function: Callable[[], Any] | None = getattr(sys.modules.get(module), name, None)
    return function


class _Helper(Thread):
    """A thread of a crew.

    Attributes
    ----------
    is_interrupted : bool
        Nobody wants any more what it is waiting for.
    """

    is_interrupted = False


def result_of(future: "Future[Result]") -> Result:
    """Return the result of what goes on elsewhere, a request for instance, or raise its error.

    Helper threads stop to wait when the thread that called for them was interrupted.
    """
    thread = current_thread()
    if not isinstance(thread, _Helper):
        return future.result()
    while not thread.is_interrupted:
        try:
            return future.result(_PATIENCE)
        except TimeoutError:
            if future.done():  # the error may be its own
                return future.result()
    raise KeyboardInterrupt


class _Crew:
    """The helper threads of one call: they run `work` beside the calling thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._threads: list[_Helper] = []

    def __len__(self) -> int:
        return len(self._threads)

    def add(self) -> bool:
        """Start one more and return whether that was possible."""
        # Daemons: a program that ends while another of its daemon threads reads must not wait.
        thread = _Helper(target=self._work, name="bloscpack", daemon=True)
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:
            # The system gives no more, or the interpreter is ending: the work is done by fewer.
            self._threads.pop()
            return False
        return True

    def interrupt(self) -> None:
        """Have all stop to wait for what is done elsewhere."""
        for thread in self._threads:
            thread.is_interrupted = True

    def join(self) -> None:
        """Wait for all, which must have been told to stop.

        An interrupt (Ctrl-C) is raised when they have ended; a second one ends the waiting.
        """
        interrupt: BaseException | None = None
        if sys.exc_info()[0] is KeyboardInterrupt:  # it led here
            self.interrupt()
        for thread in self._threads:
            # Garbage collection may close a generator in one of its own helpers, and an interrupt
            # may have come while a thread was started.
            if thread is current_thread() or thread.ident is None:
                continue
            try:
                thread.join()
            except BaseException as err:
                if interrupt is not None:
                    raise
                interrupt = err
                self.interrupt()
                thread.join()
        if interrupt is not None:
            raise interrupt


def run_indexed(task: Callable[[int], None], indices: Sequence[int], nthreads: int) -> None:
    """Call ``task(i)`` for every index, in any order, on `nthreads` threads.

    After a failure, or an interrupt of the calling thread, no new index is started; the error of
    the lowest failed index is raised.
    """
    if nthreads <= 1 or len(indices) <= 1:
        for index in indices:
            task(index)
        return
    # next() on itertools.count is one step under the GIL and a lock-free one without it.
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

    crew = _Crew(work)
    try:
        while len(crew) < min(nthreads, len(indices)) - 1 and crew.add():
            pass
        work()
    finally:
        stopped = True
        if not all(isinstance(error, Exception) for _, error in errors):
            crew.interrupt()
        crew.join()
    try:
        if errors:
            raise min(errors, key=lambda failure: failure[0])[1]
    finally:
        errors.clear()  # they hold this frame, and it what was read into


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], nthreads: int
) -> Iterator[Result]:
    """Return an iterator of ``function(item)`` in order, computed on `nthreads` threads.

    At most ``2 * nthreads`` items and results exist at once, so memory stays bounded. Items are
    taken in the thread that iterates, which computes as well while it has to wait. It must stay
    in its process.
    """
    if nthreads <= 1:
        return map(function, items)
    return _map_in_threads(function, items, nthreads, 2 * nthreads, takes_part=True)


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], nthreads: int, ahead: int
) -> Iterator[Result]:
    """Return an iterator of ``function(item)`` in order, computed before they are asked for.

    The work goes on while the caller does something else: on `nthreads` threads beside the calling
    one, up to `ahead` items beyond the result that was given last. Items are taken in the thread
    that iterates. It must stay in its process.

    Parameters
    ----------
    nthreads : int
        At least 1.
    ahead : int
        At least 1, better twice `nthreads`.
    """
    return _map_in_threads(function, items, nthreads, ahead + 1, takes_part=False)


class _Job(Generic[Item, Result]):
    """One item of `map_ordered` on its way to a result."""

    __slots__ = ("done", "error", "finished", "item", "result")

    item: Item
    result: Result

    def __init__(self, item: Item) -> None:
        self.item = item
        self.error: BaseException | None = None
        self.done = False
        # Held until the job is done.
        self.finished = Lock()
        self.finished.acquire()

    def run(self, function: Callable[[Item], Result]) -> None:
        """Compute the result; an error is kept."""
        try:
            self.result = function(self.item)
        except BaseException as err:
            self.error = err
        del self.item
        self.done = True
        self.finished.release()

    def take(self) -> Result:
        """Return the result or raise the error, which is not kept.

        An error holds the frame of `run`, and that the job.
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
    """Do what `map_ordered` and `map_ahead` do, with `limit` items and results at once.

    With `takes_part` the calling thread is one of `nthreads`, and computes while it has to wait.
    """
    jobs: deque[_Job[Item, Result]] = deque()  # in order, not given yet
    todo: SimpleQueue[_Job[Item, Result] | None] = SimpleQueue()  # of these, not begun
    stopped = False

    def work() -> None:
        while True:
            job = todo.get()
            if job is None or stopped:
                return
            job.run(function)
            del job  # while this thread waits, the result is the consumer's alone

    crew, process = _Crew(work), os.getpid()
    try:
        for item in items:
            jobs.append(_Job(item))
            todo.put(jobs[-1])
            del item  # what stands here while the consumer works is kept
            # A single item starts no thread where the caller can do it.
            if len(crew) < min(nthreads, len(jobs)) - takes_part and not crew.add():
                takes_part = True
            if len(jobs) >= limit:
                yield _finish(jobs.popleft(), function, todo if takes_part else None, process)
        while jobs:
            yield _finish(jobs.popleft(), function, todo if takes_part else None, process)
    finally:
        stopped = True
        for _ in range(len(crew)):
            todo.put(None)
        crew.join()
        for job in jobs:
            job.error = None  # see `take`


def _finish(
    job: _Job[Item, Result],
    function: Callable[[Item], Result],
    todo: "SimpleQueue[_Job[Item, Result] | None] | None",
    process: int,
) -> Result:
    """Return the result of `job`, doing what is `todo` meanwhile."""
    if os.getpid() != process:
        raise RuntimeError("this iterator works on threads that a forked child does not have")
    while todo is not None and not job.done:
        try:
            other = todo.get_nowait()
        except Empty:
            break
        if other is not None:
            other.run(function)
            # An interrupt of this thread does not wait for its turn.
            if other.error is not None and not isinstance(other.error, Exception):
                other.take()
    if not job.done:
        job.finished.acquire()
    return job.take()


async def run_beside(function: Callable[[], Result]) -> Result:
    """Call a function in a thread of the running event loop's, and await what it returns."""
    import asyncio

    return await asyncio.to_thread(function)
