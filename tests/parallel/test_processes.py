"""Work in processes: order, pickled arguments, errors, and clean-up."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from bloscpack.parallel.processes import map_in_processes

from ..conftest import REPOSITORY


class Shared:
    """Object that counts how often it was unpickled in each process."""

    arrivals = 0

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __setstate__(self, state: dict[str, int]) -> None:
        Shared.arrivals += 1
        self.__dict__.update(state)


def multiply(shared: Shared, item: int) -> int:
    return shared.factor * item


def arrivals_and_process(shared: Shared, item: int) -> tuple[int, int]:
    return Shared.arrivals, os.getpid()


def fail_at_two(shared: None, item: int) -> int:
    if item == 2:
        raise KeyError("the third")
    return item


def die(shared: None, item: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return item


@pytest.mark.parametrize("nprocesses", [1, 2, 3])
def test_results_come_in_order(nprocesses: int) -> None:
    assert list(map_in_processes(multiply, Shared(3), range(20), nprocesses)) == [
        3 * item for item in range(20)
    ]
    assert list(map_in_processes(multiply, Shared(3), [], nprocesses)) == []


def test_the_shared_object_is_sent_once_to_each_process() -> None:
    results = list(map_in_processes(arrivals_and_process, Shared(1), range(20), 2))
    assert {arrivals for arrivals, _ in results} <= {0, 1}
    assert os.getpid() not in {process for _, process in results}


def test_one_process_is_this_one() -> None:
    results = list(map_in_processes(arrivals_and_process, Shared(1), range(3), 1))
    assert {process for _, process in results} == {os.getpid()}


@pytest.mark.parametrize("nprocesses", [1, 2])
def test_an_error_comes_in_its_turn(nprocesses: int) -> None:
    results = map_in_processes(fail_at_two, None, range(10), nprocesses)
    assert next(results) == 0
    assert next(results) == 1
    with pytest.raises(KeyError, match="the third"):
        next(results)


def function_of(shared: None, item: int) -> object:
    return (lambda: item) if item == 2 else item


@pytest.mark.parametrize("items", [[0, 1, lambda: 2, 3], range(10)], ids=["sent", "returned"])
def test_what_cannot_be_pickled_is_an_error_in_its_turn(items: Iterable[Any]) -> None:
    results = map_in_processes(function_of, None, items, 2)
    assert next(results) == 0
    assert next(results) == 1
    # The second text is that of Python 3.12 and later.
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"pickle|local object"):
        next(results)
    del results
    # The error must not hold a message to another process: it would be reported when collected.
    gc.collect()


def test_items_are_taken_as_they_are_needed() -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = map_in_processes(fail_at_two, None, items(), 2)
    assert next(results) == 0
    assert len(taken) <= 5
    results.close()
    assert len(taken) <= 5


def test_a_process_that_dies_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="worker process ended"):
        list(map_in_processes(die, None, range(3), 2))


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        map_in_processes(multiply, Shared(1), [1], 0)


ENDLESS = """
    import os, sys, threading
    from bloscpack.parallel.processes import map_in_processes

    def work(shared, item):
        os.write(1, b".")
        if item:
            threading.Event().wait()

    for _ in map_in_processes(work, None, range(6), 2):
        pass
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDLESS)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdout is not None
    for _ in range(3):  # one is done, two are in progress
        assert parent.stdout.read(1) == b"."
    if number == signal.SIGINT:  # a terminal signals the whole group
        os.killpg(parent.pid, number)
    else:
        parent.kill()
    # The pipes close when the last process that holds them exits.
    parent.communicate(timeout=240)
    assert parent.returncode != 0


CTRL_C_IN_ANOTHER_THREAD = """
    import os, signal, threading, time
    from bloscpack.parallel.processes import map_in_processes

    def work(shared, item):
        os.write(1, b".")
        threading.Event().wait()

    def interrupt():
        time.sleep(1.0)  # the main thread now waits for the workers
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        for _ in map_in_processes(work, None, range(2), 2):
            pass
    except KeyboardInterrupt:
        os.write(1, b"interrupted")
"""


def test_an_interrupt_that_does_not_end_the_wait_is_handled() -> None:
    """The signal is handled in another thread, as if it came just before the system call."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CTRL_C_IN_ANOTHER_THREAD)],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=240,
    )
    assert done.stdout.endswith(b"interrupted"), done.stderr.decode()
