"""The order in which clips are used for training: shuffled, repeatable, resumable, split by rank.

The order of an epoch is a permutation that is computed, not stored: a Feistel network on the
smallest domain of 2 ** (2 k) numbers that holds all clips, walked until the result is one of them
(Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). So a million clips cost no list,
and the state is a few numbers. Everything random comes from `random_number`, which depends on
nothing but its arguments: not on the worker, the machine or what was drawn before.
"""

import operator
import os
import struct
from collections.abc import Iterator, Sized
from typing import Any, Self

import numpy as np
from xxhash import xxh3_64_intdigest

from ..storage.url import is_url

_Positions = np.ndarray[Any, np.dtype[np.uint64]]

MAX_SEED = (1 << 64) - 1
# Four make a pseudorandom permutation of large domains; small ones need more to be even.
_ROUNDS = 8
# Positions that are permuted in one call of numpy.
_BLOCK = 4096


def random_number(seed: int, *parts: int) -> int:
    """Return a number of 64 bits that is drawn for `seed` and `parts`, each under 2 ** 64."""
    return xxh3_64_intdigest(struct.pack(f"<{len(parts)}Q", *parts), seed=seed)


def permuted(positions: _Positions, length: int, seed: int, epoch: int) -> _Positions:
    """Return what stands at `positions` of a permutation of ``range(length)``.

    Parameters
    ----------
    positions : ndarray of uint64
        Each less than `length`.
    length : int
        1 to 2 ** 63.
    seed, epoch : int
        Which permutation.
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
    """The ordinal of a clip, which knows the epoch it was drawn for.

    It is an int in every respect. A dataset in a worker process learns the epoch from it, also in
    a worker that lives longer than an epoch.

    Attributes
    ----------
    epoch : int
        The epoch.
    """

    epoch: int

    def __new__(cls, value: int, epoch: int) -> Self:
        """Make one of an ordinal."""
        index = super().__new__(cls, value)
        index.epoch = epoch
        return index

    def __reduce__(self) -> tuple[type["ClipIndex"], tuple[int, int]]:
        """Pickle both numbers."""
        return ClipIndex, (int(self), self.epoch)


def _refuse_paths(source: Any) -> None:
    """Refuse a path, whose length is its number of letters, and a list of paths."""
    is_path = isinstance(source, str | bytes | os.PathLike)
    if isinstance(source, list | tuple) and source:
        first = source[0]
        is_path = isinstance(first, os.PathLike) or (
            isinstance(first, str) and (is_url(first) or os.path.exists(first))
        )
    if is_path:
        raise TypeError(
            f"a sampler takes a number of items or something that has one, not {source!r:.80}: "
            "give it the FrameDataset, or bloscpack.frames.open(path)"
        )


class ClipSampler:
    """The ordinals of all clips once per epoch, in an order that can be taken up anywhere.

    Goes to torch's ``DataLoader`` as ``sampler=``, or with a `batch_size` as ``batch_sampler=``.
    It needs no torch, and works for every dataset with a length.

    Parameters
    ----------
    source_or_len : Sized or int
        What is sampled, or how many items it has: a source of clips, a `FrameDataset`, any dataset.
    seed : int, optional
        0 to 2 ** 64 - 1. Seed and epoch determine the order.
    shuffle : bool, default True
        Whether the order is random; else it is that of the items.
    rank, world_size : int, optional
        Which part of each epoch is given, of how many: number `rank` of every `world_size` in turn.
    batch_size : int, optional
        Give lists of so many, not single ordinals.
    drop_last : bool, default False
        What becomes of a rest that does not go into `world_size` parts and into whole batches.
        By default the parts are made equal by repeating the first clips of the epoch, at most
        ``world_size - 1`` of them, and the last batch is short; if True, the rest is left out.

    Attributes
    ----------
    epoch : int
        The epoch of the pass that is going on or, before the first, to come.

    Notes
    -----
    Each pass over the sampler after the first is the next epoch, unless `set_epoch` was called.
    Without repeated or dropped clips every clip is given exactly once per epoch over all ranks.

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
        if isinstance(source_or_len, Sized | os.PathLike):
            _refuse_paths(source_or_len)
            length = len(source_or_len)
        else:
            length = operator.index(source_or_len)
        if length < 0:
            raise ValueError(f"there cannot be {length} clips")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is not one of {world_size} ranks, 0 to {world_size - 1}")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.epoch = 0
        self._length = length
        self._seed = _checked_seed(seed)
        self._shuffle = shuffle
        self._rank = rank
        self._world_size = world_size
        self._batch_size = batch_size
        self._drop_last = drop_last
        # Positions in the epoch, of all ranks together: where the pass began; and what this rank
        # has given in it.
        self._first = 0
        self._given = 0
        self._has_begun = False

    def __len__(self) -> int:
        """Return how many ordinals, or batches, a whole epoch gives to each rank."""
        count = self._share(self._length)
        if self._batch_size is None:
            return count
        return count // self._batch_size if self._drop_last else -(-count // self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        """Give the rest of the epoch; of the next one if a pass over this one was begun here."""
        # A generator on purpose: a DataLoader asks for an iterator more often than it uses one.
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
        """Yield the ordinals of this rank from where the pass begins."""
        epoch, first = self.epoch, self._first + self._rank
        count = self._share(self._length - self._first)
        for start in range(0, count, _BLOCK):
            steps = np.arange(start, min(start + _BLOCK, count), dtype=np.uint64)
            positions = steps * np.uint64(self._world_size) + np.uint64(first)
            positions %= np.uint64(self._length)
            if self._shuffle:
                positions = permuted(positions, self._length, self._seed, epoch)
            for index in positions.tolist():
                yield ClipIndex(index, epoch)

    def _share(self, count: int) -> int:
        """Return what each rank gets of `count`."""
        count = max(0, count)
        return count // self._world_size if self._drop_last else -(-count // self._world_size)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next pass is.

        A position that `load_state_dict` has set is kept if the epoch is that of the state: a loop
        over epochs may call this in each round, the resumed one included.
        """
        if epoch < 0:
            raise ValueError(f"epoch must not be negative, and is {epoch}")
        if epoch != self.epoch or self._has_begun:
            self._first = self._given = 0
        self.epoch, self._has_begun = epoch, False

    def state_dict(self, seen: int | None = None) -> dict[str, Any]:
        """Return where the pass is, as numbers that JSON holds.

        Parameters
        ----------
        seen : int, optional
            How many clips of this pass were used on each rank. By default all that were given.
            A ``DataLoader`` with workers takes some batches ahead, which are given but not used.
        """
        given = self._given if seen is None else seen
        if not 0 <= given <= self._given:
            raise ValueError(f"seen is {given}, but {self._given} clips were given in this pass")
        return {
            "seed": self._seed,
            "epoch": self.epoch,
            "position": min(self._first + given * self._world_size, self._length),
            "length": self._length,
            "shuffle": self._shuffle,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called, also on another number of ranks.

        Raises
        ------
        ValueError
            The state is of another number of clips, of another kind of order, or no state.
        """
        numbers = [state.get(name) for name in ("seed", "epoch", "position", "length")]
        if not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise ValueError(f"no state of a ClipSampler: {state!r:.200}")
        seed, epoch, position, length = map(int, numbers)  # type: ignore[arg-type]
        if length != self._length or position > length:
            raise ValueError(
                f"the state is position {position} of {length} clips, and there are {self._length}"
            )
        if bool(state.get("shuffle")) != self._shuffle:
            raise ValueError("the state is of a sampler with another 'shuffle'")
        self._seed, self.epoch = _checked_seed(seed), epoch
        self._first, self._given, self._has_begun = position, 0, False


def _checked_seed(seed: int) -> int:
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed must be 0 to 2 ** 64 - 1, not {seed}")
    return seed
