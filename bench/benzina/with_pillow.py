"""JPEG files through Pillow, as torchvision's transforms use it, on threads."""

import io
import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, __version__, features
from race.quality import lowest_quality, psnr
from race.races import Contender, Task, exhaust
from race.timing import Call

from benzina.checks import Batch, middle_box, require_batches
from benzina.contenders import LOAD
from benzina.data import DEVIATION, MEAN

Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels."""

_MEAN = np.array(MEAN, np.float32)[:, None, None]
_DEVIATION = np.array(DEVIATION, np.float32)[:, None, None]
_SCALE, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
_NTRIES = 10
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
        require_batches(_batches(pool, task, is_random=False), task, self.name)
        return lambda: exhaust(_batches(pool, task, is_random=True))


def _batches(pool: ThreadPoolExecutor, task: Task, *, is_random: bool) -> Iterator[Batch]:
    """Yield the batches of a pass over the files of a task, by default in order."""
    folder, count, batch, side = (task[name] for name in ("jpegs", "nsamples", "batch", "shape"))
    order = random.sample(range(count), count) if is_random else range(count)
    fill = partial(_fill, Path(folder), is_random)
    begun: deque[tuple[np.ndarray, Sequence[int], Iterator[None]]] = deque()
    for first in range(0, count, batch):
        numbers = order[first : first + batch]
        images = np.empty((len(numbers), 3, side, side), np.float32)
        begun.append((images, numbers, pool.map(fill, numbers, images)))
        if len(begun) > _AHEAD:
            yield _ended(*begun.popleft())
    while begun:
        yield _ended(*begun.popleft())


def _ended(images: np.ndarray, numbers: Sequence[int], filled: Iterator[None]) -> Batch:
    exhaust(filled)
    return images, np.array(numbers)


def _fill(folder: Path, is_random: bool, number: int, out: np.ndarray) -> None:
    """Load a picture, cropped and normalized as torchvision's transforms do it."""
    with Image.open(path_of(folder, number)) as image:
        rgb = image.convert("RGB")
    box = random_box(*rgb.size) if is_random else middle_box(*rgb.size)
    cropped = rgb.crop(box).resize(out.shape[1:], Image.Resampling.BILINEAR)
    if is_random and random.random() < 0.5:
        cropped = cropped.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    np.divide(np.asarray(cropped).transpose(2, 0, 1), np.float32(255), out=out)
    out -= _MEAN
    out /= _DEVIATION


def random_box(width: int, height: int) -> Box:
    """Draw a crop as torchvision's RandomResizedCrop does."""
    for _ in range(_NTRIES):
        area = width * height * random.uniform(*_SCALE)
        ratio = math.exp(random.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            x, y = random.randint(0, width - across), random.randint(0, height - down)
            return x, y, x + across, y + down
    return middle_box(width, height)


def path_of(folder: Path, number: int) -> Path:
    """Return the path of a picture."""
    return folder / f"{number:06}.jpg"


def write_files(
    folder: Path, pictures: list[np.ndarray], wanted: float, count: int
) -> dict[str, Any]:
    """Write files of the lowest quality at which the pictures keep `wanted` dB, again and again.

    The result has this ``quality``, and ``nbytes`` and ``psnr`` of the pictures.
    """
    quality = min(lowest_quality(lambda quality: _coded(pictures, quality)[1], wanted), 100)
    coded, decibels = _coded(pictures, quality)
    folder.mkdir()
    for number in range(count):
        path_of(folder, number).write_bytes(coded[number % len(coded)])
    return {"quality": quality, "nbytes": sum(map(len, coded)), "psnr": decibels}


def _coded(pictures: list[np.ndarray], quality: int) -> tuple[list[bytes], float]:
    """Return pictures as JPEG, 4:2:0, with Huffman tables of their own, and their PSNR."""
    coded, found = [], []
    for picture in pictures:
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, "JPEG", quality=quality, optimize=True)
        coded.append(stream.getvalue())
        with Image.open(stream) as image:
            found.append(np.asarray(image.convert("RGB")))
    return coded, psnr(pictures, found)
