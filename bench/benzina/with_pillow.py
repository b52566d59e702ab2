"""JPEG files through Pillow, as torchvision's transforms use it, on threads."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import local

import numpy as np
from PIL import Image, __version__, features
from race.races import Contender, Task, exhaust
from race.timing import Call

from benzina.checks import Batch, require_batches
from benzina.contenders import LOAD
from benzina.jpeg import DEVIATION, MEAN, load, path_of

_MEAN = np.array(MEAN, np.float32)[:, None, None]
_DEVIATION = np.array(DEVIATION, np.float32)[:, None, None]
# Batches that are worked on while the last one is used, as loaders do.
_AHEAD = 2


class PillowThreads(Contender):
    """Each thread decodes, crops and normalizes pictures into their places in a batch."""

    note = (
        "open, convert, a random crop resized by Pillow's bilinear filter, flip, float32, mean and "
        "deviation; files of the same PSNR, on threads"
    )
    works = (LOAD,)

    def version(self) -> str:
        turbo = features.version_feature("libjpeg_turbo")
        return f"Pillow {__version__}" + (f" with libjpeg-turbo {turbo}" if turbo else "")

    def load(self, task: Task, stack: ExitStack) -> Call:
        pool = stack.enter_context(ThreadPoolExecutor(task["nthreads"]))
        checked = _Passes(pool, task, is_random=False)
        require_batches(checked.batches(), task, self.name)
        random = _Passes(pool, task, is_random=True)
        return lambda: exhaust(random.batches())


class _Passes:
    """Passes over the files of a task, each in another order."""

    def __init__(self, pool: ThreadPoolExecutor, task: Task, *, is_random: bool) -> None:
        self._pool = pool
        self._folder = Path(task["jpegs"])
        self._count, self._batch, self._side = task["nsamples"], task["batch"], task["shape"]
        self._is_random = is_random
        self._rng = np.random.default_rng(1)
        self._local = local()

    def batches(self) -> Iterator[Batch]:
        order = np.arange(self._count)
        if self._is_random:
            self._rng.shuffle(order)
        begun: deque[tuple[np.ndarray, np.ndarray, list[Future[None]]]] = deque()
        for first in range(0, self._count, self._batch):
            begun.append(self._begin(order[first : first + self._batch]))
            if len(begun) > _AHEAD:
                yield _ended(*begun.popleft())
        while begun:
            yield _ended(*begun.popleft())

    def _begin(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[Future[None]]]:
        images = np.empty((len(numbers), 3, self._side, self._side), np.float32)
        futures = [
            self._pool.submit(self._fill, number, image)
            for number, image in zip(numbers.tolist(), images, strict=True)
        ]
        return images, numbers, futures

    def _fill(self, number: int, out: np.ndarray) -> None:
        image = load(path_of(self._folder, number), self._side, self._stream())
        normalize(image, out)

    def _stream(self) -> np.random.Generator | None:
        if not self._is_random:
            return None
        if not hasattr(self._local, "rng"):
            self._local.rng = np.random.default_rng()
        return self._local.rng


def normalize(image: Image.Image, out: np.ndarray) -> None:
    np.divide(np.asarray(image).transpose(2, 0, 1), np.float32(255), out=out)
    out -= _MEAN
    out /= _DEVIATION


def _ended(images: np.ndarray, numbers: np.ndarray, futures: list[Future[None]]) -> Batch:
    for future in futures:
        future.result()
    return images, numbers
