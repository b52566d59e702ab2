"""Threads: their number, the order of results, and that all of them are joined."""

import contextlib
import gc
import inspect
import multiprocessing
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import FrameType, SimpleNamespace

import pytest

import bloscpack.parallel.threads
from bloscpack.parallel.threads import (
    MAX_DEFAULT_THREADS,
    MIN_NBYTES_PER_THREAD,
    available_cpus,
    in_worker,
    map_ahead,
    map_ordered,
    resolve_nthreads,
    result_of,
    run_indexed,
)

from .. import threadlist

MUCH = 1 << 40
# Tasks of which a helper does not finish all before the caller runs again.
MANY = 10_000_000
counts = pytest.mark.parametrize("nthreads", [1, 2, 7])
pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def test_number_asked_for_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "3")
    assert resolve_nthreads(5, MUCH) == 5
    assert resolve_nthreads(None, MUCH) == 3
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "")
    assert resolve_nthreads(None, MUCH) == min(MAX_DEFAULT_THREADS, available_cpus())
    monkeypatch.delenv("BLOSCPACK_NTHREADS")
    assert resolve_nthreads(None, MUCH) == min(MAX_DEFAULT_THREADS, available_cpus())


def test_a_worker_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BLOSCPACK_NTHREADS", raising=False)
    monkeypatch.setattr(bloscpack.parallel.threads, "in_worker", lambda: True)
    assert resolve_nthreads(None, MUCH) == 1
    assert resolve_nthreads(5, MUCH) == 5
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "3")
    assert resolve_nthreads(None, MUCH) == 3


def test_little_work_does_not_ask_whether_it_is_in_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bloscpack.parallel.threads, "in_worker", lambda: pytest.fail("asked"))
    assert resolve_nthreads(None, 2 * MIN_NBYTES_PER_THREAD - 1) == 1
    assert resolve_nthreads(4, MUCH) == 4


class TestInWorker:
    """Fakes of libraries that run workers; tests/processes uses the real ones."""

    @pytest.fixture(autouse=True)
    def _nothing_is_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("joblib.parallel", "distributed", "dask.threaded"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)

    def test_usual_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not in_worker()
        monkeypatch.delitem(sys.modules, "multiprocessing")
        assert not in_worker()

    def test_module_that_is_being_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("multiprocessing", "joblib.parallel", "distributed"):
            monkeypatch.setitem(sys.modules, module, SimpleNamespace())  # type: ignore[arg-type]
        assert not in_worker()

    def test_multiprocessing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(multiprocessing, "parent_process", object)
        assert in_worker()

    @pytest.mark.parametrize(("level", "expected"), [(None, False), (0, False), (1, True)])
    def test_joblib(
        self, monkeypatch: pytest.MonkeyPatch, level: int | None, expected: bool
    ) -> None:
        module = SimpleNamespace(
            get_active_backend=lambda: (SimpleNamespace(nesting_level=level), 2)
        )
        monkeypatch.setitem(sys.modules, "joblib.parallel", module)  # type: ignore[arg-type]
        assert in_worker() == expected

    @pytest.mark.parametrize("is_task", [False, True])
    def test_distributed(self, monkeypatch: pytest.MonkeyPatch, is_task: bool) -> None:
        def get_worker() -> object:
            if not is_task:
                raise ValueError("No worker found")
            return object()

        module = SimpleNamespace(get_worker=get_worker)
        monkeypatch.setitem(sys.modules, "distributed", module)  # type: ignore[arg-type]
        assert in_worker() == is_task

    def test_dask_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found: list[bool] = []

        def ask(name: str) -> bool:
            thread = threading.Thread(target=lambda: found.append(in_worker()), name=name)
            thread.start()
            thread.join()
            return found.pop()

        assert not ask("ThreadPoolExecutor-0_1")
        monkeypatch.setitem(sys.modules, "dask.threaded", SimpleNamespace())  # type: ignore[arg-type]
        assert ask("ThreadPoolExecutor-0_1")
        assert not ask("Thread-1")
        assert not in_worker()


@pytest.mark.parametrize("nthreads", [None, 8])
def test_little_work_takes_one_thread(nthreads: int | None) -> None:
    for nbytes in (0, 1, MIN_NBYTES_PER_THREAD, 2 * MIN_NBYTES_PER_THREAD - 1):
        assert resolve_nthreads(nthreads, nbytes) == 1
    assert resolve_nthreads(8, 3 * MIN_NBYTES_PER_THREAD) == 3


@pytest.mark.parametrize("nthreads", [0, -1])
def test_no_thread_at_all_is_refused(nthreads: int) -> None:
    for nbytes in (0, MUCH):
        with pytest.raises(ValueError, match=f"at least 1, not {nthreads}"):
            resolve_nthreads(nthreads, nbytes)


@pytest.mark.parametrize("text", ["many", "-2", "1.5", "0"])
def test_bad_environment_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BLOSCPACK_NTHREADS", text)
    with pytest.raises(ValueError, match=text):
        resolve_nthreads(None, MUCH)


