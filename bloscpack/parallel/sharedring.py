"""Shared memory that a worker process fills and its consumer reads, without a copy.

A worker owns a `SharedRing` of a few slots. It fills one and sends a `SlotMessage`. The consumer
maps the slot once and reads it in place. A slot is filled again only when the consumer has dropped
every array of it: a finalizer then writes a flag into the slot. Memory that is still in use is
never overwritten; a ring without a free slot lends none.

Slots are memory files without a name (``memfd_create``). The system frees them when the last
process that maps them exits, however it ends. The size of ``/dev/shm`` does not limit them. The
consumer gets the file descriptor with the first message of a slot. Only Linux has such files;
elsewhere a ring never lends memory.
"""

import mmap
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import DupFd, ForkingPickler
from operator import attrgetter
from secrets import token_bytes
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np

ByteArray = np.ndarray[Any, np.dtype[np.uint8]]

MAX_SLOTS = 8
# A slot that no batch has used for this many batches is closed.
_MAX_IDLE_TAKES = 16
# How long to wait for a worker that is being killed, in seconds.
_SECONDS_TO_EXIT = 1.0
# The first page of a slot holds flags, a byte each, and the rest is lent.
_LENT_FROM = mmap.PAGESIZE
# Whether the consumer has mapped the slot, so that it needs the descriptor no more.
_IS_MAPPED = 0
# Whether the worker has closed the slot.
_IS_CLOSED = 1
# Who uses each message of the slot: written by the worker when it sends the message, and by the
# consumer afterwards. A list of items of one batch has a message for each item.
_USES = 2
_FREE, _SENT, _ABANDONED = range(3)
_MAX_MESSAGES = _LENT_FROM - _USES


Reduced = tuple[Callable[..., Any], tuple[Any, ...]]
"""Function that rebuilds an object, and its arguments."""


def pickle_for_queues(kind: type, reduce: Callable[[Any], Reduced]) -> None:
    """Make queues and pipes of `multiprocessing` pickle a type in their own way."""
    ForkingPickler.register(kind, reduce)


class SlotMessage(NamedTuple):
    """A filled slot, as it is sent to the consumer."""

    pid: int  # of the worker
    ring: bytes  # random, as a process may own several rings in turn
    number: int
    use: int  # place of the flag of this message
    nbytes: int
    descriptor: Any  # for the first messages: a `multiprocessing.reduction.DupFd`


class _Slot:
    def __init__(self, number: int, nbytes: int) -> None:
        self.number = number
        self.capacity = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.descriptor = os.memfd_create("bloscpack")
        try:
            os.ftruncate(self.descriptor, _LENT_FROM + self.capacity)
            self.memory = mmap.mmap(self.descriptor, _LENT_FROM + self.capacity)
        except BaseException:
            os.close(self.descriptor)
            raise
        self.lent: weakref.ref[ByteArray] | None = None
        self.address = 0
        self.taken_at = 0
        self.nmessages = 0  # since the slot was lent

    def is_idle(self) -> bool:
        """Return whether neither process uses the slot."""
        return not self._has(_SENT) and (self.lent is None or self.lent() is None)

    def is_abandoned(self) -> bool:
        """Return whether the slot must not be filled again. Ask after `is_idle`."""
        return self._has(_ABANDONED)

    def _has(self, use: int) -> bool:
        return self.memory.find(bytes((use,)), _USES, _USES + self.nmessages) >= 0

    def lend(self, nbytes: int) -> ByteArray:
        array: ByteArray = np.frombuffer(self.memory, np.uint8, nbytes, _LENT_FROM)
        self.nmessages = 0
        self.lent = weakref.ref(array)
        self.address = array.__array_interface__["data"][0]
        return array

    def close(self) -> None:
        self.memory[_IS_CLOSED] = 1
        self.memory.close()
        os.close(self.descriptor)


