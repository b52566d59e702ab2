"""Benzina's ``DataLoader``: a torch DataLoader with batches that begin with decoded pictures.

Names, arguments and results are those of Benzina 0.0.5 (torch/dataloader.py). Differences: every
batch has memory of its own, the CPU is supported, pictures may have any size, and shapes are
(height, width) for transforms too, unless the warp has ``compat="benzina"``. Importing this module
imports torch.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...plugin import (
    ALL_THREADS,
    ByteSource,
    NotFoundError,
    TruncatedError,
    open_source,
    optional_library,
    resolve_nthreads,
)
from ..codec.codecconfig import DEFAULT_MAX_PIXELS
from ..codec.decoder import Decoder
from ..codec.planes import Planes
from ..dataset import Dataset
from ..mp4.format import THUMB
from ..mp4.samplelayout import InnerTrack, SampleLayout, parse_sample
from ..sample import Sample
from ..transforms import (
    ConstantBiasTransform,
    ConstantNormTransform,
    ConstantOOBTransform,
    ConstantWarpTransform,
)
from .batching import Filler, Key, Picture, Plan
from .recipe import Recipe, TransformLike, as_transform, make_recipe

with optional_library("it", "torch", "Benzina's DataLoader needs torch"):
    import torch
    from torch.utils.data.dataloader import default_collate

from .ongpu import DeviceFiller, resolve_device


class DataLoader(torch.utils.data.DataLoader):  # type: ignore[misc]
    """Batches of pictures and the other data of their samples; Benzina's ``DataLoader``.

    Parameters
    ----------
    dataset : Dataset
        A dataset from `open`, one of Benzina's classes such as `ClassificationDataset`, or any
        map-style dataset of such items, such as torch's ``Subset`` or ``ConcatDataset`` of these.
    shape : int or (int, int)
        Height and width of the output pictures.
    path : str or PathLike, optional
        File to read samples from, at the places that the dataset gives; by default its own file.
    batch_size, shuffle, sampler, batch_sampler, collate_fn, drop_last
        As for torch's; `collate_fn` gets one tuple per sample, with everything but the picture.
    timeout : float, default 0
        Must not be negative; otherwise ignored, as no workers are used.
    device : torch.device, str or int, optional
        Device of the batches: by default the current GPU, or the CPU if torch finds no GPU. "cuda"
        is experimental and has not been tested on a GPU; ``device="cpu"`` is tested.
    multibuffering : int, default 3
        Number of batches prepared ahead.
    seed : int, optional
        Seed of the transforms only; by default drawn from torch's generator. The sampler decides
        the order.
    bias_transform, norm_transform, warp_transform : transform or numbers, optional
        See `transforms`. By default 0, 1, and the top left corner of the picture as it is.

    Attributes
    ----------
    shape, path, device, multibuffering, seed
        As passed.
    warp_transform, norm_transform, bias_transform, oob_transform, color_transform
        The transforms; numbers become `Constant` transforms. They may be assigned before a pass
        begins. If ``color_transform`` is None, each picture's own conversion is used.

    Raises
    ------
    ValueError, TypeError
        An argument is out of range or has a wrong type.
    RuntimeError
        The device is not available.

    Notes
    -----
    A pass yields ``(images, *what collate_fn returns)``: float32 of (n, 3, H, W), then usually
    targets, int64 of (n,). ``num_workers`` is 0: threads do the work, see `Loader`; their number
    is that of ``BLOSCPACK_NTHREADS``.

    Each pass is another epoch: random numbers depend on (seed, epoch, index), and on how often the
    index has occurred before. With a warp of ``compat="benzina"`` they are those of Benzina.
    """

    def __init__(
        self,
        dataset: Any,
        shape: int | Sequence[int],
        path: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        collate_fn: Callable[[list[Any]], Sequence[Any]] = default_collate,
        drop_last: bool = False,
        timeout: float = 0,
        device: Any = None,
        multibuffering: int = 3,
        seed: int | None = None,
        bias_transform: TransformLike = None,
        norm_transform: TransformLike = None,
        warp_transform: TransformLike = None,
    ) -> None:
        super().__init__(
            dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            num_workers=0,
            collate_fn=collate_fn,
            drop_last=drop_last,
            timeout=float(timeout),
        )
        if self.batch_sampler is None:
            raise ValueError("batch_size must not be None: pictures come in batches")
        if multibuffering < 1:
            raise ValueError(f"multibuffering must be at least 1, not {multibuffering}")
        if seed is None:
            seed = int(torch.randint(0, 1 << 32, (), dtype=torch.int64))
        self.path = path
        self.device = _device(device)
        self.multibuffering = multibuffering
        self.seed = seed
        self.warp_transform = as_transform(warp_transform, ConstantWarpTransform)
        self.norm_transform = as_transform(norm_transform, ConstantNormTransform)
        self.bias_transform = as_transform(bias_transform, ConstantBiasTransform)
        self.oob_transform: Any = ConstantOOBTransform()
        self.color_transform: Any = None
        self.shape = self._recipe(shape).shape
        self._epoch = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Begin a pass: the next epoch."""
        epoch, self._epoch = self._epoch, self._epoch + 1
        # Make the recipe now, not in the generator: transforms set later apply to the next pass.
        return self._batches(self._recipe(self.shape), epoch)

    def _recipe(self, shape: int | Sequence[int]) -> Recipe:
        return make_recipe(
            shape,
            warp=self.warp_transform,
            color=self.color_transform,
            bias=self.bias_transform,
            norm=self.norm_transform,
            oob=self.oob_transform,
        )

    def _batches(self, recipe: Recipe, epoch: int) -> Iterator[tuple[Any, ...]]:
        limit = DEFAULT_MAX_PIXELS
        if isinstance(self.dataset, Dataset):
            limit = self.dataset._content.max_pixels
        if self.device.type == "cpu":
            filler = Filler(recipe, self.seed, epoch)
        else:
            filler = DeviceFiller(recipe, self.seed, epoch, self.device, max_pixels=limit)
        threads = resolve_nthreads(None, ALL_THREADS)
        archive = None if self.path is None else open_source(self.path)
        try:
            plans = self._plans(_Unpacker(archive, limit))
            for images, aux in filler.batches(plans, threads, self.multibuffering):
                yield torch.as_tensor(images), *aux
                del images, aux  # so that their memory can be reused
        finally:
            if archive is not None:
                archive.close()

    def _plans(self, unpacker: "_Unpacker") -> Iterator[Plan]:
        seen = np.zeros(len(self.dataset), np.uint32)
        for batch in self.batch_sampler:
            indices = [*map(operator.index, batch)]
            keys, pictures, aux = [], [], []
            for index in indices:
                # The same sample has the same numbers, also if its index counts from the end.
                keys.append(Key(index % len(seen), seen.item(index)))
                seen[index] += 1
                item = self.dataset[index]
                pictures.append(unpacker.picture(item, index))
                aux.append(_aux_of(item))
            yield Plan(keys, partial(_part, pictures), tuple(self.collate_fn(aux)))


