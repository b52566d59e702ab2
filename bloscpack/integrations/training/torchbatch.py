"""Batches that a worker of torch's ``DataLoader`` sends to the process that trains, without a copy.

In a worker, frames are read into a `SharedRing`. The queue of the loader pickles a `SharedDict` as
the places of its tensors in the ring, and small tensors as their values. The other process
rebuilds a plain dict of tensors in the same memory. Other tensors are pickled as torch does it:
each is copied into a new file of shared memory, for which a file descriptor is sent.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from ...notice import notice
from ...parallel.sharedring import (
    MAX_SLOTS,
    ByteArray,
    Reduced,
    SharedRing,
    SlotMessage,
    attach,
    pickle_for_queues,
)
from ...types import AnyArray
from .itemreader import Allocate

# Tensors up to this size are pickled as their values: a file descriptor costs more.
_MAX_SMALL_NBYTES = 1 << 16

_ring: SharedRing | None = None


class SharedDict(dict[str, Any]):
    """Item or batch; the process that receives it from a worker gets a plain dict."""

    __slots__ = ()


class _Place(NamedTuple):
    """Place of a tensor in a slot."""

    slot: int
    offset: int  # in bytes
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in items


class _Values(NamedTuple):
    """A small tensor."""

    values: AnyArray


class _Parts(NamedTuple):
    """A list with tensors in it."""

    parts: list[Any]


def memory_of_worker() -> Allocate | None:
    """Return a function that lends shared memory in a worker of a loader, else None."""
    return None if get_worker_info() is None else _lend


def _lend(nbytes: int) -> ByteArray | None:
    global _ring
    if _ring is None or _ring.pid != os.getpid():
        _ring = SharedRing()
    memory = _ring.take(nbytes)
    if memory is None and _ring.nrefused == 1:
        notice(
            "the program holds all %d batches that a worker keeps in shared memory; while it does, "
            "further batches are copied",
            MAX_SLOTS,
        )
    return memory


def tensor_of(array: AnyArray) -> torch.Tensor:
    """Return a tensor that shares the memory of an array, if torch has its dtype."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(native)


