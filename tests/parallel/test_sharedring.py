"""Slots of shared memory: when they are lent again, and when they are dropped."""

import mmap
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

from bloscpack.parallel import sharedring
from bloscpack.parallel.sharedring import SharedRing, attach, drop_unused

from ..openfiles import open_files

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd_create")


@pytest.fixture(autouse=True)
def _maps() -> Iterator[None]:
    yield
    sharedring._mapped.clear()


def sent(ring: SharedRing, array: np.ndarray) -> Any:
    """Return what the consumer gets when `array`, which `ring` lent, is sent."""
    place = ring.place_of(array.__array_interface__["data"][0])
    assert place is not None
    return attach(pickle.loads(ForkingPickler.dumps(ring.send(place[0]))))


def filled(ring: SharedRing, value: int, nbytes: int = 5000) -> np.ndarray:
    array = ring.take(nbytes)
    assert array is not None
    array[:] = value
    return array


def address(array: np.ndarray) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def test_a_slot_is_lent_again_when_both_sides_have_dropped_it() -> None:
    ring = SharedRing()
    array = filled(ring, 1)
    first = address(array)
    received = sent(ring, array)
    assert address(received) != first
    assert (received == 1).all()
    del array
    assert address(filled(ring, 2)) != first  # the consumer holds it
    part = received.view(np.uint32).reshape(10, -1)[3:, ::2]
    reader = memoryview(part[1:])
    del received, part
    others = [filled(ring, value) for value in (3, 4)]
    assert first not in map(address, others)
    assert reader[0, 0] == 0x01010101
    del reader
    assert address(filled(ring, 5)) == first


def test_a_slot_that_was_not_sent_is_free_when_its_views_are_gone() -> None:
    ring = SharedRing()
    array = filled(ring, 1)
    first, view = address(array), array[7:]
    del array
    assert address(filled(ring, 2)) != first
    del view
    # The last one used is lent first.
    assert address(filled(ring, 3)) != first
    held = [ring.take(10) for _ in range(2)]
    assert first in [address(each) for each in held if each is not None]


def test_a_slot_is_mapped_once() -> None:
    ring = SharedRing()
    places = set()
    for value in range(5):
        received = sent(ring, filled(ring, value))
        places.add(address(received))
        assert (received == value).all()
    assert len(places) == len(sharedring._mapped) == 2  # one is filled while one is read
    array = filled(ring, 1)
    place = ring.place_of(address(array) + 5)
    assert place is not None
    assert place[1] == 5
    assert ring.send(place[0]).descriptor is None
    assert ring.place_of(address(array) + len(array)) is None


def test_a_slot_that_was_sent_twice_is_kept_for_both() -> None:
    ring = SharedRing()
    array = filled(ring, 1)
    # Both leave before the first is mapped, as the items of a list do.
    messages = [ForkingPickler.dumps(ring.send(1)) for _ in range(2)]
    first, second = [attach(pickle.loads(each)) for each in messages]
    place = address(array)
    del array, first
    others = [filled(ring, value) for value in (2, 3)]
    assert place not in map(address, others)
    assert (second == 1).all()
    del second
    assert address(filled(ring, 4)) == place


def test_messages_of_a_slot_are_bounded() -> None:
    ring = SharedRing()
    array = filled(ring, 1)
    received = sent(ring, array)
    for _ in range(sharedring._MAX_MESSAGES - 1):
        sent(ring, array)
    assert ring.place_of(address(array)) is None  # pickled as any other
    assert (array == 1).all()
    del array, received
    assert ring.place_of(address(filled(ring, 2))) is not None


def test_the_number_of_slots_is_bounded() -> None:
    ring = SharedRing(most=2)
    held = [sent(ring, filled(ring, value)) for value in range(2)]
    assert ring.take(10) is None
    assert ring.nrefused == 1
    assert [int(each[0]) for each in held] == [0, 1]
    del held[0]
    assert (filled(ring, 2) == 2).all()


def test_slots_grow_and_idle_ones_are_closed() -> None:
    ring = SharedRing(most=2)
    held = [filled(ring, 0), filled(ring, 1)]
    del held
    large = sent(ring, filled(ring, 3, 1 << 20))  # takes the place of a small one
    assert len(ring._slots) == 2
    del large
    for _ in range(20):
        sent(ring, filled(ring, 4))
    assert len(ring._slots) == 1
    drop_unused()
    assert len(sharedring._mapped) == 1


def test_sizes_that_cannot_be_had() -> None:
    ring = SharedRing()
    assert ring.take(1 << 62) is None
    assert ring.take(1 << 80) is None
    assert ring.nrefused == 0  # that is not for want of slots
    huge = ring.take(1 << 40)  # from a damaged file: its pages do not exist until they are written
    assert huge is None or len(huge) == 1 << 40


def test_without_memory_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create")
    assert SharedRing().take(10) is None


def test_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_files("/memfd:")

    def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert SharedRing().take(10) is None
    assert open_files("/memfd:") == before


def test_a_fork_keeps_what_the_child_may_read() -> None:
    ring = SharedRing()
    received = sent(ring, filled(ring, 1))
    ours, theirs = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        # Nothing that the child drops is given back.
        empty = not sharedring._mapped
        theirs.recv()
        theirs.send(empty and bool((received == 1).all()))
        del received
        os._exit(0)
    del received
    again = [filled(ring, 2), filled(ring, 3)]
    ours.send("read")
    assert ours.recv() is True
    assert os.waitpid(child, 0)[1] == 0
    assert 1 not in ring._slots  # given up, as the child may still read it
    assert len(again) == 2


def work(pipe: Any) -> None:
    """Send a slot, and wait to be killed."""
    ring = SharedRing()
    array = filled(ring, 7)
    pipe.send(ring.send(1))
    pipe.recv()
    del array


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_memory_of_a_killed_worker(method: str) -> None:
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    worker = context.Process(target=work, args=(theirs,))  # type: ignore[attr-defined]
    worker.start()
    received = attach(ours.recv())
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert (received == 7).all()
    received[:] = 8
    drop_unused()
    assert not sharedring._mapped
    assert (received == 8).all()
    del received
    with open("/proc/self/maps") as maps:
        assert "memfd:bloscpack" not in maps.read()


def test_the_worker_is_alive_while_it_is_asked() -> None:
    assert sharedring._is_alive(1)  # of another user, perhaps
    context = multiprocessing.get_context("fork")
    process = context.Process(target=time.sleep, args=(60,))
    process.start()
    assert process.pid is not None
    assert sharedring._is_alive(process.pid)
    process.kill()
    process.join()
    assert not sharedring._is_alive(process.pid)
