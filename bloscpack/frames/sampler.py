"""Order of clips in training: shuffled, reproducible, resumable, split by rank.

The order of an epoch is a permutation that is computed, not stored. It is a Feistel network on the
smallest domain of 2 ** (2 k) numbers that holds all clips, applied repeatedly until the result is
a clip (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). A million clips therefore
need no list, and the state is a few numbers. All randomness comes from `random_number`, which
depends on its arguments only: not on the worker, the machine or earlier draws.
"""

import operator
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Self

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from ..keywords import state_of, word
from ..storage.url import is_url

_Positions = np.ndarray[Any, np.dtype[np.uint64]]

MAX_SEED = (1 << 64) - 1
# Four rounds make a pseudorandom permutation of large domains; small ones need more to be uniform.
_ROUNDS = 8
# Positions that are permuted per numpy call.
_BLOCK = 4096
_MISSING = object()


def random_number(seed: int, *parts: int) -> int:
    """Return a 64-bit random number for `seed` and `parts`, each less than 2 ** 64."""
    return xxh3_64_intdigest(struct.pack(f"<{len(parts)}Q", *parts), seed=seed)


def digest_of(ids: Iterable[str]) -> str:
    """Return a digest of ids in their order, for states that are resumed with the same clips."""
    digest = xxh3_64()
    for id_ in ids:
        digest.update(id_.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def permuted(positions: _Positions, length: int, seed: int, epoch: int) -> _Positions:
    """Return the elements at `positions` of a permutation of ``range(length)``.

    Parameters
    ----------
    positions : ndarray of uint64
        Each less than `length`.
    length : int
        1 to 2 ** 63.
    seed, epoch : int
        Select the permutation.
    """
    half = max(1, ((length - 1).bit_length() + 1) // 2)
    keys = [random_number(seed, epoch, number) for number in range(_ROUNDS)]
    values = _scrambled(positions, half, keys)
    outside = np.flatnonzero(values >= length)
    while len(outside):
        values[outside] = _scrambled(values[outside], half, keys)
        outside = outside[values[outside] >= length]
    return values


def _scrambled(values: _Positions, half: int, keys: list[int]) -> _Positions:
    """Permute numbers of ``2 * half`` bits, one Feistel round for each key."""
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    high, low = values >> shift, values & mask
    for key in keys:
        high, low = low, high ^ (_mixed(low ^ np.uint64(key)) >> np.uint64(64 - half))
    return high << shift | low


def _mixed(values: _Positions) -> _Positions:
    """Mix all bits of each value (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class ClipIndex(int):
    """Ordinal of a clip, with the epoch it was drawn for.

    It behaves as a plain int. A dataset in a worker process learns the epoch from it, even if the
    worker lives longer than an epoch. ``ClipIndex(value, epoch)`` makes one.

    Attributes
    ----------
    epoch : int
        Epoch of the draw.
    """

    epoch: int

    def __new__(cls, value: int, epoch: int) -> Self:
        """Return the ordinal `value` with its epoch."""
        index = super().__new__(cls, value)
        index.epoch = epoch
        return index

    def __reduce__(self) -> tuple[type["ClipIndex"], tuple[int, int]]:
        """Pickle the ordinal and the epoch."""
        return ClipIndex, (int(self), self.epoch)


def _refuse_paths(source: Any) -> None:
    """Refuse a path, whose length is a number of characters, and a list of paths."""
    is_path = isinstance(source, str | bytes | os.PathLike)
    if isinstance(source, list | tuple) and source:
        first = source[0]
        is_path = isinstance(first, os.PathLike) or (
            isinstance(first, str) and (is_url(first) or os.path.exists(first))
        )
    if is_path:
        raise TypeError(
            f"a sampler takes a number of items or an object with a length, not {source!r:.80}: "
            "pass the FrameDataset, or bloscpack.frames.open(path)"
        )


def _parts_of(dataset: Any) -> Iterator[Any]:
    """Yield what a dataset wraps, by the attributes of torch's ``Subset`` and ``ConcatDataset``."""
    held = getattr(dataset, "datasets", ())
    yield from held.values() if isinstance(held, Mapping) else held
    if hasattr(dataset, "dataset"):
        yield dataset.dataset


def wrapped_datasets(dataset: Any) -> list[Any]:
    """Return the `FrameDataset` objects that a dataset wraps."""
    found = []
    for part in _parts_of(dataset):
        is_ours = hasattr(part, "_settings") and hasattr(part, "set_epoch")
        found += [part] if is_ours else wrapped_datasets(part)
    return found


def _drops_epochs(dataset: Any) -> bool:
    """Return whether a `FrameDataset` gets other indices than those that a `ClipSampler` yields."""
    if hasattr(dataset, "indices") or hasattr(dataset, "cumulative_sizes"):
        return bool(wrapped_datasets(dataset))
    return any(map(_drops_epochs, _parts_of(dataset)))


class ClipSampler:
    """Sampler of all clips once per epoch, in an order that can be resumed at any point.

    Pass it to torch's ``DataLoader`` as ``sampler=``, or with a `batch_size` as ``batch_sampler=``.
    It does not need torch, and works for every dataset with a length.

    Parameters
    ----------
    source_or_len : Sized or int
        Dataset to sample, or its length: a source of clips, a `FrameDataset`, or any other.
    seed : int, optional
        0 to 2 ** 64 - 1. Seed and epoch determine the order.
    shuffle : bool, default True
        Whether the order is random; otherwise it is the order of the items.
    rank, world_size : int, optional
        Take item `rank` of every `world_size` items, for distributed training.
    batch_size : int, optional
        Yield lists of this many ordinals instead of single ordinals.
    drop_last : bool, default False
        How to treat a remainder that does not fill `world_size` equal parts and whole batches. By
        default the first clips of the epoch are repeated until all parts are equal, at most
        ``world_size - 1`` of them, and the last batch is short. If True, the remainder is dropped.

    Attributes
    ----------
    epoch : int
        Epoch of the current pass or, before the first pass, of the next one.

    Notes
    -----
    Each pass over the sampler after the first starts the next epoch, unless `set_epoch` was called.
    Without repeated or dropped clips, every clip appears exactly once per epoch over all ranks.

    Raises
    ------
    ValueError
        An argument is out of range, or a dataset of torch around a `FrameDataset` drops epochs.

    Examples
    --------
    >>> from bloscpack.frames.sampler import ClipSampler
    >>> sampler = ClipSampler(6, seed=1)
    >>> first = list(sampler)
    >>> sorted(first)
    [0, 1, 2, 3, 4, 5]
    >>> half = iter(resumed := ClipSampler(6, seed=1))
    >>> taken = [next(half) for _ in range(2)]
    >>> other = ClipSampler(6)
    >>> other.load_state_dict(resumed.state_dict())
    >>> taken + list(other) == first
    True
    """

    def __init__(
        self,
        source_or_len: Sized | int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        batch_size: int | None = None,
        drop_last: bool = False,
    ) -> None:
        if _drops_epochs(source_or_len):
            raise ValueError(
                f"a {type(source_or_len).__name__} drops the epochs of a ClipSampler, so that the "
                "random windows of the FrameDataset in it would repeat: pass it to FrameLoader or "
                "FrameStream, or pass its length here and call the FrameDataset's set_epoch"
            )
        # Settings of the items, if they come from a dataset of ours; read when a state is made.
        self._items: Callable[[], dict[str, Any]] = getattr(source_or_len, "_settings", dict)
        if isinstance(source_or_len, Sized | os.PathLike):
            _refuse_paths(source_or_len)
            length = len(source_or_len)
        else:
            length = operator.index(source_or_len)
        if length < 0:
            raise ValueError(f"the number of clips must not be negative, got {length}")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is not one of {world_size} ranks, 0 to {world_size - 1}")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.epoch = 0
        self._length = length
        self._seed = word("seed", seed)
        self._shuffle = shuffle
        # Python's integers: JSON cannot hold those of numpy, and these overflow.
        self._rank = operator.index(rank)
        self._world_size = operator.index(world_size)
        self._batch_size = None if batch_size is None else operator.index(batch_size)
        self._drop_last = drop_last
        # Positions in the epoch, counted over all ranks: where the pass began. And the number of
        # clips that this rank has yielded in the pass.
        self._first = 0
        self._given = 0
        self._has_begun = False

    def __len__(self) -> int:
        """Return the number of ordinals, or batches, that each rank gets in a whole epoch."""
        count = self._share(self._length)
        if self._batch_size is None:
            return count
        return count // self._batch_size if self._drop_last else -(-count // self._batch_size)

    @property
    def nyielded(self) -> int:
        """Number of clips that this pass has yielded, on this rank."""
        return self._given

    def __iter__(self) -> Iterator[Any]:
        """Yield the rest of the epoch, or the next epoch if this pass was started here before."""
        # A generator on purpose: a DataLoader creates more iterators than it uses.
        if self._has_begun:
            self.epoch += 1
            self._first = 0
        self._has_begun, self._given = True, 0
        if self._batch_size is None:
            for index in self._indices():
                self._given += 1
                yield index
        else:
            for batch in self._batches(self._batch_size):
                self._given += len(batch)
                yield batch

    def _batches(self, size: int) -> Iterator[list[ClipIndex]]:
        batch: list[ClipIndex] = []
        for index in self._indices():
            batch.append(index)
            if len(batch) == size:
                yield batch
                batch = []
        if batch and not self._drop_last:
            yield batch

    def _indices(self) -> Iterator[ClipIndex]:
        """Yield the ordinals of this rank, from the start of the pass."""
        epoch, first = self.epoch, self._first + self._rank
        count = self._share(self._length - self._first)
        for start in range(0, count, _BLOCK):
            steps = np.arange(start, min(start + _BLOCK, count), dtype=np.uint64)
            positions = steps * np.uint64(self._world_size) + np.uint64(first)
            positions %= np.uint64(self._length)  # the first clips again, for equal shares
            if self._shuffle:
                positions = permuted(positions, self._length, self._seed, epoch)
            for index in positions.tolist():
                yield ClipIndex(index, epoch)

    def _share(self, count: int) -> int:
        """Return the share of each rank in `count` clips."""
        count = max(0, count)
        return count // self._world_size if self._drop_last else -(-count // self._world_size)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass.

        A position set by `load_state_dict` is kept if the epoch is the one in that state. A loop
        over epochs may therefore call this in each round, including the resumed one.
        """
        epoch = word("epoch", epoch)
        if epoch != self.epoch or self._has_begun:
            self._first = self._given = 0
        self.epoch, self._has_begun = epoch, False

    def state_dict(self, seen: int | None = None) -> dict[str, Any]:
        """Return the position of the pass, as numbers that JSON can hold.

        Parameters
        ----------
        seen : int, optional
            Number of clips of this pass that were used on each rank; by default all that were
            yielded. A ``DataLoader`` with workers takes some batches ahead: yielded but not used.
        """
        given = self._given if seen is None else operator.index(seen)
        if not 0 <= given <= self._given:
            raise ValueError(f"seen is {given}, but this pass has yielded {self._given} clips")
        return {
            "seed": self._seed,
            "epoch": self.epoch,
            "position": min(self._first + given * self._world_size, self._length),
            "length": self._length,
            **self._settings(),
        }

    def _settings(self) -> dict[str, Any]:
        """Return what decides the batches besides the numbers of a state."""
        settings = {
            "shuffle": bool(self._shuffle),
            "drop_last": bool(self._drop_last),
            "batch_size": self._batch_size,
        }
        items = self._items()
        return {**settings, "items": items} if items else settings

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called, also with another number of ranks.

        The seed becomes that of the state. All other settings must be those of the state, also the
        options of a `FrameDataset` that choose frames, so that the rest of the epoch is the same.

        Raises
        ------
        ValueError
            The state was made with other settings, which the message names; or it is not a state.
        """
        numbers = [state_of(state).get(name) for name in ("seed", "epoch", "position", "length")]
        others = state.keys() - self.state_dict(0) - {"items"}
        if others or not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise ValueError(f"not a state of a ClipSampler: {state!r:.200}")
        seed, epoch, position, length = map(int, numbers)  # type: ignore[arg-type]
        if length != self._length or position > length:
            raise ValueError(
                f"the state is for position {position} of {length} clips, but there are "
                f"{self._length}"
            )
        seed, epoch = word("seed", seed), word("epoch", epoch)
        check_settings(self._settings(), state)
        self._seed, self.epoch = seed, epoch
        self._first, self._given, self._has_begun = position, 0, False


def check_settings(settings: Mapping[str, Any], state: Mapping[str, Any], of: str = "") -> None:
    """Raise ValueError unless a state was made with these settings; `of` is their place in it."""
    for name, value in settings.items():
        given = state_of(state).get(name, _MISSING)
        if isinstance(value, dict) and isinstance(given, dict):
            check_settings(value, given, f" of its {name}")
        elif given is _MISSING:
            raise ValueError(f"not a state of this loader: it lacks {name!r}{of}")
        elif given != value:
            raise ValueError(
                f"the state was made with {name}={given!r:.80}{of}, but here it is {value!r:.80}: "
                "resume with the settings of the state"
            )
