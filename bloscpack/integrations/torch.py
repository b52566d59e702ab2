"""Clips of frames as a dataset for torch's ``DataLoader``.

An item is a window of frames of a clip. A batch is read from the source in one call. Random numbers
are drawn for (seed, epoch, item), so that they do not depend on the number of workers. Only this
module imports torch.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..exceptions import NotFoundError
from ..filetypes.open import open_frames
from ..frames.protocol import Clip, FrameSource
from ..frames.sampler import ClipIndex, ClipSampler, random_number
from ..frames.windows import Short, Start, Windows
from ..storage.url import refuse_options
from ..types import AnyArray, FrameLayout, text_list

__all__ = ["ClipIndex", "ClipSampler", "FrameDataset", "collate_clips"]

Item = dict[str, Any]

# Purposes of random numbers.
_START, _SEED = 0, 1
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
        self._where = _Place(source, storage_options)
        self._windows = Windows(length, stride, start, hop, short)
        self._label = label
        self._with_meta = with_meta
        self._layout = layout
        self._transform = transform
        self._seed = seed
        self._nthreads = nthreads
        self._epoch = 0
        opened = self._where.source()
        self._clips = None if clips is None else text_list("clips", clips)
        for clip in self._clips or ():
            if clip not in opened:
                raise NotFoundError(f"clip {clip!r:.80} is not in {opened.name}")
        # Number of items up to and including each clip, unless each clip has one.
        self._ends: np.ndarray[Any, np.dtype[np.int64]] | None = None
        if self._windows.needs_lengths:
            ids = opened.keys() if self._clips is None else self._clips
            counts = [self._windows.count(len(opened[clip])) for clip in ids]
            self._ends = np.cumsum(counts, dtype=np.int64)
        self._nclips = len(opened) if self._clips is None else len(self._clips)

    @property
    def source(self) -> FrameSource:
        """Source of this process, which is opened if necessary."""
        return self._where.source()

    def __len__(self) -> int:
        """Return the number of items."""
        if self._ends is None:
            return self._nclips
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> Any:
        """Read one item."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Read a batch of items in one call of the source: sorted by place, decoded together."""
        source = self._where.source()
        requests, items = [], []
        for index in indices:
            clip, selection, item = self._plan(source, index)
            requests.append((clip.id, selection))
            items.append(item)
        frames = source.read(requests, nthreads=self._nthreads)
        # An array becomes one tensor, and the items are views of it.
        parts = _tensor(frames) if isinstance(frames, np.ndarray) else map(_tensor, frames)
        for item, part in zip(items, parts, strict=True):
            item["frames"] = self._laid_out(part)
        return items if self._transform is None else list(map(self._transform, items))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of random numbers, if the indices do not come from a `ClipSampler`."""
        self._epoch = epoch

    def _plan(self, source: FrameSource, index: int) -> tuple[Clip, Any, Item]:
        """Return the clip and the frames to read for an index, and the item without its frames."""
        epoch = index.epoch if isinstance(index, ClipIndex) else self._epoch
        ordinal = int(index)
        if not -len(self) <= ordinal < len(self):
            raise IndexError(f"item {ordinal} of a dataset of {len(self)}")
        ordinal %= len(self)
        position, number = ordinal, 0
        if self._ends is not None:
            position = int(np.searchsorted(self._ends, ordinal, side="right"))
            number = ordinal - (int(self._ends[position - 1]) if position else 0)
        clip = source[(source.keys() if self._clips is None else self._clips)[position]]
        drawn = random_number(self._seed, epoch, ordinal, _START)
        try:
            start, selection = self._windows.select(len(clip), number, drawn)
        except ValueError as err:
            raise ValueError(f"clip {clip.id!r:.80}: {err}") from err
        item: Item = {
            "frames": None,
            "id": clip.id,
            "index": ordinal,
            "start": start,
            "seed": random_number(self._seed, epoch, ordinal, _SEED) >> 1,
        }
        if self._label is not None or self._with_meta:
            self._describe(clip, item)
        return clip, selection, item

    def _describe(self, clip: Clip, item: Item) -> None:
        """Add label and metadata of a clip to its item."""
        meta = clip.meta
        if isinstance(self._label, str):
            if self._label not in meta:
                raise NotFoundError(
                    f"clip {clip.id!r:.80}: its metadata lack {self._label!r}, "
                    f"and have {list(meta)!r:.200}"
                )
            item["label"] = meta[self._label]
        elif self._label is not None:
            item["label"] = self._label(meta)
        if self._with_meta:
            item["meta"] = meta

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


class _Place:
    """The source of clips, opened once in each process."""

    def __init__(self, source: Any, storage_options: Mapping[str, Any] | None) -> None:
        self._is_own = isinstance(source, str | os.PathLike | list | tuple)
        if not self._is_own:
            refuse_options(source, storage_options)
        self._open = source if callable(source) and not self._is_own else None
        self._source: FrameSource | None = None
        if self._is_own:
            self._source = open_frames(source, storage_options=storage_options)
        elif self._open is None:
            self._source = source
        # Function that reopens the source in another process, and its arguments.
        self._reopener: tuple[Any, ...] = ()
        self._pid = -1

    def source(self) -> FrameSource:
        """Return the source of this process."""
        if self._open is None:
            if self._source is None:
                reopen, arguments = self._reopener
                self._source = reopen(*arguments)
            return self._source
        if self._source is None or self._pid != os.getpid():
            self._source = self._open()
            self._pid = os.getpid()
        return self._source

    def __getstate__(self) -> dict[str, Any]:
        """Leave out an open source, which is reopened on use.

        A source that was opened here is pickled as the arguments to reopen it. If its file has
        changed, reading raises the error, and the start of a worker does not fail.
        """
        state = dict(self.__dict__, _pid=-1)
        if self._is_own and self._source is not None:
            state["_reopener"] = self._source.__reduce__()
        if self._is_own or self._open is not None:
            state["_source"] = None
        return state


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
    return {name: _collated([item[name] for item in items]) for name in items[0]}


def _collated(values: list[Any]) -> Any:
    kinds = {type(value) for value in values}
    if kinds == {torch.Tensor}:
        if len({(value.shape, value.dtype, value.stride()) for value in values}) == 1:
            return _joined(values)
        if len({(value.shape, value.dtype) for value in values}) == 1:
            return torch.stack(values)
    elif kinds in ({bool}, {int}, {float}):
        return torch.tensor(values)
    return values


def _joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Stack tensors of one shape, without a copy if they follow each other in memory."""
    first = tensors[0]
    step = first.numel()
    places = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    offsets = [tensor.storage_offset() - first.storage_offset() for tensor in tensors]
    if len(places) > 1 or not step or offsets != [step * k for k in range(len(tensors))]:
        return torch.stack(tensors)
    return first.as_strided(
        (len(tensors), *first.shape), (step, *first.stride()), first.storage_offset()
    )


def _tensor(array: AnyArray) -> torch.Tensor:
    """Return a tensor that shares the memory of an array, if torch has its dtype."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(native)