@counts
@pytest.mark.parametrize("size", [0, 1, 2, 100])
def test_every_index_runs_once(nthreads: int, size: int) -> None:
    indices = range(5, 5 + size)
    seen: list[int] = []
    run_indexed(seen.append, indices, nthreads)
    assert sorted(seen) == list(indices)


def test_work_is_shared() -> None:
    barrier = threading.Barrier(3)
    run_indexed(lambda _: barrier.wait(120), range(3), 3)  # type: ignore[arg-type, return-value]
    assert not barrier.broken


@counts
def test_lowest_failure_is_raised(nthreads: int) -> None:
    def task(index: int) -> None:
        if index >= 3:
            raise ValueError(str(index))

    for _ in range(20):
        with pytest.raises(ValueError, match=r"^3$"):
            run_indexed(task, range(50), nthreads)


@pytest.mark.parametrize("first", [0, 1])
def test_lowest_failure_is_raised_whichever_came_first(first: int) -> None:
    for _ in range(50):
        started, failing = threading.Barrier(2), threading.Event()

        def task(
            index: int,
            started: threading.Barrier = started,
            failing: threading.Event = failing,
        ) -> None:
            started.wait(120)
            if index == first:
                failing.set()
            failing.wait(120)
            raise ValueError(str(index))

        with pytest.raises(ValueError, match=r"^0$"):
            run_indexed(task, range(2), 2)