def _part(pictures: list[Picture], first: int, last: int) -> list[Picture]:
    return pictures[first:last]


def _device(device: Any) -> torch.device:
    """Return the device of the batches: by default the GPU, as in Benzina, if there is one."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return resolve_device(device)


class _Unpacker:
    """Extracts pictures, and the data beside them, from the items of a dataset."""

    def __init__(self, archive: ByteSource | None, max_pixels: int) -> None:
        self._archive = archive
        self._decoder = Decoder(max_pixels=max_pixels)

    def picture(self, item: Any, index: int) -> Picture:
        """Return the picture of an item."""
        if isinstance(item, Sample):
            if self._archive is None:
                return item, THUMB
            read = partial(self._read, item.location, item.size)
            return _StoredSample(index, read, self._decoder), THUMB
        stored = getattr(item, "input", None)
        if stored is None:
            raise TypeError(
                f"item {index} of the dataset has type {type(item).__name__}: it must be a sample, "
                "or have the field 'input' with one"
            )
        read = partial(bytes, stored)
        if self._archive is not None:
            read = partial(self._read, *stored.location)
        sample = _StoredSample(index, read, self._decoder)
        return sample, getattr(item, "input_label", THUMB)

    def _read(self, offset: int, nbytes: int) -> bytes:
        """Read a sample from a file other than the dataset's."""
        archive = self._archive
        if archive is None or offset + nbytes > archive.size():
            raise TruncatedError(
                f"bytes {offset} to {offset + nbytes} are not all in the file", offset=offset
            ).at(path=None if archive is None else archive.name)
        return bytes(archive.read_at(offset, nbytes))


def _aux_of(item: Any) -> tuple[Any, ...]:
    """Return the data of an item except its picture."""
    if isinstance(item, Sample):
        return (np.int64(item.target),)
    target = getattr(item, "target", ())
    return target if isinstance(target, tuple) else (target,)


class _StoredSample:
    """A sample given by its bytes, without a dataset."""

    name = None

    def __init__(self, index: int, read: Callable[[], bytes], decoder: Decoder) -> None:
        self.index = index
        self._read = read
        self._decoder = decoder
        self._data: bytes | None = None

    @functools.cached_property
    def layout(self) -> SampleLayout:
        """Layout of its tracks."""
        self._data = self._read()
        return parse_sample(self._data)

    def read_track(self, name: str) -> bytes:
        """Return the bytes of a track."""
        return self._track(name)[1]

    def frame(self, track: str) -> Planes:
        """Decode the picture of a track."""
        found, payload = self._track(track)
        return self._decoder.decode(
            found.config_kind, found.config, payload, found.frame, found.clean
        )

    def _track(self, name: str) -> tuple[InnerTrack, bytes]:
        tracks = self.layout.tracks
        if name not in tracks or self._data is None:
            raise NotFoundError(f"no track {name!r:.80}, but {', '.join(tracks)}")
        found = tracks[name]
        return found, self._data[found.offset : found.offset + found.nbytes]