class SharedRing:
    """Slots of shared memory that a worker fills in turn.

    Parameters
    ----------
    most : int
        Largest number of slots.

    Attributes
    ----------
    pid : int
        The process that owns the ring. A forked child must not use it.
    nrefused : int
        How often no slot was free.

    Notes
    -----
    Arrays are taken by one thread at a time; another thread may send them. The size of a slot is
    that of the array it was made for; its pages exist once they have been written.
    """

    def __init__(self, most: int = MAX_SLOTS) -> None:
        self.pid = os.getpid()
        self.nrefused = 0
        self._token = token_bytes(8)
        self._most = most
        self._slots: dict[int, _Slot] = {}  # by number
        self._ntakes = 0

    def take(self, nbytes: int) -> ByteArray | None:
        """Return an array of `nbytes` bytes with arbitrary content, or None if no slot is free.

        The slot is in use until the array and all views of it are gone, in this process and, if it
        was sent, in the consumer.
        """
        self._ntakes += 1
        self._close_some()
        # The slot that was used last is most likely to be in the processor's cache.
        idle = sorted(
            (slot for slot in self._slots.values() if slot.is_idle() and not slot.is_abandoned()),
            key=attrgetter("taken_at"),
            reverse=True,
        )
        slot = next((slot for slot in idle if slot.capacity >= nbytes), None)
        if slot is None:
            if len(self._slots) >= self._most:
                if not idle:
                    self.nrefused += 1
                    return None
                self._close(idle[-1])
            slot = self._new_slot(nbytes)
            if slot is None:
                return None
        slot.taken_at = self._ntakes
        return slot.lend(nbytes)

    def _new_slot(self, nbytes: int) -> _Slot | None:
        if not hasattr(os, "memfd_create"):
            return None
        try:
            # A new number, since the consumer may still map a slot that was closed.
            slot = _Slot(self._ntakes, nbytes)
        except (OSError, ValueError, OverflowError):  # no descriptor, or too large to be mapped
            return None
        self._slots[slot.number] = slot
        return slot

    def _close_some(self) -> None:
        """Close slots that the consumer gave up, and those unused for long."""
        for slot in list(self._slots.values()):
            is_old = self._ntakes - slot.taken_at > _MAX_IDLE_TAKES
            if slot.is_idle() and (is_old or slot.is_abandoned()):
                self._close(slot)

    def _close(self, slot: _Slot) -> None:
        del self._slots[slot.number]
        slot.close()

    def place_of(self, address: int) -> tuple[int, int] | None:
        """Return the number of the slot that lends `address` now, and the offset in it, or None.

        None, too, if the slot cannot be sent again.
        """
        # Copied, because another thread may take a slot.
        for slot in list(self._slots.values()):
            lent = None if slot.lent is None else slot.lent()
            if lent is not None and 0 <= address - slot.address < len(lent):
                if slot.nmessages == _MAX_MESSAGES:
                    return None
                return slot.number, address - slot.address
        return None

    def send(self, number: int) -> SlotMessage:
        """Give the consumer a slot that is lent, and return the message to pickle for it.

        A slot may be sent several times; it is in use until the arrays of all messages are gone.
        The message must be pickled for a queue or pipe of `multiprocessing`.
        """
        slot = self._slots[number]
        lent = None if slot.lent is None else slot.lent()
        if lent is None:
            raise ValueError(f"slot {number} is not lent")
        descriptor = None
        if not slot.memory[_IS_MAPPED]:
            descriptor = DupFd(slot.descriptor)
        use = _USES + slot.nmessages
        slot.memory[use] = _SENT
        slot.nmessages += 1
        return SlotMessage(self.pid, self._token, number, use, len(lent), descriptor)


# Slots that this process has mapped, as a consumer: by worker, ring and number.
_mapped: dict[tuple[int, bytes, int], mmap.mmap] = {}
# How often this process has forked: see `_release`.
_nforks = 0


def attach(message: SlotMessage) -> ByteArray:
    """Return the bytes of a slot that a worker sent, in place.

    The worker fills the slot again when the array and all views of it are gone. Call this once for
    each message.
    """
    drop_unused()
    key = message[:3]
    memory = _mapped.get(key)
    if memory is None:
        try:
            descriptor = message.descriptor.detach()
        except (EOFError, OSError):
            _wait_for_exit(message.pid)
            raise
        try:
            memory = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        memory[_IS_MAPPED] = 1
        _mapped[key] = memory
    elif message.descriptor is not None:  # another message mapped the slot since it was sent
        with suppress(EOFError, OSError):
            os.close(message.descriptor.detach())
    array: ByteArray = np.frombuffer(memory, np.uint8, message.nbytes, _LENT_FROM)
    # At exit the array is still alive, so the slot must not be filled again.
    released = weakref.finalize(array, _release, memory, message.use, os.getpid(), _nforks)
    released.atexit = False
    return array


def _release(memory: mmap.mmap, use: int, pid: int, nforks: int) -> None:
    """Return a message of a slot to its worker, when the last array of it is gone.

    If this process has forked since, the child may still read the slot. Then the worker drops it.
    """
    if os.getpid() == pid:
        memory[use] = _FREE if nforks == _nforks else _ABANDONED
        drop_unused()


def drop_unused() -> None:
    """Drop the maps of slots that their worker has closed, or whose worker has exited.

    Arrays of such a slot keep its memory until they are gone.
    """
    are_alive: dict[int, bool] = {}
    for key, memory in list(_mapped.items()):
        pid = key[0]
        if pid not in are_alive:
            are_alive[pid] = _is_alive(pid)
        if memory[_IS_CLOSED] or not are_alive[pid]:
            _mapped.pop(key, None)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is of another user
        pass
    return True


def _wait_for_exit(pid: int) -> None:
    """Wait for a worker that closed its connection, so that its parent finds it dead."""
    until = monotonic() + _SECONDS_TO_EXIT
    with suppress(ChildProcessError):
        while monotonic() < until and not os.waitid(
            os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG
        ):
            sleep(0.001)


def _count_fork() -> None:
    global _nforks
    _nforks += 1


# A forked child needs no map that it does not use, and would keep the memory from being freed.
os.register_at_fork(after_in_parent=_count_fork, after_in_child=_mapped.clear)
