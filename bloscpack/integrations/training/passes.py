"""Passes over a data set in batches: their order, and the place to resume from."""

from collections.abc import Iterable, Iterator
from typing import Any, TypedDict, TypeVar

from ...frames.sampler import ClipSampler, wrapped_datasets

Batch = TypeVar("Batch")


class Order(TypedDict, total=False):
    """Keyword arguments of `ClipSampler` that choose the order of batches."""

    shuffle: bool
    seed: int
    rank: int
    world_size: int
    drop_last: bool


def sampler_of_batches(dataset: Any, batch_size: int, order: Order) -> ClipSampler:
    """Return the sampler of a loader; TypeError for items without batches, as torch has them."""
    if batch_size is None:
        raise TypeError("batch_size must be an integer, not None: items come in batches")
    items = len(dataset) if wrapped_datasets(dataset) else dataset
    return ClipSampler(items, batch_size=batch_size, **order)


class Passes:
    """Base class of loaders: counts batches where they are returned, and resumes from that count.

    Workers and threads take batches ahead of their use, so that the sampler alone cannot know it.
    """

    _sampler: ClipSampler
    _batch_size: int
    _nreturned = 0
    _has_ended = False

    def _set_order(self, dataset: Any, batch_size: int, order: Order) -> None:
        """Make the sampler of batches."""
        self._sampler = sampler_of_batches(dataset, batch_size, order)
        self._batch_size = batch_size

    def _counted(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of a pass that begins now, and count them."""
        self._nreturned, self._has_ended = 0, False
        for batch in batches:
            self._nreturned += 1
            yield batch
            del batch  # its memory can be used for the next one, which is read now
        self._has_ended = True

    @property
    def epoch(self) -> int:
        """Epoch of the current pass; before it, and after its last batch, that of the next."""
        return self._sampler.epoch + self._has_ended

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; see `ClipSampler.set_epoch`."""
        self._sampler.set_epoch(epoch)
        self._nreturned, self._has_ended = 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch returned, as numbers that JSON can hold."""
        if self._has_ended:
            return {**self._sampler.state_dict(seen=0), "epoch": self.epoch, "position": 0}
        # The last batch may be short.
        seen = min(self._nreturned * self._batch_size, self._sampler.nyielded)
        return self._sampler.state_dict(seen)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called, also with other workers, threads or ranks."""
        self._sampler.load_state_dict(state)
        self._nreturned, self._has_ended = 0, False
