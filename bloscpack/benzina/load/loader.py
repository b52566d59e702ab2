"""Pictures in batches for training: decoded, warped and normalized on threads."""

import operator
import os
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ...frames.sampler import ClipSampler
from ...parallel.imports import importing
from ...parallel.threads import resolve_nthreads
from ..dataset import Dataset
from ..dataset import open as open_dataset
from ..mp4.format import THUMB
from ..transforms import CenterResizedCrop
from .affine import Compat
from .batching import Filler, Key, Picture, Plan, stream_of_epoch
from .recipe import TransformLike, make_recipe

# More work, in bytes, than any number of threads is started for.
_MUCH = 1 << 40


class Loader:
    """Batches of pictures with their targets, once over a dataset in each pass.

    Parameters
    ----------
    dataset : Dataset or path
        What is loaded: a dataset, a split or another view of one, or what `open` opens.
    shape : int or (int, int)
        Height and width of the pictures of a batch, in pixels; one number is both.
    batch_size : int, default 1
        Pictures of a batch.
    shuffle : bool, default False
        Whether the order is random, another one in each epoch; else it is the dataset's.
    seed : int, optional
        0 to 2 ** 64 - 1, for the order and all else that is random; by default it is drawn, see
        the attribute.
    track : {"bzna_thumb", "bzna_input"}
        Which picture of a sample is shown.
    warp : transform or 9 numbers, optional
        Where the pixels of the output come from, see `transforms`. By default the middle of the
        picture, as large as fits (``CenterResizedCrop()``).
    bias, norm : transform, float or 3 floats, optional
        What is subtracted from red, green and blue, which are 0 to 255, and what the result is
        multiplied by (so of a standard deviation the inverse). By default 0 and 1.
    oob : transform, float or 3 floats, optional
        Red, green and blue outside of the picture, without bias and norm. By default black.
    color : transform or int, optional
        Conversion to red, green and blue, see `ColorTransform`. By default that which each picture
        asks for.
    drop_last : bool, default False
        Leave out a last batch that would be smaller.
    device : str or torch.device, default "cpu"
        Where batches are made; on another than the CPU they are tensors, see `ongpu`. "cuda" is
        experimental: it has not been tested on a GPU.
    as_tensors : bool, optional
        Whether batches are torch tensors, of the same memory, and not arrays.
    threads : int, optional
        Threads that read and decode, beside the one that iterates. By default as many as there are
        processors, at most 8, and 1 in a worker process; ``BLOSCPACK_NTHREADS`` says another
        number.
    prefetch : int, default 2
        Batches that are worked on ahead while the last one is used.
    padding : {"edge", "clean", "smear"}
        What is not outside of the picture: also half a pixel further than the middle of its last
        one; nothing more; also the codec's filling, which Benzina shows.
    interpolation : {"bilinear", "nearest"}
        Between pixels.
    rank, world_size : int
        Which part of each epoch is loaded, of how many: see `frames.sampler.ClipSampler`.
    compat : "benzina", optional
        Draw for transforms as Benzina does, and give them shapes as it does: one stream for all
        samples of a pass in their order, ``RandomState``, `in_shape` as (width, height). So it is,
        too, if `warp` has this ``compat``. The seed is then less than 2 ** 32.

    Attributes
    ----------
    seed : int
        The seed.
    epoch : int
        The epoch of the pass that is going on or, before the first, to come.

    Raises
    ------
    ValueError, TypeError
        An option is none of those there are.
    RuntimeError
        The device is not there.

    Notes
    -----
    A pass yields ``(images, targets)``: float32 of (n, 3, H, W), red, green and blue, each batch in
    memory of its own, which is used again when nobody has any part of it; and int64 of (n,), -1
    where a sample has no target. Each pass is the next epoch.

    Pixels depend on (seed, epoch, position in the dataset) alone: not on threads, batches or order.
    Transforms that are no class of `transforms` are called from several threads at once.

    A sample that cannot be read or decoded ends the pass with an error that names it. A pass that
    is left or forgotten ends its threads. A loader pickles if its dataset does, and may be used
    after a fork; a pass that is going on stays in its process.

    A loader takes the place of torch's ``DataLoader``, with threads for worker processes; it is not
    meant to be put into one. Where worker processes are wanted, give torch's the dataset itself.

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
            stream_of_epoch(seed, 0)  # or it says why not
        self.seed = seed
        self._sampler = ClipSampler(
            len(self.dataset),
            seed=seed,
            shuffle=shuffle,
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            drop_last=drop_last,
        )
        self.track = track
        # None where batches are arrays: torch is not needed for these.
        self._device: Any = None
        if as_tensors or device != "cpu":
            with importing:
                from .ongpu import checked_device
            if as_tensors is False:
                raise ValueError("as_tensors is False: arrays are made on device='cpu' only")
            self._device = checked_device(device)
        self._threads = None if threads is None else _positive("threads", threads)
        self._prefetch = _positive("prefetch", prefetch)
        # Samples of this pass that were yielded: the sampler is ahead.
        self._given = 0

    @property
    def epoch(self) -> int:
        """The epoch of the pass that is going on or, before the first, to come."""
        return self._sampler.epoch

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the pictures of a batch."""
        return self._recipe.shape

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        return len(self._sampler)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Load the rest of the epoch; of the next one if a pass over this one was begun here."""
        order = iter(self._sampler)
        first = next(order, None)
        self._given = 0
        if first is None:
            return
        filler = self._filler(self._sampler.epoch)
        plans = map(self._plan, chain([first], order))
        threads = self._threads or resolve_nthreads(None, _MUCH)
        for images, targets in filler.batches(plans, threads, self._prefetch):
            self._given += len(images)
            batch = [self._converted(images, targets)]
            del images, targets
            yield batch.pop()  # from now on the caller's alone

    def _filler(self, epoch: int) -> Filler:
        if self._device is None or self._device.type == "cpu":
            return Filler(self._recipe, self.seed, epoch)
        with importing:
            from .ongpu import DeviceFiller
        return DeviceFiller(self._recipe, self.seed, epoch, self._device)

    def _plan(self, positions: list[int]) -> Plan:
        keys = [Key(int(position)) for position in positions]
        return Plan(keys, partial(self._pictures, positions), self.dataset.targets[positions])

    def _pictures(self, positions: list[int], first: int, last: int) -> Iterator[Picture]:
        for sample in self.dataset.samples(positions[first:last]):
            yield sample, self.track

    def _converted(self, images: Any, targets: Any) -> tuple[Any, Any]:
        if self._device is None:
            return images, targets
        with importing:
            import torch
        return torch.as_tensor(images), torch.from_numpy(targets)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next pass is; see `frames.sampler.ClipSampler.set_epoch`."""
        self._sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass is, behind the last batch it gave, as numbers that JSON holds."""
        return self._sampler.state_dict(self._given)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called, with the seed of the state.

        Batch size and threads may be others, and the number of ranks.

        Raises
        ------
        ValueError
            The state is of another number of samples, of another kind of order, or no state; or the
            transforms draw in the order of Benzina, and the state is in the middle of an epoch.
        """
        if self._recipe.is_in_order and 0 < state.get("position", 0) < state.get("length", 0):
            raise ValueError(
                "with compat='benzina' all samples of an epoch share one random stream: a pass "
                "cannot be taken up in the middle"
            )
        self._sampler.load_state_dict(state)
        self.seed, self._given = state["seed"], 0


def _positive(name: str, value: int) -> int:
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    return number
