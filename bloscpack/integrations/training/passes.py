"""Passes over a sampler: which batches have been returned, for a state to resume from."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ...frames.sampler import ClipSampler

Batch = TypeVar("Batch")


class Passes:
    """Position in the batches of a sampler, counted where they are returned.

    Workers and threads take batches ahead of their use, so that the sampler alone cannot know it.

    Parameters
    ----------
    sampler : ClipSampler
        Sampler of batches.
    batch_size : int
        Items of a batch.
    """

    def __init__(self, sampler: ClipSampler, batch_size: int) -> None:
        self._sampler = sampler
        self._batch_size = batch_size
        self._nreturned = 0
        self._has_ended = False

    def counted(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of a pass that begins now, and count them."""
        self._nreturned, self._has_ended = 0, False
        for batch in batches:
            self._nreturned += 1
            yield batch
            del batch
        self._has_ended = True

    @property
    def epoch(self) -> int:
        """Epoch of the current pass; before it, and after its last batch, that of the next."""
        return self._sampler.epoch + self._has_ended

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; a position that was loaded for it is kept."""
        self._sampler.set_epoch(epoch)
        self._nreturned, self._has_ended = 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch that was returned."""
        if self._has_ended:
            return {**self._sampler.state_dict(seen=0), "epoch": self.epoch, "position": 0}
        # The last batch may be short.
        seen = min(self._nreturned * self._batch_size, self._sampler.nyielded)
        return self._sampler.state_dict(seen)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called."""
        self._sampler.load_state_dict(state)
        self._nreturned, self._has_ended = 0, False
