"""Planning of runs: what is joined, and that lists and arrays are planned alike."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.storage.coalescing import (
    Policy,
    Run,
    joined,
    most_per_run,
    plan_array_runs,
    plan_runs,
)

POLICY = Policy(10, 100)
EXTENTS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 150)), max_size=30)


def planned(extents: list[tuple[int, int]], most: int | None = None) -> list[Run]:
    """Return the runs of (start, stop) extents."""
    starts, stops = [start for start, _ in extents], [stop for _, stop in extents]
    return list(plan_runs(starts, stops, POLICY, most))


def test_neighbours_are_joined_across_a_gap() -> None:
    assert planned([]) == []
    assert planned([(0, 5), (15, 20)]) == [(0, 2, 0, 20)]
    assert planned([(0, 5), (16, 20)]) == [(0, 1, 0, 5), (1, 2, 16, 20)]


def test_a_run_is_limited_in_size_and_number() -> None:
    assert planned([(0, 60), (60, 100), (100, 101)]) == [(0, 2, 0, 100), (2, 3, 100, 101)]
    assert planned([(0, 5), (5, 10), (10, 15)], 2) == [(0, 2, 0, 10), (2, 3, 10, 15)]


def test_a_larger_extent_is_a_run_with_those_inside_it() -> None:
    assert planned([(0, 300), (7, 8), (299, 301)]) == [(0, 2, 0, 300), (2, 3, 299, 301)]


def test_an_extent_before_the_run_begins_another() -> None:
    assert planned([(50, 60), (40, 50), (45, 55)]) == [(0, 1, 50, 60), (1, 3, 40, 55)]


@given(EXTENTS)
def test_arrays_are_planned_as_lists_are(extents: list[tuple[int, int]]) -> None:
    extents = sorted((start, start + nbytes) for start, nbytes in extents)
    table = np.array(extents, np.int64).reshape(-1, 2)
    assert list(plan_array_runs(table[:, 0], table[:, 1], POLICY)) == planned(extents)


@given(EXTENTS, st.integers(1, 5))
def test_runs_contain_every_extent_once(extents: list[tuple[int, int]], most: int) -> None:
    extents = [(start, start + nbytes) for start, nbytes in extents]
    runs = planned(extents, most)
    assert [k for run in runs for k in range(run.low, run.high)] == list(range(len(extents)))
    for run in runs:
        found = extents[run.low : run.high]
        assert len(found) <= most
        assert run.start == min(start for start, _ in found) == found[0][0]
        assert run.stop == max(stop for _, stop in found)
        assert run.stop - run.start <= max(100, *(stop - start for start, stop in found), 0)


def test_each_thread_has_several_runs() -> None:
    assert most_per_run(100, 1) == 25
    assert most_per_run(100, 3) == 8
    assert most_per_run(2, 3) == 1


def test_extents_in_any_order() -> None:
    assert joined([], POLICY) == []
    assert joined([(5, 10), (0, 5)], POLICY) == [(0, 15)]
    assert joined([(0, 70), (10, 20), (50, 30), (91, 1)], POLICY) == [(0, 80), (91, 1)]
