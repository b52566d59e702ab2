"""Clips of frames as a dataset for torch's ``DataLoader``.

An item is a window of frames of a clip. A batch is read from the source in one call. Random numbers
are drawn for (seed, epoch, item), so that they do not depend on the number of workers. Only this
module imports torch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ..frames.protocol import Clip, FrameSelection, FrameSource, frame_indices
from ..frames.sampler import ClipIndex, ClipSampler, check_settings, wrapped_datasets
from ..keywords import explain_keywords, state_of, word
from ..parallel.sharedring import drop_unused
from ..types import FrameLayout
from .training.devicedecoder import checked_device, code_batch
from .training.itemreader import READER_DEFAULTS, Item, ItemReader, ReaderOptions
from .training.passes import Order, Passes, sampler_of_batches
from .training.torchbatch import SharedDict, collate, memory_of_worker, tensor_of

__all__ = [
    "ClipIndex",
    "ClipSampler",
    "FrameDataset",
    "FrameLoader",
    "FrameStream",
    "collate_clips",
    "read_frames",
]

# Axes of frames of shape (T, H, W, C) in each layout.
_LAYOUTS = {"thwc": (0, 1, 2, 3), "tchw": (0, 3, 1, 2), "cthw": (3, 0, 1, 2)}
# Number of the worker and of all workers, in a process without any.
_ALONE = [0, 1]


class FrameDataset:
    """Windows of clips by number: a map-style dataset.

    Parameters
    ----------
    source : path, sequence of paths, callable, or source of clips
        Anything that `bloscpack.frames.open` opens, by path or URL: a frame store, several stores,
        a recording. A pattern is expanded once, here. Forked workers read from the source
        opened here; others reopen it on their first read, and find the same files or raise
        `FileChangedError`. Or a function without arguments that opens a source and is called once
        in each process. Or an open source, which must be picklable if workers are spawned.
    clips : sequence of str, optional
        Ids of the clips to take, in this order, at least one; by default all.
    length : int, optional
        Frames per item; by default an item is a whole clip.
    stride : int, default 1
        Distance between frames of an item.
    start : {"random", "first", "center", "every"}, default "random"
        Start of the window in a clip. With "every" there is an item for every window of every clip,
        each `hop` frames after the one before.
    hop : int, optional
        By default the frames that a window spans, so that windows do not overlap.
    short : {"repeat_last", "wrap", "skip", "error"}, default "repeat_last"
        Treatment of a clip with fewer frames than a window spans: repeat its last frame, start
        again from its first frame, leave it out, or raise an error when it is read.
    label : str or callable, optional
        Source of item["label"]: the name of an entry in the clip's metadata, or a function of the
        metadata.
    with_meta : bool, default False
        Add the clip's metadata to the item.
    layout : {"thwc", "tchw", "cthw"}, default "thwc"
        Axes of ``item["frames"]``. The first is how frames are stored; the others add an axis of
        one channel to gray frames. No data are moved.
    transform : callable, optional
        Called with each item; returns the item to use. Must be picklable if workers are spawned.
    seed : int, default 0
        Seed of random numbers.
    nthreads : int, optional
        Threads that decode; by default one in a worker, else one per processor.
    storage_options : mapping, optional
        Options for URLs, as for `bloscpack.frames.open`.
    device : str or torch.device, optional
        Device that frames arrive on, "cuda" or "cuda:N". Video is decoded there by torchcodec, and
        JPEG by torchvision. Other frames are decoded by the processor, and moved. Workers cannot
        use a device: pass the dataset to a `FrameLoader`, whose workers read and verify only, or
        use no workers. With "cpu", the same libraries decode on the processor.

    Notes
    -----
    An item is a dict:

    ========  ==================================================================================
    frames    tensor of the clip's dtype, usually uint8; items read in one batch are parts of one
              tensor, which do not overlap
    id        str, the clip
    index     int, the item
    start     int, the first frame of the window
    seed      int under 2 ** 63, drawn for the item and the epoch: to seed the generator of a
              random transform, so that it does not depend on the worker
    label     with `label`
    meta      dict, with `with_meta`
    ========  ==================================================================================

    Random numbers differ from epoch to epoch if the indices come from a `ClipSampler`, or if
    `set_epoch` is called before each epoch (persistent workers do not see that call). torch's
    ``Subset`` and ``ConcatDataset`` hand on plain numbers: a `FrameLoader` or `FrameStream` of them
    sets the epoch.

    If clips have metadata, or frames of several shapes, give the loader
    ``collate_fn=collate_clips``.

    Raises
    ------
    NotFoundError
        One of `clips` is not in the source.
    """

    @explain_keywords(READER_DEFAULTS)
    def __init__(
        self,
        source: Any,
        *,
        layout: FrameLayout = "thwc",
        transform: Callable[[Item], Any] | None = None,
        seed: int = 0,
        nthreads: int | None = None,
        device: str | torch.device | None = None,
        **options: Unpack[ReaderOptions],
    ) -> None:
        if layout not in _LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}, not {layout!r}")
        self._reader = ItemReader(source, seed=seed, nthreads=nthreads, **options)
        self._layout = layout
        self._transform = transform
        self._device = None if device is None else checked_device(device)

    @property
    def source(self) -> FrameSource:
        """Source of this process, which is opened if necessary."""
        return self._reader.source

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._reader)

    def _settings(self) -> dict[str, Any]:
        """Return what decides the items, for the state of a `ClipSampler`."""
        reader = self._reader
        return {**reader._settings(), "seed": reader.seed, "layout": self._layout}

    def __getitem__(self, index: int) -> Any:
        """Read one item."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Read a batch of items in one call of the source: sorted by place, decoded together."""
        if self._device is not None:
            if get_worker_info() is not None:
                raise RuntimeError(
                    f"device {str(self._device)!r}: a worker cannot decode on it; pass the dataset "
                    "to FrameLoader, whose workers only read, or use num_workers=0"
                )
            return self._decoded(self._coded(indices))
        plan = self._reader.plan(indices)
        frames = plan.read(memory_of_worker())
        # An array becomes one tensor, and the items are views of it.
        parts = tensor_of(frames) if isinstance(frames, np.ndarray) else map(tensor_of, frames)
        return self._finished(plan.items, parts)

    def _finished(self, given: list[Item], parts: Iterable[torch.Tensor]) -> list[Any]:
        items = [SharedDict(item) for item in given]
        for item, part in zip(items, parts, strict=True):
            item["frames"] = self._laid_out(part)
        return items if self._transform is None else list(map(self._transform, items))

    def _coded(self, indices: Sequence[int]) -> SharedDict:
        """Read and verify a batch for `_decoded`, which may run in another process."""
        plan = self._reader.plan(indices)
        requests = [
            (clip, selection)
            for clip, (_, selection) in zip(plan.clips, plan.requests, strict=True)
        ]
        coded, hosted = code_batch(requests, lambda chosen: plan.read(memory_of_worker(), chosen))
        return SharedDict(items=plan.items, coded=coded, hosted=hosted)

    def _decoded(self, batch: Mapping[str, Any]) -> list[Any]:
        """Decode a batch on the device, and return its items."""
        return self._finished(batch["items"], batch["coded"].decode(self._device, batch["hosted"]))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of random numbers, if the indices do not come from a `ClipSampler`."""
        self._reader.epoch = word("epoch", epoch)

    def _laid_out(self, frames: torch.Tensor) -> torch.Tensor:
        if self._layout == "thwc":
            return frames
        if frames.ndim == 3:
            frames = frames.unsqueeze(3)
        if frames.ndim != 4:
            raise ValueError(
                f"layout {self._layout!r} is for frames of (H, W) or (H, W, C), "
                f"not {tuple(frames.shape[1:])}"
            )
        return frames.permute(_LAYOUTS[self._layout])


def collate_clips(items: Sequence[Item]) -> dict[str, Any]:
    """Collate items to a batch: the ``collate_fn`` for clips of any shape and with metadata.

    Parameters
    ----------
    items : sequence of dict
        Items of a `FrameDataset`, transformed or not.

    Returns
    -------
    dict
        For each entry of the items one tensor, if all are tensors of one shape and dtype (frames of
        one batch are not copied, unless they were transformed) or numbers of one type; else a list.
    """
    return collate(items)


def read_frames(
    clip: Clip, selection: FrameSelection = None, *, device: str | torch.device
) -> torch.Tensor:
    """Read frames of a clip into a tensor on a device, and decode them there if it can.

    Parameters
    ----------
    clip : Clip
        Clip of any source.
    selection : int, slice, sequence of int, ndarray of int or bool, optional
        Frames to read, in this order; all by default.
    device : str or torch.device
        As for `FrameDataset`.

    Returns
    -------
    torch.Tensor
        Frames of shape ``(n, *frame shape)``; an int gives ``frame shape``.

    Raises
    ------
    CodecError
        The device cannot decode a frame; the message names the clip and the codec.
    ImportError, RuntimeError
        A package, or the device, is missing.
    """
    where = checked_device(device)
    indices, is_single = frame_indices(selection, len(clip))
    coded, hosted = code_batch([(clip, indices)], lambda _: [clip.read(indices)])
    frames: torch.Tensor = coded.decode(where, hosted)[0]
    return frames[0] if is_single else frames


class _Verified:
    """A dataset as workers read it, whose frames the training process decodes."""

    def __init__(self, dataset: FrameDataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitems__(self, indices: Sequence[int]) -> SharedDict:
        return self._dataset._coded(indices)


class _Wrapped:
    """A dataset that wraps ours, which learn the epoch in the process that reads."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, indices: list[ClipIndex]) -> list[Any]:
        return _items(self.dataset, indices)


