"""How many threads work, in which order results come, and that none is left behind."""

import threading
from collections.abc import Iterator

import pytest

from bloscpack.threads import (
    MAX_DEFAULT_THREADS,
    MIN_NBYTES_PER_THREAD,
    available_cpus,
    map_ordered,
    resolve_nthreads,
    run_indexed,
)

MUCH = 1 << 40
counts = pytest.mark.parametrize("nthreads", [1, 2, 7])


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_number_asked_for_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "3")
    assert resolve_nthreads(5, MUCH) == 5
    assert resolve_nthreads(None, MUCH) == 3
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "")
    assert resolve_nthreads(None, MUCH) == min(MAX_DEFAULT_THREADS, available_cpus())
    monkeypatch.delenv("BLOSCPACK_NTHREADS")
    assert resolve_nthreads(None, MUCH) == min(MAX_DEFAULT_THREADS, available_cpus())


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
    run_indexed(lambda _: barrier.wait(10), range(3), 3)  # type: ignore[arg-type, return-value]
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
            started.wait(10)
            if index == first:
                failing.set()
            failing.wait(10)
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
