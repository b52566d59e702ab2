"""Items of a data set of clips: windows of frames by number, read as NumPy arrays.

Random numbers are drawn for (seed, epoch, item), so that they do not depend on the number of
workers, threads or machines. Nothing here imports a framework.
"""

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from ...array.attrs import plain
from ...exceptions import NotFoundError
from ...filetypes.open import open_frames
from ...frames.protocol import Clip, FrameSource, Request, result_form
from ...frames.sampler import ClipIndex, digest_of, random_number
from ...frames.windows import Short, Start, Windows
from ...keywords import text_list, word
from ...storage.url import refuse_options
from ...types import AnyArray

Item = dict[str, Any]
Label = str | Callable[[dict[str, Any]], Any]
Allocate = Callable[[int], AnyArray | None]
"""Function from a number of bytes to memory for a batch, or to None if there is no memory."""

# Purposes of random numbers.
_START, _SEED = 0, 1
# Alignment of arrays of several shapes in one piece of memory, in bytes.
_ALIGNMENT = 64


class ReaderOptions(TypedDict, total=False):
    """Options that choose items, as `FrameDataset` documents them."""

    clips: Sequence[str] | None
    length: int | None
    stride: int
    start: Start
    hop: int | None
    short: Short
    label: Label | None
    with_meta: bool
    storage_options: Mapping[str, Any] | None


READER_DEFAULTS: ReaderOptions = {
    "stride": 1,
    "start": "random",
    "short": "repeat_last",
    "with_meta": False,
}
"""Those of the options that are not None."""