def _same(batch: Any) -> Any:
    return batch


class FrameLoader(Passes, DataLoader[Any]):  # type: ignore[misc]
    """Loader of batches that can be stopped and resumed at any batch: a ``DataLoader``.

    Parameters
    ----------
    dataset : FrameDataset or other map-style dataset
        Items.
    batch_size : int
        Items of a batch.
    shuffle : bool, default True
        Whether the order is random.
    seed : int, default 0
        Seed of the order.
    rank, world_size : int, optional
        Take every `world_size`-th item, for distributed training.
    drop_last : bool, default False
        Whether to drop the items that do not fill a batch on each rank.
    collate_fn : callable, default `collate_clips`
        Makes a batch of a list of items.
    **options
        Other options of ``DataLoader``, such as `num_workers`, `prefetch_factor` and `pin_memory`.

    Notes
    -----
    Each pass is the next epoch, in another order; see `ClipSampler`. ``state_dict()`` and
    ``load_state_dict()`` are those of torchdata's ``StatefulDataLoader``. The state counts the
    batches that this loader has returned, not those that workers have read ahead. After the last
    batch it is the start of the next epoch.

    Examples
    --------
    A loop that can be stopped after any batch::

        loader = FrameLoader(dataset, 8, num_workers=4)
        for epoch in range(loader.epoch, 90):
            for batch in loader:
                train(batch)
                torch.save(loader.state_dict(), "loader.pt")
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] = collate_clips,
        **options: Any,
    ) -> None:
        order = Order(
            shuffle=shuffle, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last
        )
        if not options.get("in_order", True):
            raise ValueError(
                "in_order=False is not possible: a state counts batches in their order"
            )
        self._set_order(dataset, batch_size, order)
        self._on_device: Any = None
        if isinstance(dataset, FrameDataset) and dataset._device is not None:
            self._on_device = dataset, collate_fn
            dataset, collate_fn = _Verified(dataset), _same
        elif wrapped_datasets(dataset):
            dataset = _Wrapped(dataset)
        super().__init__(dataset, batch_sampler=self._sampler, collate_fn=collate_fn, **options)

    def __iter__(self) -> Iterator[Any]:
        """Yield the rest of the epoch, or the next epoch."""
        try:
            batches = super().__iter__()
            yield from self._counted(batches if self._on_device is None else self._decode(batches))
        finally:
            drop_unused()

    def _decode(self, batches: Iterable[Any]) -> Iterator[Any]:
        dataset, collate_fn = self._on_device
        for batch in batches:
            yield collate_fn(dataset._decoded(batch))


class FrameStream(IterableDataset[Any]):  # type: ignore[misc]
    """Batches of a dataset as an iterable dataset, which divides them among workers and ranks.

    Pass it to ``DataLoader`` with ``batch_size=None``. For any number of workers the batches are
    those of a `FrameLoader` with the same arguments, in the same order. Its parameters are those
    of `FrameLoader`, without the options of ``DataLoader``.

    Notes
    -----
    Each pass is the next epoch where the stream lives on: in this process, and in persistent
    workers. Other workers start from the copy in this process: call `set_epoch` before each pass.
    torchdata's ``StatefulDataLoader`` resumes it by ``state_dict()`` and ``load_state_dict()``.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        collate_fn: Callable[[list[Any]], Any] = collate_clips,
        **order: Unpack[Order],
    ) -> None:
        self._sampler = sampler_of_batches(dataset, batch_size, order)
        self._batch_size = batch_size
        self._dataset = dataset
        self._collate = collate_fn
        # Batches of the epoch, of all workers, that come before the next one of this worker.
        self._given = 0
        # Those that the next pass leaves out, because they come before a place that was loaded.
        self._skipped = 0
        self._has_ended = False

    def __len__(self) -> int:
        """Return the number of batches, of all workers."""
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of this worker, in the rest of the epoch or the next one."""
        worker, nworkers = _worker()
        skipped, self._skipped = self._skipped, 0
        self._given, self._has_ended = skipped, False
        for number, indices in enumerate(self._sampler):
            if number >= skipped and number % nworkers == worker:
                batch = self._collate(_items(self._dataset, indices))
                self._given = number + 1
                yield batch
                del batch  # its memory can be used for the next one, which is read now
        self._given, self._has_ended = 0, True

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; see `ClipSampler.set_epoch`."""
        if epoch != self._sampler.epoch:
            self._skipped = 0
        self._sampler.set_epoch(epoch)
        self._given, self._has_ended = self._skipped, False

    def state_dict(self) -> dict[str, Any]:
        """Return the place in the epoch, in this process."""
        worker, seen, batches = list(_worker()), 0, self._given
        if worker == _ALONE:  # the place is that of the sampler, for any number of workers
            seen, batches = min(batches * self._batch_size, self._sampler.nyielded), 0
        state = {**self._sampler.state_dict(seen), "batches": batches, "worker": worker}
        return {**state, "epoch": state["epoch"] + 1, "position": 0} if self._has_ended else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called, with the same number of workers.

        A state that was made without workers fits any number of them, and of ranks.
        Errors are those of `ClipSampler.load_state_dict`.
        """
        given = state_of(state).get("batches")
        is_alone = state.get("worker") == _ALONE
        if not isinstance(given, int) or given < 0 or (is_alone and given):
            raise ValueError(f"not a state of a FrameStream: {state!r:.200}")
        if not is_alone:
            check_settings({"worker": list(_worker())}, state)
        own = {"batches", "worker"}
        self._sampler.load_state_dict({k: v for k, v in state.items() if k not in own})
        self._given = self._skipped = given
        self._has_ended = False


def _worker() -> tuple[int, int]:
    """Return the number of this worker, and how many there are."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _items(dataset: Any, indices: list[ClipIndex]) -> list[Any]:
    for part in wrapped_datasets(dataset):
        part.set_epoch(indices[0].epoch)
    read = getattr(dataset, "__getitems__", None)
    return [dataset[index] for index in indices] if read is None else read(indices)
