"""Clips of frames as a dataset for torch's ``DataLoader``.

An item is a window of frames of a clip. A batch is read from the source in one call. Random numbers
are drawn for (seed, epoch, item), so that they do not depend on the number of workers. Only this
module imports torch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..frames.protocol import FrameSource
from ..frames.sampler import ClipIndex, ClipSampler
from ..frames.windows import Short, Start
from ..types import FrameLayout
from .training.itemreader import Item, ItemReader
from .training.torchbatch import SharedDict, collate, memory_of_worker, tensor_of

__all__ = ["ClipIndex", "ClipSampler", "FrameDataset", "collate_clips"]

# Axes of frames of shape (T, H, W, C) in each layout.
_LAYOUTS = {"thwc": (0, 1, 2, 3), "tchw": (0, 3, 1, 2), "cthw": (3, 0, 1, 2)}


class FrameDataset:
    """Windows of clips by number: a map-style dataset.

    Parameters
    ----------
    source : path, sequence of paths, callable, or source of clips
        Anything that `bloscpack.frames.open` opens, by path or URL: a frame store, several stores,
        a Gulp directory. A pattern is expanded once, here. Forked workers read from the source
        opened here; others reopen it on their first read, and find the same files or raise
        `FileChangedError`. Or a function without arguments that opens a source and is called once
        in each process. Or an open source, which must be picklable if workers are spawned.
    clips : sequence of str, optional
        Ids of the clips to take, in this order; by default all.
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
    `set_epoch` is called before each epoch (persistent workers do not see that call).

    If clips have metadata, or frames of several shapes, give the loader
    ``collate_fn=collate_clips``.

    Raises
    ------
    NotFoundError
        One of `clips` is not in the source.
    """

    def __init__(
        self,
        source: Any,
        *,
        clips: Sequence[str] | None = None,
        length: int | None = None,
        stride: int = 1,
        start: Start = "random",
        hop: int | None = None,
        short: Short = "repeat_last",
        label: str | Callable[[dict[str, Any]], Any] | None = None,
        with_meta: bool = False,
        layout: FrameLayout = "thwc",
        transform: Callable[[Item], Any] | None = None,
        seed: int = 0,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if layout not in _LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}, not {layout!r}")
        self._reader = ItemReader(
            source,
            clips=clips,
            length=length,
            stride=stride,
            start=start,
            hop=hop,
            short=short,
            label=label,
            with_meta=with_meta,
            seed=seed,
            nthreads=nthreads,
            storage_options=storage_options,
        )
        self._layout = layout
        self._transform = transform

    @property
    def source(self) -> FrameSource:
        """Source of this process, which is opened if necessary."""
        return self._reader.source

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._reader)

    def __getitem__(self, index: int) -> Any:
        """Read one item."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Read a batch of items in one call of the source: sorted by place, decoded together."""
        plan = self._reader.plan(indices)
        frames = plan.read(memory_of_worker())
        # An array becomes one tensor, and the items are views of it.
        parts = tensor_of(frames) if isinstance(frames, np.ndarray) else map(tensor_of, frames)
        items = [SharedDict(item) for item in plan.items]
        for item, part in zip(items, parts, strict=True):
            item["frames"] = self._laid_out(part)
        return items if self._transform is None else list(map(self._transform, items))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of random numbers, if the indices do not come from a `ClipSampler`."""
        self._reader.epoch = epoch

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