def collate(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one batch of items; see `collate_clips`."""
    names = _names_of(items)
    in_place = all(isinstance(item, SharedDict) for item in items)
    batch = {name: _collated([item[name] for item in items], in_place) for name in names}
    return batch if get_worker_info() is None else SharedDict(batch)


def _names_of(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the entries of items, or raise an error if these differ."""
    for item in items:
        if not isinstance(item, Mapping):
            raise TypeError(
                f"items must be dicts, not {type(item).__name__}: pass another collate_fn, such as "
                "torch.utils.data.default_collate"
            )
        if item.keys() != items[0].keys():
            raise ValueError(
                "the items of a batch must have the same entries; one has "
                f"{list(items[0])!r:.200}, another {list(item)!r:.200}"
            )
    return list(items[0]) if items else []


def _collated(values: list[Any], in_place: bool) -> Any:
    kinds = {type(value) for value in values}
    if kinds == {torch.Tensor}:
        if _are_alike(values):
            joined = _joined(values, in_place=in_place)
            return torch.stack(values) if joined is None else joined
    elif kinds in ({bool}, {int}, {float}):
        with suppress(ValueError, RuntimeError):  # an integer above 2 ** 63
            # As torch's default_collate does: float32 would lose digits of times.
            return torch.tensor(values, dtype=torch.float64 if kinds == {float} else None)
    elif len(kinds) == 1 and isinstance(values[0], np.number | np.bool_):
        with suppress(TypeError):  # a dtype that torch does not have
            return tensor_of(np.array(values))
    return values


def _collate_as_default(
    items: Sequence[SharedDict],
    *,
    collate_fn_map: dict[type | tuple[type, ...], Callable[..., Any]] | None = None,
) -> dict[str, Any]:
    """Do what torch's ``default_collate`` does for dicts, but copy frames once at most."""
    batch = {}
    for name in _names_of(items):
        values = [item[name] for item in items]
        joined = None
        if {type(value) for value in values} == {torch.Tensor} and _are_alike(values):
            joined = _joined(values, in_place=True, contiguous=True)
        batch[name] = default_collate(values) if joined is None else joined
    return batch if get_worker_info() is None else SharedDict(batch)


def _are_alike(tensors: list[torch.Tensor]) -> bool:
    return len({(tensor.shape, tensor.dtype) for tensor in tensors}) == 1


def _joined(
    tensors: list[torch.Tensor], *, in_place: bool, contiguous: bool = False
) -> torch.Tensor | None:
    """Stack tensors of one shape, in place or into the memory of a worker, or return None.

    They stay where they are if they follow each other in memory that holds nothing else, as the
    frames of one read do, and it is that of a worker or may be used `in_place`. Other tensors may
    belong to a data set that keeps them, and are copied.
    """
    # The flags of a tensor are not in its memory, nor are the others' gradients in the first.
    if any(
        each.layout != torch.strided or each.requires_grad or each.is_conj() or each.is_neg()
        for each in tensors
    ):
        return None
    first = tensors[0]
    step = first.numel()
    places = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    offsets = [tensor.storage_offset() for tensor in tensors]
    do_follow = (
        len({tensor.stride() for tensor in tensors}) == len(places) == 1
        and step > 0
        and offsets == [step * k for k in range(len(tensors))]
        and first.untyped_storage().nbytes() == len(tensors) * step * first.itemsize
    )
    do_follow = do_follow and (in_place or _place_of(first) is not None)
    if do_follow and (first.is_contiguous() or not contiguous):
        return first.as_strided((len(tensors), *first.shape), (step, *first.stride()))
    return _stacked_in_worker(tensors)


def _stacked_in_worker(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    first, allocate = tensors[0], memory_of_worker()
    nbytes = len(tensors) * first.numel() * first.itemsize
    if allocate is None or nbytes <= _MAX_SMALL_NBYTES:
        return None
    if any(each.device.type != "cpu" for each in tensors):
        return None
    memory = allocate(nbytes)
    if memory is None:
        return None
    out = torch.from_numpy(memory).view(first.dtype).view(len(tensors), *first.shape)
    return torch.stack(tensors, out=out)


def _reduced(batch: SharedDict) -> Reduced:
    """Return how another process rebuilds a batch, for the pickler of queues."""
    if _ring is None or _ring.pid != os.getpid():
        return dict, (dict(batch),)
    numbers: set[int] = set()
    packed = {name: _packed(value, numbers) for name, value in batch.items()}
    return _rebuilt, (packed, {number: _ring.send(number) for number in numbers})


def _place_of(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the slot and the offset of a tensor in the memory that this worker lends, or None."""
    is_own = _ring is not None and _ring.pid == os.getpid()
    return _ring.place_of(tensor.data_ptr()) if is_own else None  # type: ignore[union-attr]


def _packed(value: Any, numbers: set[int]) -> Any:
    if type(value) is list and any(type(each) is torch.Tensor for each in value):
        return _Parts([_packed(each, numbers) for each in value])
    if type(value) is not torch.Tensor or value.requires_grad:
        return value
    if value.device.type != "cpu" or value.layout != torch.strided or not value.numel():
        return value
    # A conjugate or negative is a flag of the tensor, and not in its memory.
    value = value.resolve_conj().resolve_neg()
    place = _place_of(value)
    if place is not None:
        number, offset = place
        numbers.add(number)
        return _Place(number, offset, value.dtype, tuple(value.shape), value.stride())
    if value.numel() * value.itemsize <= _MAX_SMALL_NBYTES:
        with suppress(TypeError):  # numpy lacks bfloat16 and floats of 8 bits
            return _Values(value.numpy())
    return value


def _rebuilt(packed: dict[str, Any], messages: dict[int, SlotMessage]) -> dict[str, Any]:
    """Return the dict that a worker sent; its large tensors are in the memory of the worker."""
    slots = {number: torch.from_numpy(attach(message)) for number, message in messages.items()}
    return {name: _unpacked(value, slots) for name, value in packed.items()}


def _unpacked(value: Any, slots: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, _Parts):
        return [_unpacked(part, slots) for part in value.parts]
    if isinstance(value, _Values):
        return torch.from_numpy(value.values)
    if isinstance(value, _Place):
        steps = zip(value.shape, value.strides, strict=True)
        extent = 1 + sum((length - 1) * stride for length, stride in steps)
        stop = value.offset + extent * value.dtype.itemsize
        items = slots[value.slot][value.offset : stop].view(value.dtype)
        return items.as_strided(value.shape, value.strides)
    return value


# Queues of processes pickle with this; any other pickle of a `SharedDict` is that of a dict.
pickle_for_queues(SharedDict, _reduced)
# The registry that `default_collate` documents for types of one's own.
default_collate_fn_map[SharedDict] = _collate_as_default
