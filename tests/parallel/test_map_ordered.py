"""map_ordered: results in order, a bounded number of them, and all threads joined at every exit."""

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from bloscpack.parallel.threads import _Job, map_ahead, map_ordered

counts = pytest.mark.parametrize("nthreads", [1, 2, 7])
pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def is_caller() -> bool:
    return threading.current_thread() is threading.main_thread()


class Content:
    """Object that records when it is deleted."""


@counts
def test_results_come_in_order(nthreads: int) -> None:
    assert list(map_ordered(lambda n: n * n, range(200), nthreads)) == [n * n for n in range(200)]
    assert list(map_ordered(lambda n: n * n, [], nthreads)) == []


@counts
def test_results_do_not_pile_up(nthreads: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    for given, _ in enumerate(map_ordered(lambda n: n, items(), nthreads), 1):
        assert len(taken) - given <= 2 * nthreads


@counts
def test_failure_of_the_function(nthreads: int) -> None:
    def function(item: int) -> int:
        if item == 5:
            raise ValueError("five")
        return item

    results = map_ordered(function, range(100), nthreads)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="five"):
        next(results)


@counts
def test_failure_of_the_items(nthreads: int) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(map_ordered(lambda n: n, items(), nthreads))


def test_giving_up_early_ends_the_threads() -> None:
    results = map_ordered(lambda n: n, range(1000), 4)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]


def test_forgotten_iterator_ends_its_threads() -> None:
    results = map_ordered(lambda n: n, range(1000), 4)
    assert next(results) == 0
    del results
    gc.collect()


def test_all_threads_of_a_map_work() -> None:
    barrier = threading.Barrier(3)
    list(map_ordered(lambda _: barrier.wait(120), range(3), 3))
    assert not barrier.broken


def test_items_are_taken_where_they_are_used() -> None:
    takers = set()

    def items() -> Iterator[int]:
        for number in range(50):
            takers.add(threading.current_thread())
            yield number

    list(map_ordered(lambda n: n, items(), 3))
    assert takers == {threading.current_thread()}


def test_iterator_in_a_forked_child() -> None:
    results = map_ordered(lambda n: n, range(1000), 3)
    assert next(results) == 0
    child = os.fork()
    if child == 0:
        signal.alarm(240)
        try:
            next(results)
        except RuntimeError as err:
            os._exit(7 if "forked child" in str(err) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert list(results) == list(range(1, 1000))


def close(results: Iterator[object]) -> None:
    results.close()  # type: ignore[attr-defined]


def test_nothing_new_starts_after_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release, blocked = threading.Event(), threading.Event()
    taken: list[int] = []
    begun: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    def function(item: int) -> None:
        begun.append(item)
        if is_caller():
            blocked.wait(120)  # leaves the other items to the helper
        elif item:
            blocked.set()
            release.wait(120)

    results = map_ordered(function, items(), 2)
    next(results)
    assert blocked.wait(120)
    waiting = len(taken) - len(begun)
    assert waiting > 0
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        release.set()
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", joined)
    close(results)
    assert len(taken) - len(begun) == waiting


def test_closed_by_one_of_its_own_threads() -> None:
    begun, suspended = threading.Event(), threading.Event()
    helpers: list[threading.Thread] = []
    errors: list[BaseException] = []

    def function(item: int) -> int:
        if is_caller():
            begun.wait(120)  # leaves another item to the helper
        elif item:
            helpers.append(threading.current_thread())
            begun.set()
            suspended.wait(120)
            try:
                close(results)
            except BaseException as err:
                errors.append(err)
        return item

    results = map_ordered(function, range(1000), 2)
    next(results)
    assert begun.wait(120)
    suspended.set()
    helpers[0].join(240)
    assert not errors
    with pytest.raises(StopIteration):
        next(results)


def test_job_lets_its_item_go() -> None:
    item = Content()
    gone = weakref.ref(item)
    job: _Job[Content, int] = _Job(item)
    del item
    job.run(id)
    assert gone() is None
    assert job.error is None


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    return condition()


def test_items_and_results_are_let_go() -> None:
    alive: weakref.WeakSet[Content] = weakref.WeakSet()
    both = threading.Barrier(2)

    def make() -> Content:
        content = Content()
        alive.add(content)
        return content

    def function(item: Content) -> Content:
        both.wait(120)
        return make()

    results = map_ordered(function, (make() for _ in range(4)), 2)
    for _ in range(4):
        next(results)
    # The suspended iterator and its thread hold no items.
    assert wait_for(lambda: not alive)
    close(results)


def test_interrupt_in_the_part_of_the_consumer() -> None:
    claimed, raised = threading.Event(), threading.Event()
    of_helper: list[int] = []
    given: list[int] = []

    def function(item: int) -> int:
        if not is_caller():
            of_helper.append(item)
            claimed.set()
            raised.wait(120)
        else:
            claimed.wait(120)
            if item:
                raised.set()
                raise KeyboardInterrupt
        return item

    def consume() -> None:
        for result in map_ordered(function, range(100_000), 2):
            given.append(result)

    with pytest.raises(KeyboardInterrupt):
        consume()
    # It is raised at once, before its turn.
    assert of_helper[0] not in given


def test_error_does_not_keep_its_function() -> None:
    content = Content()
    gone = weakref.ref(content)

    def function(item: int, content: Content = content) -> int:
        raise ValueError(str(item))

    gc.disable()
    try:
        with pytest.raises(ValueError, match="0"):
            list(map_ordered(function, range(50), 3))
        del function, content
        assert gone() is None
    finally:
        gc.enable()


@counts
def test_results_ahead_come_in_order(nthreads: int) -> None:
    for ahead in (1, 5, 300):
        found = list(map_ahead(lambda n: n * n, range(200), nthreads, ahead))
        assert found == [n * n for n in range(200)]
    assert list(map_ahead(lambda n: n * n, [], nthreads, 3)) == []


def test_work_ahead_goes_on_while_the_caller_is_busy() -> None:
    done = [threading.Event() for _ in range(20)]
    results = map_ahead(lambda n: done[n].set(), range(20), 1, 4)
    next(results)
    for event in done[:5]:
        assert event.wait(120)
    # No further item was taken.
    assert not done[5].is_set()
    next(results)
    assert done[5].wait(120)
    close(results)


def test_the_caller_does_none_of_the_work_ahead() -> None:
    callers = set(map_ahead(lambda _: is_caller(), range(100), 1, 2))
    assert callers == {False}


def test_all_threads_work_ahead() -> None:
    barrier = threading.Barrier(3)
    list(map_ahead(lambda _: barrier.wait(120), range(3), 3, 3))
    assert not barrier.broken


def test_work_ahead_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert list(map_ahead(lambda n: -n, range(10), 2, 4)) == [-n for n in range(10)]


def test_failure_of_work_ahead_comes_in_its_turn() -> None:
    def function(item: int) -> int:
        if item == 5:
            raise ValueError("five")
        return item

    results = map_ahead(function, range(100), 3, 50)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="five"):
        next(results)


def test_giving_up_work_ahead_ends_the_threads() -> None:
    results = map_ahead(lambda n: n, range(1000), 4, 8)
    assert next(results) == 0
    close(results)
    forgotten = map_ahead(lambda n: n, range(1000), 4, 8)
    assert next(forgotten) == 0
    del forgotten
    gc.collect()
