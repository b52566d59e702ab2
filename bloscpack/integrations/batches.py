"""Batches of clips as NumPy arrays, read ahead on threads: for JAX, and for any other framework.

Decoding releases the interpreter's lock, so threads decode as fast as worker processes, and a batch
needs no copy to another process. Nothing here imports a framework.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, Unpack

import numpy as np

from ..frames.protocol import FrameSource
from ..keywords import explain_keywords
from ..parallel.arraypool import ArrayPool
from ..parallel.threads import ALL_THREADS, map_ahead, resolve_nthreads
from ..types import AnyArray
from .training.itemreader import READER_DEFAULTS, ItemReader, ReaderOptions
from .training.passes import Order, Passes

__all__ = ["FrameBatches"]

Batch = dict[str, Any]


class FrameBatches(Passes):
    """Batches of windows of clips, in an order that can be resumed at any batch.

    Parameters
    ----------
    source : path, sequence of paths, callable, or source of clips
        As for `bloscpack.integrations.torch.FrameDataset`.
    batch_size : int
        Items of a batch.
    shuffle : bool, default True
        Whether the order is random.
    seed : int, default 0
        Seed of the order and of the windows.
    rank, world_size : int, optional
        Take every `world_size`-th item, for distributed training.
    drop_last : bool, default False
        Whether to drop the items that do not fill a batch on each rank.
    threads : int, optional
        Threads that read; by default one per processor, at most 8.
    ahead : int, optional
        Batches that are read before they are requested; by default twice `threads`.
    transform : callable, optional
        Called with each batch, in the thread that read it; returns the batch to use.
    clips, length, stride, start, hop, short, label, with_meta, storage_options
        As for `FrameDataset`.

    Notes
    -----
    A batch is a dict:

    ========  ==================================================================================
    frames    ndarray (batch, T, ...); a list of arrays if items differ in shape
    id        list of str
    index     int64, the items
    start     int64, the first frames of the windows
    seed      int64, drawn for the item and the epoch
    label     with `label`: an array if all labels are numbers of one type, else a list
    meta      list of dict, with `with_meta`
    ========  ==================================================================================

    The memory of frames is used again when nothing refers to it: a batch that is kept is never
    overwritten. Each pass is the next epoch. An iterator cannot be used after a fork.

    Raises
    ------
    NotFoundError
        One of `clips` is not in the source.
    """

    @explain_keywords(READER_DEFAULTS)
    def __init__(
        self,
        source: Any,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        threads: int | None = None,
        ahead: int | None = None,
        transform: Callable[[Batch], Any] | None = None,
        **options: Unpack[ReaderOptions],
    ) -> None:
        for name, value in (("threads", threads), ("ahead", ahead)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self._reader = ItemReader(source, seed=seed, nthreads=1, **options)
        order = Order(
            shuffle=shuffle, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last
        )
        self._set_order(self._reader, batch_size, order)
        self._threads = threads
        self._ahead = ahead
        self._transform = transform

    @property
    def source(self) -> FrameSource:
        """Source of the clips."""
        return self._reader.source

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called, also with other threads or ranks.

        The seed, of the order and of the windows, becomes that of the state. Errors are those of
        `ClipSampler.load_state_dict`.
        """
        super().load_state_dict(state)
        self._reader.seed = state["seed"]

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        """Yield the rest of the epoch, or the next epoch."""
        nthreads = self._threads or resolve_nthreads(None, ALL_THREADS)
        ahead = self._ahead or 2 * nthreads
        # The batches ahead, the one in use, and the one before it.
        pool = _BytePool(ahead + nthreads + 2)

        def read(indices: Sequence[int]) -> Any:
            batch = self._read(indices, pool)
            return batch if self._transform is None else self._transform(batch)

        yield from self._counted(map_ahead(read, self._sampler, nthreads, ahead))

    def _read(self, indices: Sequence[int], pool: "_BytePool") -> Batch:
        plan = self._reader.plan(indices)
        frames = plan.read(pool.take)
        batch = {name: _column([item[name] for item in plan.items]) for name in plan.items[0]}
        batch["frames"] = frames
        return batch


class _BytePool:
    """Memory of batches, which several threads take."""

    def __init__(self, most: int) -> None:
        self._pool = ArrayPool(most, np.uint8)
        self._lock = Lock()

    def take(self, nbytes: int) -> AnyArray:
        with self._lock:
            return self._pool.take((nbytes,))


def _column(values: list[Any]) -> Any:
    """Return numbers of one type as an array, other values as they are."""
    kind, *others = {type(value) for value in values}
    if others or not issubclass(kind, bool | int | float | np.number | np.bool_):
        return values
    try:
        return np.array(values, np.int64 if kind is int else None)
    except OverflowError:  # labels above 2 ** 63
        return values