class ItemReader:
    """Windows of clips by number; see `FrameDataset` for the parameters."""

    def __init__(
        self,
        source: Any,
        *,
        seed: int = 0,
        nthreads: int | None = None,
        **options: Unpack[ReaderOptions],
    ) -> None:
        given: ReaderOptions = {**READER_DEFAULTS, **options}
        self._where = _Place(source, given.get("storage_options"))
        self._windows = Windows(
            given.get("length"), given["stride"], given["start"], given.get("hop"), given["short"]
        )
        self._label = given.get("label")
        self._with_meta = given["with_meta"]
        self.seed = word("seed", seed)
        self._nthreads = nthreads
        self.epoch = 0
        opened = self._where.source()
        clips = given.get("clips")
        self._clips = None if clips is None else text_list("clips", clips)
        if clips is not None and not self._clips:
            raise ValueError("clips is empty: name at least one clip, or pass None for all")
        for clip in self._clips or ():
            if clip not in opened:
                raise NotFoundError(f"clip {clip!r:.80} is not in {opened.name}")
        # Number of items up to and including each clip, unless each clip has one.
        self._ends: np.ndarray[Any, np.dtype[np.int64]] | None = None
        if self._windows.needs_lengths:
            ids = opened.keys() if self._clips is None else self._clips
            counts = [self._windows.count(len(opened[clip])) for clip in ids]
            self._ends = np.cumsum(counts, dtype=np.int64)
            if counts and not self._ends[-1]:
                raise ValueError(
                    f"all {len(counts)} clips have less than the {self._windows.span} frames that "
                    "an item spans, and short='skip' leaves them out: pass a smaller length or "
                    "stride, or another 'short'"
                )
        self._digest: str | None = None
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

    def _settings(self) -> dict[str, Any]:
        """Return what decides the items besides the seed, for the state of a `ClipSampler`."""
        if self._digest is None:
            self._digest = digest_of(self.source if self._clips is None else self._clips)
        label = self._label
        if callable(label):
            label = f"function {getattr(label, '__qualname__', type(label).__qualname__)}"
        return {
            **asdict(self._windows),
            "label": label,
            "with_meta": self._with_meta,
            "digest of the ids": self._digest,
        }

    def plan(self, indices: Sequence[int]) -> "Plan":
        """Return the items with these numbers, and what to read for them."""
        source = self._where.source()
        plan = Plan(source, self._nthreads, [], [], [])
        for index in indices:
            clip, selection, item = self._plan(source, index)
            plan.clips.append(clip)
            plan.requests.append((clip.id, selection))
            plan.items.append(item)
        return plan

    def _plan(self, source: FrameSource, index: int) -> tuple[Clip, Any, Item]:
        """Return the clip and the frames to read for an index, and the item without its frames."""
        epoch = index.epoch if isinstance(index, ClipIndex) else self.epoch
        ordinal = operator.index(index)  # `int` would take 1.5 and "1"
        if not -len(self) <= ordinal < len(self):
            raise IndexError(f"item {ordinal} of a dataset of {len(self)}")
        ordinal %= len(self)
        position, number = ordinal, 0
        if self._ends is not None:
            position = int(np.searchsorted(self._ends, ordinal, side="right"))
            number = ordinal - (int(self._ends[position - 1]) if position else 0)
        clip = source[(source.keys() if self._clips is None else self._clips)[position]]
        drawn = random_number(self.seed, epoch, ordinal, _START)
        try:
            start, selection = self._windows.select(len(clip), number, drawn)
        except ValueError as err:
            raise ValueError(f"clip {clip.id!r:.80}: {err}") from err
        item: Item = {
            "frames": None,
            "id": clip.id,
            "index": ordinal,
            "start": start,
            "seed": random_number(self.seed, epoch, ordinal, _SEED) >> 1,  # fits int64
        }
        if self._label is not None or self._with_meta:
            self._describe(clip, item)
        return clip, selection, item

    def _describe(self, clip: Clip, item: Item) -> None:
        """Add label and metadata of a clip to its item."""
        meta = plain(clip.meta)  # for transforms to change
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


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch of items, before its frames are read.

    Attributes
    ----------
    items : list of dict
        Items, without their frames.
    clips : list of Clip
        The clip of each item.
    requests : list of (str, selection)
        Frames to read of each.
    """

    source: FrameSource
    nthreads: int | None
    items: list[Item]
    clips: list[Clip]
    requests: list[Request]

    def read(
        self, allocate: Allocate | None = None, chosen: Sequence[int] | None = None
    ) -> AnyArray | list[AnyArray]:
        """Read the frames of all items in one call: sorted by place, decoded together.

        Return one array if all items agree in shape and dtype, else one each. With `allocate` they
        are read into the memory that it returns, if it returns any. `chosen` are the places of the
        items to read, if not all.
        """
        if chosen is not None and len(chosen) < len(self.items):
            clips, requests = [self.clips[k] for k in chosen], [self.requests[k] for k in chosen]
            return Plan(self.source, self.nthreads, self.items, clips, requests).read(allocate)
        out = None if allocate is None else self._out(allocate)
        return self.source.read(self.requests, out=out, nthreads=self.nthreads)

    def _out(self, allocate: Allocate) -> AnyArray | list[AnyArray] | None:
        """Return arrays for the frames, or None if there is no memory or their shape is unknown."""
        if not all(hasattr(clip, "frame_shape") for clip in self.clips):
            return None  # a source that is not ours, whose frames may differ in shape
        forms = [
            result_form(clip, selection)  # type: ignore[arg-type]
            for clip, (_, selection) in zip(self.clips, self.requests, strict=True)
        ]
        if not forms:
            return None
        if len(set(forms)) == 1:
            shape, dtype = forms[0]
            shapes = [((len(forms), *shape), dtype)]
        else:
            shapes = forms
        # Of Python's integers, as shapes from a damaged file could overflow others.
        sizes = [dtype.itemsize * int(np.prod(shape, dtype=object)) for shape, dtype in shapes]
        starts = [0]
        for size in sizes:
            starts.append(-(-(starts[-1] + size) // _ALIGNMENT) * _ALIGNMENT)
        memory = allocate(starts[-1]) if starts[-1] else None
        if memory is None:
            return None
        arrays: list[AnyArray] = [
            memory[start : start + size].view(dtype).reshape(shape)
            for start, size, (shape, dtype) in zip(starts, sizes, shapes, strict=False)
        ]
        return arrays[0] if shapes is not forms else arrays


def _checked(source: Any) -> FrameSource:
    """Return a source of clips, or raise TypeError for another object."""
    if not (hasattr(source, "keys") and hasattr(source, "read")):
        raise TypeError(
            "source must be a path, a list of paths, a source of clips such as "
            f"bloscpack.frames.open returns, or a function that opens one, not {source!r:.80}"
        )
    found: FrameSource = source
    return found


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
            self._source = _checked(source)
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
            self._source = _checked(self._open())
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
