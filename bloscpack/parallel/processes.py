"""Worker processes: the only module that starts any.

Work that runs in Python (decoding videos, resizing, reading many small files) only scales with
processes. Each task is sent to a worker as a pickle. The worker sends its result back in parts, and
the caller receives the parts of all tasks in the order of the tasks, however they finish.

Memory is bounded. Tasks are sent a limited number ahead. When too many bytes of parts are waiting,
only the worker whose turn it is is read; the others block on their pipes. A killed worker is
noticed because its pipe closes, and workers exit when the program does, so nothing waits for a dead
process.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Generic, TypeVar

from ..exceptions import WorkerError
from ..types import ClosedOnExit
from .imports import importing
from .threads import MAX_DEFAULT_THREADS, available_cpus, in_worker

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")
Task = TypeVar("Task")
Part = TypeVar("Part")

# Tasks per worker that are sent before their turn.
_AHEAD = 8
MAX_WAITING_NBYTES = 256 << 20
_SECONDS_TO_END = 5.0
_SECONDS_BETWEEN_SIGNAL_CHECKS = 0.5

_READY, _PART, _DONE = range(3)


def resolve_nworkers(nworkers: int | None) -> int:
    """Return the number of processes to use; 1 means this process only.

    The default is 1 in a process started by `multiprocessing`. Elsewhere it is the number of
    processors this process may use, at most 8.
    """
    if nworkers is None:
        return 1 if in_worker() else min(MAX_DEFAULT_THREADS, available_cpus())
    if nworkers < 1:
        raise ValueError(f"workers must be at least 1, not {nworkers}")
    return nworkers


def start_methods() -> list[str]:
    """Return the ways to start processes on this system."""
    with importing:
        import multiprocessing

    return multiprocessing.get_all_start_methods()


def default_start_method() -> str:
    """Return how the program starts processes."""
    with importing:
        import multiprocessing

    return multiprocessing.get_start_method()


def map_in_processes(
    function: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Iterable[Item],
    nprocesses: int,
) -> Generator[Result, None, None]:
    """Yield ``function(shared, item)`` in the order of `items`.

    `function` must be at the level of a module if there is more than one process; with one, the
    work is done in this process. `shared` is sent once to each process. `items` are consumed on
    demand: at most ``2 * nprocesses`` ahead of their turn. WorkerError if a process was killed.

    An error of `function` is raised when its turn comes. Work that other processes have started is
    finished first, and the rest is dropped. Closing the iterator does the same.
    """
    if resolve_nworkers(nprocesses) == 1:
        return (function(shared, item) for item in items)
    return _map(function, shared, items, nprocesses)


def _map(
    function: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Iterable[Item],
    nprocesses: int,
) -> Generator[Result, None, None]:
    one = partial(_single, function, shared)
    with Workers[Item, Result](one, nprocesses, method=None, ahead=2 * nprocesses) as workers:
        try:
            for job in workers.run(items):
                yield from job.parts()
        except (Exception, GeneratorExit):
            workers.finish()
            raise


def _single(
    function: Callable[[Shared, Item], Result], shared: Shared, item: Item
) -> Iterator[Result]:
    yield function(shared, item)


class Job(Generic[Task, Part]):
    """A task that has been submitted.

    Attributes
    ----------
    task : Task
        The submitted task.
    """

    def __init__(self, task: Task, pool: "Workers[Task, Part]") -> None:
        self.task = task
        self._pool = pool
        self._received: deque[tuple[int, Part]] = deque()  # with their pickled sizes
        self._ended = False
        self._dropped = False
        self._error: BaseException | None = None
        self._is_error_raised = False
        self._function: Callable[[Task], Iterable[Part]] | None = None  # to call in this process

    def parts(self) -> Iterator[Part]:
        """Yield the parts as they arrive; the error of the function is raised in its place.

        WorkerError if the process that worked on it exited. When `parts` is called again after
        that, another worker restarts the task.
        """
        if self._function is not None:
            yield from self._function(self.task)
            return
        if self._is_error_raised and isinstance(self._error, WorkerError):
            self._is_error_raised, self._error, self._ended = False, None, False
            self._pool._restart(self)
        while True:
            while self._received:
                nbytes, part = self._received.popleft()
                self._pool._waiting_nbytes -= nbytes
                yield part
            if self._ended:
                break
            self._pool._pump(self)
        if self._error is not None:
            self._is_error_raised = True
            raise self._error

    def _receive(self, part: Part, nbytes: int) -> None:
        if not self._dropped:
            self._received.append((nbytes, part))
            self._pool._waiting_nbytes += nbytes

    def _end(self, error: BaseException | None) -> None:
        self._ended, self._error = True, error

    def _drop(self) -> None:
        self._dropped = True
        self._pool._waiting_nbytes -= sum(nbytes for nbytes, _ in self._received)
        self._received.clear()


class _Worker(Generic[Task, Part]):
    """One process, our end of its pipe, and its current job."""

    def __init__(self, process: Any, pipe: Any) -> None:
        self.process = process
        self.pipe = pipe
        self.job: Job[Task, Part] | None = None
        self.is_ready = False

    def end(self) -> int | None:
        """End the process and return its exit code, negative for a signal."""
        self.pipe.close()
        self.process.terminate()
        self.process.join(_SECONDS_TO_END)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code: int | None = self.process.exitcode
        self.process.close()
        return code


class Workers(ClosedOnExit, Generic[Task, Part]):
    """Processes that compute ``function(task)``; a context manager, not thread-safe.

    Parameters
    ----------
    function : callable
        A module-level function, so that it pickles; takes a task and returns an iterable of parts.
    count : int
        Largest number of processes. Each is started when there is a task for it.
    method : {"spawn", "forkserver", "fork"} or None, optional
        Start method of `multiprocessing`; None uses the one the program has set. Spawned processes
        inherit no lock, thread or open file.
    ahead : int, optional
        Tasks that are taken before their turn; 8 per process by default.
    max_waiting_nbytes : int, optional
        Bytes of parts that may wait for their turn before workers block.

    Notes
    -----
    Unless they are forked, workers import the program's main module, so the program must keep its
    work behind ``if __name__ == "__main__":``. Workers ignore Ctrl-C; the parent process ends them.
    """

    def __init__(
        self,
        function: Callable[[Task], Iterable[Part]],
        count: int,
        *,
        method: str | None = "spawn",
        ahead: int | None = None,
        max_waiting_nbytes: int = MAX_WAITING_NBYTES,
    ) -> None:
        with importing:
            import multiprocessing

        self._context: Any = multiprocessing.get_context(method)
        self._function = function
        self._count = count
        self._ahead = _AHEAD * count if ahead is None else ahead
        self._max_waiting_nbytes = max_waiting_nbytes
        self._waiting_nbytes = 0
        self._workers: list[_Worker[Task, Part]] = []
        self._pending: deque[Job[Task, Part]] = deque()  # not sent to a worker yet, in order

    def close(self) -> None:
        """End all processes, even while they are working; idempotent."""
        self._pending.clear()
        for worker in self._workers:  # signal all of them before waiting for any
            worker.process.terminate()
        while self._workers:
            self._workers.pop().end()

    def finish(self) -> None:
        """Start no more tasks, and wait for those that are running."""
        self._pending.clear()
        while busy := [worker.job for worker in self._workers if worker.job is not None]:
            self._pump(busy[0])

    def run(
        self, tasks: Iterable[Task], *, here: Callable[[Task], bool] | None = None
    ) -> Iterator[Job[Task, Part]]:
        """Yield a job for each task, in order, while workers compute the next ones.

        A task for which `here` returns True runs in this process, when its parts are taken. Parts
        that were not taken are dropped when the next job is requested. Tasks are taken in the
        thread that iterates. WorkerError if a process exited before it accepted any work.
        """
        jobs: deque[Job[Task, Part]] = deque()
        for task in tasks:
            job = Job(task, self)
            jobs.append(job)
            if here is not None and here(task):
                job._function = self._function
            else:
                self._pending.append(job)
                self._dispatch()
            if len(jobs) > self._ahead:
                yield from self._yield_in_turn(jobs.popleft())
        while jobs:
            yield from self._yield_in_turn(jobs.popleft())

    def _yield_in_turn(self, job: Job[Task, Part]) -> Iterator[Job[Task, Part]]:
        yield job
        job._drop()

    def _restart(self, job: Job[Task, Part]) -> None:
        self._pending.appendleft(job)
        self._dispatch()

    def _dispatch(self) -> None:
        """Send pending jobs to idle workers, starting more workers if needed."""
        from multiprocessing.reduction import ForkingPickler

        while self._pending:
            worker = next((each for each in self._workers if each.job is None), None)
            if worker is None:
                if len(self._workers) >= self._count:
                    return
                worker = self._start()
            job = self._pending.popleft()
            try:
                message = ForkingPickler.dumps(job.task)
            except Exception as err:
                # In its turn, as an error of the function. With its traceback it would keep this
                # frame and the message before, a view that then could not be released in order.
                job._end(err.with_traceback(None))
                continue
            worker.job = job
            # If it has exited, the next read from its pipe reports that.
            with suppress(OSError):
                worker.pipe.send_bytes(message)

    def _start(self) -> _Worker[Task, Part]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_work, args=(self._function, theirs), name="bloscpack", daemon=True
        )
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()  # else its pipe would stay open when the worker is killed
        worker: _Worker[Task, Part] = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    def _pump(self, job: Job[Task, Part]) -> None:
        """Wait for messages and handle them; `job` is the one whose turn it is."""
        from multiprocessing.connection import wait

        listening = self._workers
        if self._waiting_nbytes >= self._max_waiting_nbytes:
            # If its turn comes before a worker is free for it, any message may free one.
            listening = [each for each in listening if each.job is job] or listening
        pipes = {each.pipe: each for each in listening}
        # A signal that arrives just before the system call, or in another thread, does not end the
        # wait. Python handles it between two calls, so an endless wait would lose a Ctrl-C.
        while not (ready := wait(list(pipes), _SECONDS_BETWEEN_SIGNAL_CHECKS)):
            pass
        for pipe in ready:
            self._take_message(pipes[pipe])

    def _take_message(self, worker: _Worker[Task, Part]) -> None:
        from multiprocessing.reduction import ForkingPickler

        try:
            message = worker.pipe.recv_bytes()
        except (EOFError, OSError):
            self._remove_exited(worker)
            return
        kind, value = ForkingPickler.loads(message)
        if kind == _READY:
            worker.is_ready = True
        elif worker.job is not None:
            if kind == _PART:
                worker.job._receive(value, len(message))
            else:
                worker.job._end(_add_traceback(*value) if value else None)
                worker.job = None
                self._dispatch()

    def _remove_exited(self, worker: _Worker[Task, Part]) -> None:
        self._workers.remove(worker)
        worker.process.join(_SECONDS_TO_END)  # else the exit code is that of the signal of `end`
        reason = _describe(worker.end())
        if not worker.is_ready:
            raise WorkerError(
                f"a worker process ended before it took any work ({reason}): a program that uses "
                'workers must keep its work behind `if __name__ == "__main__":`',
                started=False,
            )
        if worker.job is not None:
            worker.job._end(
                WorkerError(f"a worker process ended before its work was done ({reason})")
            )
        self._dispatch()


def _add_traceback(err: Exception, text: str) -> Exception:
    err.__cause__ = _RemoteTraceback(text)
    return err


def _describe(code: int | None) -> str:
    """Describe an exit code of `multiprocessing`."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _work(function: Callable[[Any], Iterable[Any]], pipe: Any) -> None:
    """Serve tasks from `pipe` until it closes: the main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_program, daemon=True).start()
    with suppress(EOFError, OSError):  # the other end is closed
        pipe.send((_READY, None))
        while True:
            for message in _messages(function, pipe.recv()):
                pipe.send_bytes(message)


def _end_with_program() -> None:
    """Exit, even in the middle of work, when the parent process exits."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _messages(function: Callable[[Any], Iterable[Any]], task: Any) -> Iterator[memoryview]:
    """Yield the pickled parts of a task, then its end, with the error if it failed."""
    from multiprocessing.reduction import ForkingPickler

    end = None
    try:
        for part in function(task):
            # Pickled here, so that a part that cannot be pickled is an error of its task.
            yield ForkingPickler.dumps((_PART, part))
    except Exception as err:
        end = _portable(err)
    yield ForkingPickler.dumps((_DONE, end))


def _portable(err: Exception) -> tuple[Exception, str]:
    """Return an error that can be pickled, and its traceback as text."""
    from multiprocessing.reduction import ForkingPickler
    from traceback import format_exception

    text = "".join(format_exception(err))
    try:
        ForkingPickler.loads(ForkingPickler.dumps(err))
    except Exception:
        return RuntimeError(f"{type(err).__name__}: {err}"), text
    return err, text


class _RemoteTraceback(Exception):  # noqa: N818 - the name is printed in tracebacks
    """Cause of an error from a worker; carries the traceback of the worker."""

    def __str__(self) -> str:
        return f"in a worker process\n\n{self.args[0]}"
