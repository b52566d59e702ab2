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
# Starting and joining a thread costs about 100 us, in which a codec passes some hundred KiB.
MIN_NBYTES_PER_THREAD = 1 << 20
# Seconds until a helper that waits sees that it need not.
_PATIENCE = 0.2
# Seconds in which a thread begins, if its start came so far before an interrupt.
_PATIENCE_TO_BEGIN = 1.0


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
    """The helper threads of one call: they run `work` beside the calling thread.

    None is left when the context ends. An interrupt (Ctrl-C) may come anywhere in there, on the
    way out too, so a crew is entered twice: the outer context takes up what an interrupt left of
    the inner. A second interrupt ends the waiting.

    Parameters
    ----------
    work : callable
        Returns soon after `stop` was called.
    stop : callable
        May be called again.
    """

    def __init__(self, work: Callable[[], None], stop: Callable[[], None]) -> None:
        self._work = work
        self._stop = stop
        self._threads: list[_Helper] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop()
        # Ctrl-C, or what another signal's handler raises; the caller may also just want no more.
        if kind is not None and not issubclass(kind, Exception | GeneratorExit):
            self.interrupt()
        # Garbage collection may close a generator in one of its own helpers.
        for thread in [one for one in self._threads if one is not current_thread()]:
            if not _join(thread):
                self._threads.remove(thread)

    def grow(self, size: int) -> bool:
        """Start helpers until there are `size` of them and return whether that was possible."""
        while len(self._threads) < size:
            # Daemons: a program that ends while another of its daemon threads reads must not wait.
            thread = _Helper(target=self._work, name="bloscpack", daemon=True)
            self._threads.append(thread)
            try:
                thread.start()
            except RuntimeError as err:
                if isinstance(err.__context__, KeyboardInterrupt):  # in the locks of `threading`
                    raise err.__context__ from None
                # The system gives no more, or the interpreter is ending: fewer do the work.
                self._threads.pop()
                return False
        return True

    def interrupt(self) -> None:
        """Have all stop to wait for what is done elsewhere."""
        for thread in self._threads:
            thread.is_interrupted = True


def _join(thread: Thread) -> bool:
    """Wait for a thread to end and return whether it has begun.

    If its start was interrupted, it begins in a moment or never.
    """
    until = monotonic() + _PATIENCE_TO_BEGIN
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
                todo.put(None)  # the next one waits as well
                return
            job.run(function)
            del job  # while this thread waits, the result is the consumer's alone

    def stop() -> None:
        nonlocal stopped
        stopped = True
        todo.put(None)

    crew, process = _Crew(work, stop), os.getpid()
    try:
        with crew, crew:
            for item in items:
                jobs.append(_Job(item))
                todo.put(jobs[-1])
                del item  # what stands here while the consumer works is kept
                # A single item starts no thread where the caller can do it.
                if not crew.grow(min(nthreads, len(jobs)) - takes_part):
                    takes_part = True
                if len(jobs) >= limit:
                    yield _finish(jobs.popleft(), function, todo if takes_part else None, process)
            while jobs:
                yield _finish(jobs.popleft(), function, todo if takes_part else None, process)
    finally:
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
