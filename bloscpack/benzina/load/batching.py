"""Batches of pictures, filled by threads; shared by `Loader` and Benzina's `DataLoader`.

The calling thread plans: it allocates a batch and cuts it into tasks of a few samples. Threads
read, decode and warp these, each picture into its own place. Random numbers for a sample depend on
its key alone (`samplestream`). Only in the reference's order, where all samples share one stream,
does the calling thread draw them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ...plugin import ArrayPool, BloscpackError, NotFoundError, map_ahead
from ..codec.planes import Planes
from ..mp4.samplelayout import SampleLayout
from .affine import Shape
from .recipe import Numbers, Recipe
from .samplestream import SampleStreams


class AnySample(Protocol):
    """A sample of our `Dataset`, or of one of Benzina's own classes."""

    @property
    def index(self) -> int:
        """Its ordinal."""

    @property
    def name(self) -> str | None:
        """Its name."""

    @property
    def layout(self) -> SampleLayout:
        """Layout of its tracks."""

    def read_track(self, name: str) -> bytes:
        """Return the bytes of a track."""

    def frame(self, track: str) -> Planes:
        """Decode the picture of a track."""


# A sample, and the track of it to show.
Picture: TypeAlias = tuple[AnySample, str]


class Key(NamedTuple):
    """Identity of a sample in an epoch, which its random numbers depend on."""

    position: int
    """Position in the dataset: the index passed to transforms."""
    repeat: int = 0
    """How often it has occurred before in this epoch."""


class Plan(NamedTuple):
    """A batch to fill."""

    keys: Sequence[Key]
    pictures: Callable[[int, int], Iterable[Picture]]
    """Yields the pictures from one place in the batch to another; called in the decoding thread."""
    aux: Any
    """Returned with the batch, unchanged."""


class Batch(NamedTuple):
    """A filled batch."""

    images: Any
    """float32, (n, 3, height, width)."""
    aux: Any


class Task(NamedTuple):
    """A part of a batch."""

    plan: Plan
    images: Any
    first: int
    last: int
    pictures: Iterable[Picture]
    numbers: Sequence[Numbers] | None = None
    """Numbers drawn in advance, if their order matters."""


class Filler:
    """Fills batches according to a recipe.

    `max_task` is the largest number of samples in a task; each finished task wakes the calling
    thread.
    """

    max_task = 8

    def __init__(self, recipe: Recipe, seed: int, epoch: int) -> None:
        self._recipe = recipe
        self._seed = seed
        self._epoch = epoch
        self._local = threading.local()
        self._pool = ArrayPool(0)
        self._in_order: np.random.RandomState | None = None
        if recipe.is_in_order:
            self._in_order = stream_of_epoch(seed, epoch)

    def batches(self, plans: Iterable[Plan], threads: int, prefetch: int) -> Iterator[Batch]:
        """Fill batches, up to `prefetch` of them ahead; each has memory of its own.

        Closing or dropping the iterator ends its threads. It cannot be moved to another process.
        """
        plans = iter(plans)
        first = next(plans, None)
        if first is None:
            return
        # Enough tasks to keep all threads busy even if batches are small.
        parts = len(self._cuts(len(first.keys), threads))
        ahead = max(prefetch * parts, 2 * threads)
        # Blocks for batches in progress, the caller's current batch and its previous one.
        self._pool = ArrayPool(ahead // parts + 3)
        tasks = self._tasks(chain([first], plans), threads)
        del first
        for task in map_ahead(self._fill, tasks, threads, ahead):
            if task.last == len(task.images):
                batch = [Batch(task.images, task.plan.aux)]
                del task
                yield batch.pop()  # keep no reference, so that the caller's is the only one

    def _tasks(self, plans: Iterable[Plan], threads: int) -> Iterator[Task]:
        for plan in plans:
            images = self._new_images(len(plan.keys))
            for first, last in self._cuts(len(plan.keys), threads):
                task = Task(plan, images, first, last, plan.pictures(first, last))
                if self._in_order is not None:
                    pictures = list(task.pictures)
                    drawn = self._draw(task, pictures)
                    task = task._replace(pictures=pictures, numbers=drawn)
                yield task

    def _cuts(self, count: int, threads: int) -> list[tuple[int, int]]:
        """Return the parts of a batch: several per thread, or one if it is empty."""
        size = max(1, min(self.max_task, count // (2 * threads)))
        return [(first, min(first + size, count)) for first in range(0, max(count, 1), size)]

    def _new_images(self, count: int) -> Any:
        return self._pool.take((count, 3, *self._recipe.shape))

    def _fill(self, task: Task) -> Task:
        """Run a task, in one of the threads."""
        # Do the small steps first, for all samples: decoding a picture evicts the processor's
        # caches, and the next small step then takes many times as long.
        pictures = list(task.pictures)
        numbers = task.numbers or self._draw(task, pictures)
        for place, (sample, track), own in zip(count(task.first), pictures, numbers):
            with naming_sample(sample):
                self._recipe.fill(sample.frame(track), own, task.images[place])
        return task

    def _draw(self, task: Task, pictures: Sequence[Picture]) -> list[Numbers]:
        """Call the transforms for the samples of a task."""
        found = []
        for key, (sample, track) in zip(
            task.plan.keys[task.first : task.last], pictures, strict=True
        ):
            with naming_sample(sample):
                rng = self._in_order or self._stream(key)
                found.append(self._recipe.numbers(key.position, _shape(sample, track), rng))
        return found

    def _stream(self, key: Key) -> np.random.Generator | None:
        """Return this thread's random generator, set to the stream of a sample."""
        if not self._recipe.is_random:
            return None
        streams = getattr(self._local, "streams", None)
        if streams is None:
            streams = self._local.streams = SampleStreams(self._seed)
        return streams.at(self._epoch, key.position, key.repeat)


def _shape(sample: AnySample, track: str) -> Shape:
    """Return height and width of a picture before it is decoded."""
    found = sample.layout.tracks.get(track)
    if found is None:
        raise NotFoundError(f"no track {track!r:.80}, but {', '.join(sample.layout.tracks)}")
    return found.clean.height, found.clean.width


@contextmanager
def naming_sample(sample: AnySample) -> Iterator[None]:
    """Add the sample to the errors that the block raises."""
    try:
        yield
    except Exception as err:
        name = None
        with suppress(BloscpackError, OSError):
            name = sample.name
        where = f"sample {sample.index}" + ("" if name is None else f" ({name!r:.120})")
        if isinstance(err, BloscpackError):
            # The sample itself adds only its index.
            message = str(err.args[0] if err.args else "")
            err.args = (message.removeprefix(f"sample {sample.index}: "), *err.args[1:])
            err.at(where)
        else:
            err.add_note(f"This was {where}.")
        raise


def stream_of_epoch(seed: int, epoch: int) -> np.random.RandomState:
    """Return the stream that the reference draws from in its pass number `epoch` over a loader."""
    seeds = np.random.RandomState(seed)
    for _ in range(epoch):
        seeds.randint(1 << 32)
    return np.random.RandomState(seeds.randint(1 << 32))
