"""Loader of training batches: pictures decoded, warped and normalized by threads."""

import operator
import os
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ...plugin import ALL_THREADS, ClipSampler, check_settings, importing, resolve_nthreads
from ..dataset import Dataset
from ..dataset import open as open_dataset
from ..mp4.format import THUMB
from ..transforms import CenterResizedCrop
from .affine import Compat
from .batching import Filler, Key, Picture, Plan, stream_of_epoch
from .recipe import TransformLike, make_recipe


class Loader:
    """Iterates over a dataset in batches of pictures and targets; each pass is one epoch.

    Parameters
    ----------
    dataset : Dataset or path
        A dataset, a split or another view of one, or a path to open.
    shape : int or (int, int)
        Height and width of the output pictures in pixels; one number means both.
    batch_size : int, default 1
        Number of pictures in a batch.
    shuffle : bool, default False
        Whether to shuffle, differently in each epoch; else the dataset's order is kept.
    seed : int, optional
        0 to 2 ** 64 - 1, for the order and all other randomness. By default a random seed, stored
        in the attribute.
    track : {"bzna_thumb", "bzna_input"}
        The picture of a sample to show.
    warp : transform or 9 numbers, optional
        Where the pixels of the output come from, see `transforms`. By default the centre of the
        picture, as large as fits (``CenterResizedCrop()``).
    bias, norm : transform, float or 3 floats, optional
        Numbers to subtract from red, green and blue, which are 0 to 255, and factors to multiply
        the result by (the inverse of a standard deviation). By default 0 and 1.
    oob : transform, float or 3 floats, optional
        Colour outside of the picture, to which bias and norm do not apply. By default black.
    color : transform or int, optional
        Conversion to red, green and blue, see `ColorTransform`. By default the one that each
        picture specifies.
    drop_last : bool, default False
        Drop the last batch if it is smaller.
    device : str or torch.device, default "cpu"
        Device of the batches; on any but the CPU they are tensors, see `ongpu`. "cuda" is
        experimental: it has not been tested on a GPU.
    as_tensors : bool, optional
        Return batches as torch tensors, which share the memory of the arrays.
    threads : int, optional
        Number of threads that read and decode, besides the one that iterates. By default one per
        processor, at most 8, and 1 in a worker process; ``BLOSCPACK_NTHREADS`` overrides this.
    prefetch : int, default 2
        Number of batches prepared ahead while the last one is used.
    padding : {"edge", "clean", "smear"}
        Extent of the picture beyond the centres of its outermost pixels: "edge" half a pixel,
        "clean" nothing, "smear" the codec's padding too, which Benzina shows.
    interpolation : {"bilinear", "nearest"}
        Interpolation between pixels.
    rank, world_size : int
        The part of each epoch to load, and the number of parts: see `frames.sampler.ClipSampler`.
    compat : "benzina", optional
        Draw random numbers as Benzina does, from one ``RandomState`` for all samples of a pass in
        their order, and pass `in_shape` as (width, height). A `warp` with this ``compat`` implies
        it. The seed must then be less than 2 ** 32.

    Attributes
    ----------
    seed : int
        The seed.
    epoch : int
        Epoch of the current pass or, before the first, of the next one.

    Raises
    ------
    ValueError, TypeError
        An option is out of range or has a wrong type.
    RuntimeError
        The device is not available.

    Notes
    -----
    A pass yields ``(images, targets)``: images are float32 of (n, 3, H, W), in red, green and blue;
    targets are int64 of (n,), -1 where a sample has none. Each batch has memory of its own, reused
    once no reference to any part of it is left. Each pass is the next epoch.

    Pixels depend on (seed, epoch, position in the dataset) only, not on threads, batches or order.
    Transforms that are not classes of `transforms` are called from several threads concurrently.

    A sample that cannot be read or decoded ends the pass with an error that names it. Abandoning a
    pass ends its threads. A loader can be pickled if its dataset can, and used after a fork; a
    running pass stays in its process.

    A loader replaces torch's ``DataLoader`` and uses threads instead of worker processes; do not
    wrap it in one. If you need worker processes, pass the dataset itself to torch's.

    Examples
    --------
    ::

        loader = Loader("train.bzna", 224, 256, shuffle=True, seed=1, warp=RandomResizedCrop())
        for epoch in range(90):
            for images, targets in loader:
                ...
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        shape: int | Sequence[int],
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int | None = None,
        *,
        track: str = THUMB,
        warp: TransformLike = None,
        bias: TransformLike = None,
        norm: TransformLike = None,
        oob: TransformLike = None,
        color: TransformLike = None,
        drop_last: bool = False,
        device: Any = "cpu",
        as_tensors: bool | None = None,
        threads: int | None = None,
        prefetch: int = 2,
        padding: str = "edge",
        interpolation: str = "bilinear",
        rank: int = 0,
        world_size: int = 1,
        compat: Compat | None = None,
    ) -> None:
        self.dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        self._recipe = make_recipe(
            shape,
            warp=CenterResizedCrop() if warp is None else warp,
            color=color,
            bias=bias,
            norm=norm,
            oob=oob,
            padding=padding,
            interpolation=interpolation,
            compat=compat,
        )
        if seed is None:
            seed = secrets.randbits(32 if self._recipe.compat else 64)
        if self._recipe.compat:
            stream_of_epoch(seed, 0)  # raises an error if the seed is out of range
        self.seed = seed
        self._sampler = ClipSampler(
            len(self.dataset),
            seed=seed,
            shuffle=shuffle,
            rank=rank,
            world_size=world_size,
            batch_size=_positive("batch_size", batch_size),
            drop_last=drop_last,
        )
        self.track = track
        # None if batches are arrays, which need no torch.
        self._device: Any = None
        if as_tensors or device != "cpu":
            with importing:
                from .ongpu import resolve_device
            if as_tensors is False:
                raise ValueError("as_tensors is False: arrays are made on device='cpu' only")
            self._device = resolve_device(device)
        self._threads = None if threads is None else _positive("threads", threads)
        self._prefetch = _positive("prefetch", prefetch)
        # Samples yielded in this pass; the sampler is ahead of it.
        self._nyielded = 0

    @property
    def epoch(self) -> int:
        """Epoch of the current pass or, before the first, of the next one."""
        return self._sampler.epoch

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the output pictures."""
        return self._recipe.shape

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        return len(self._sampler)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Load the rest of the epoch, or the next epoch if a pass over this one has begun."""
        order = iter(self._sampler)
        first = next(order, None)
        self._nyielded = 0
        if first is None:
            return
        filler = self._filler(self._sampler.epoch)
        plans = map(self._plan, chain([first], order))
        threads = self._threads or resolve_nthreads(None, ALL_THREADS)
        for images, targets in filler.batches(plans, threads, self._prefetch):
            self._nyielded += len(images)
            batch = [self._convert(images, targets)]
            del images, targets
            yield batch.pop()  # keep no reference, so that the caller's is the only one

    def _filler(self, epoch: int) -> Filler:
        if self._device is None or self._device.type == "cpu":
            return Filler(self._recipe, self.seed, epoch)
        with importing:
            from .ongpu import DeviceFiller
        limit = self.dataset._content.max_pixels
        return DeviceFiller(self._recipe, self.seed, epoch, self._device, max_pixels=limit)

    def _plan(self, positions: list[int]) -> Plan:
        keys = [Key(int(position)) for position in positions]
        return Plan(keys, partial(self._pictures, positions), self.dataset.targets[positions])

    def _pictures(self, positions: list[int], first: int, last: int) -> Iterator[Picture]:
        for sample in self.dataset.samples(positions[first:last]):
            yield sample, self.track

    def _convert(self, images: Any, targets: Any) -> tuple[Any, Any]:
        if self._device is None:
            return images, targets
        with importing:
            import torch
        return torch.as_tensor(images), torch.from_numpy(targets)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; see `frames.sampler.ClipSampler.set_epoch`."""
        self._sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch yielded, as numbers that JSON can store."""
        return {**self._sampler.state_dict(self._nyielded), "items": self._settings()}

    def _settings(self) -> dict[str, Any]:
        return {**self._recipe.settings(), "track": str(self.track)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called, with the seed of the state.

        Number of threads and number of ranks may differ.

        Raises
        ------
        ValueError
            The state is invalid, or was made with other settings, which the message names; or the
            transforms draw in Benzina's order, and the state is in the middle of an epoch.
        """
        check_settings({"items": self._settings()}, state)
        if self._recipe.is_in_order and 0 < state.get("position", 0) < state.get("length", 0):
            raise ValueError(
                "with compat='benzina' all samples of an epoch share one random stream: cannot "
                "resume in the middle of an epoch"
            )
        self._sampler.load_state_dict(state)
        self.seed, self._nyielded = state["seed"], 0


def _positive(name: str, value: int) -> int:
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    return number