@counts
def test_nothing_new_starts_after_a_failure(nthreads: int) -> None:
    started: list[int] = []

    def task(index: int) -> None:
        started.append(index)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_indexed(task, range(1000), nthreads)
    assert len(started) <= nthreads


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that were started."""
    names: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        names.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return names


@pytest.mark.parametrize(
    ("nthreads", "size", "expected"), [(1, 9, 0), (4, 0, 0), (4, 1, 0), (4, 2, 1), (4, 9, 3)]
)
def test_no_more_threads_than_needed(
    starts: list[str], nthreads: int, size: int, expected: int
) -> None:
    run_indexed(lambda _: None, range(size), nthreads)
    assert len(starts) == expected
    assert list(map_ordered(lambda n: n, range(size), nthreads)) == list(range(size))
    assert starts == ["bloscpack"] * 2 * expected


class Content:
    """Object that records when it is deleted."""


@pytest.mark.parametrize("allowed", [0, 1])
def test_fewer_threads_do_where_no_more_can_start(
    monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    start = threading.Thread.start
    tries: list[int] = []

    def refuse(thread: threading.Thread) -> None:
        tries.append(1)
        if len(tries) > allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen: list[int] = []
    run_indexed(seen.append, range(50), 4)
    assert sorted(seen) == list(range(50))
    tries.clear()
    assert list(map_ordered(lambda n: n, range(50), 4)) == list(range(50))


def is_caller() -> bool:
    return threading.current_thread() is threading.main_thread()


def test_interrupt_ends_the_helpers() -> None:
    both = threading.Barrier(2)
    begun: list[int] = []

    def task(index: int) -> None:
        begun.append(index)
        if len(begun) <= 2:
            both.wait(120)
            if is_caller():
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_indexed(task, range(MANY), 2)
    assert len(begun) < MANY


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("task", KeyboardInterrupt),
        ("items", KeyboardInterrupt),
        ("awaited", KeyboardInterrupt),
        ("items", SystemExit),
        ("awaited", SystemExit),
    ],
)
def test_interrupt_ends_the_waiting_of_helpers(
    monkeypatch: pytest.MonkeyPatch, place: str, error: type[BaseException]
) -> None:
    """A wait for something that never comes, such as the answer of a server."""
    never: Future[None] = Future()
    waiting = threading.Event()

    def task(index: int) -> None:
        if not is_caller():
            waiting.set()
            result_of(never)
        assert waiting.wait(120)
        if place == "task":
            raise error

    def items() -> Iterator[int]:
        yield from range(3)
        assert waiting.wait(120)
        raise error

    join, njoined = threading.Thread.join, 0

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        nonlocal njoined
        njoined += 1
        if njoined == 1 and place == "awaited":
            raise error
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    run = (lambda: [*map_ordered(task, items(), 2)]) if place == "items" else None
    with pytest.raises(error):
        run() if run else run_indexed(task, range(2), 2)
    assert not never.done()


def test_results_of_what_goes_on_elsewhere() -> None:
    """A helper gets the same result as any other thread, including timeout errors."""
    bad: Future[int] = Future()
    bad.set_exception(TimeoutError("its own"))
    found: list[int] = []
    looked = threading.Event()

    class Slow(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            if timeout is None:
                return super().result()
            try:
                return super().result(0.001)
            finally:
                looked.set()

    good = Slow()

    def task(index: int) -> None:
        if not is_caller():
            with pytest.raises(TimeoutError, match="its own"):
                result_of(bad)
            found.append(result_of(good))
        else:
            looked.wait(120)  # longer than the polling interval of a helper
            good.set_result(5)
            assert result_of(good) == 5

    run_indexed(task, range(2), 2)
    assert found == [5]


def test_interrupt_between_two_tasks_ends_the_helpers() -> None:
    both = threading.Barrier(2)
    begun: list[int] = []
    of_caller: list[int] = []

    class Indices(Sequence[int]):
        def __len__(self) -> int:
            if is_caller() and of_caller:
                raise KeyboardInterrupt
            return MANY

        def __getitem__(self, index: int) -> int:  # type: ignore[override]
            return index

    def task(index: int) -> None:
        begun.append(index)
        if index < 2:
            both.wait(120)
        if is_caller():
            of_caller.append(index)

    with pytest.raises(KeyboardInterrupt):
        run_indexed(task, Indices(), 2)
    assert len(begun) < MANY - 10  # more are missing than the one that was interrupted


@pytest.mark.parametrize("interrupts", [{1}, {1, 2}, {1, 3}])
def test_interrupt_while_the_helpers_are_awaited(
    monkeypatch: pytest.MonkeyPatch, interrupts: set[int]
) -> None:
    before = threadlist.running()
    release = threading.Event()
    join = threading.Thread.join
    joined: list[threading.Thread] = []

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        joined.append(thread)
        if len(joined) in interrupts:
            raise KeyboardInterrupt
        release.set()
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    all_three = threading.Barrier(3)

    def task(index: int) -> None:
        all_three.wait(120)
        if not is_caller():
            release.wait(120)

    with pytest.raises(KeyboardInterrupt):
        run_indexed(task, range(3), 3)
    # The first interrupt still waits for the helpers, the second does not.
    assert len(joined) == (3 if interrupts == {1} else max(interrupts))
    release.set()
    monkeypatch.undo()
    for thread in threadlist.running() - before:
        thread.join(240)


def interrupted_at(moment: int, function: Callable[[], object]) -> bool:
    """Call a function, interrupted at one of the points where CPython checks for signals.

    Those are the calls of Python functions and the returns of C functions. Return whether the
    function has such a `moment`, counted from 0.
    """
    nmoments = 0
    will_start = False

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        nonlocal nmoments, will_start
        code = frame.f_code
        # Callbacks of garbage collection are skipped: errors in them are printed at best.
        if code.co_filename not in {bloscpack.parallel.threads.__file__, threading.__file__}:
            return
        # Joining a thread that never starts takes a second.
        if event == "call" and code.co_name == "__init__" and "target" in code.co_varnames:
            will_start = True
        elif event == "c_return" and getattr(argument, "__name__", "").startswith("start_"):
            will_start = False
        # Closing a generator appears to profilers as a call, but is not one.
        is_call = event == "call" and not code.co_flags & inspect.CO_GENERATOR
        # An interrupt in Condition.__enter__ keeps its lock, so the thread never begins.
        is_return = event == "c_return" and code.co_name != "__enter__"
        if not will_start and (is_return or is_call):
            nmoments += 1
            if nmoments > moment:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        function()
    except KeyboardInterrupt:
        pass
    else:
        assert nmoments <= moment, "the interrupt is lost"
    finally:
        sys.setprofile(None)
    return nmoments > moment


def fail_in_threads() -> None:
    def task(index: int) -> None:
        if index == 3:
            raise ValueError

    with contextlib.suppress(ValueError):
        run_indexed(task, range(6), 2)


def leave_early() -> None:
    results = map_ordered(abs, range(6), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "work",
    [
        lambda: run_indexed(lambda _: None, range(6), 3),
        lambda: [*map_ordered(abs, range(6), 2)],
        lambda: [*map_ahead(abs, range(6), 1, 2)],
        leave_early,
        fail_in_threads,
    ],
    ids=["indexed", "ordered", "ahead", "left", "failed"],
)
def test_interrupt_at_any_moment_leaves_no_helper(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]
) -> None:
    monkeypatch.setattr(bloscpack.parallel.threads, "_START_TIMEOUT", 30)
    before, moment = threadlist.running(), 0
    while interrupted_at(moment, work):
        assert threadlist.running() <= before, moment
        moment += 1
    assert moment > 50


def test_interrupt_while_a_helper_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(bloscpack.parallel.threads, "_START_TIMEOUT", 0.01)
    with pytest.raises(KeyboardInterrupt):
        run_indexed(lambda _: None, range(9), 3)


def test_error_does_not_keep_what_was_read_into() -> None:
    content = Content()
    gone = weakref.ref(content)

    def task(index: int, content: Content = content) -> None:
        raise ValueError(str(index))

    gc.disable()
    try:
        with pytest.raises(ValueError):
            run_indexed(task, range(50), 3)
        del task, content
        assert gone() is None
    finally:
        gc.enable()
