"""Checks that results are the pictures that were put in."""

from collections.abc import Iterable, Iterator

import numpy as np
from PIL import Image
from race.quality import psnr
from race.races import Task, require

from benzina.data import DEVIATION, MEAN

Batch = tuple[np.ndarray, np.ndarray]
"""Pictures, float32 (n, 3, H, W), and their numbers, (n,)."""

# In dB. Other pictures have 15; resized without a filter, as our warp does it, sharp ones keep 25.
_MIN_RESIZED = 22.0
_MIN_CODED = 30.0
# Weights of red, green and blue in luma, by BT.601.
_LUMA = np.array([0.299, 0.587, 0.114])


def read_wanted(task: Task) -> list[np.ndarray]:
    """Return the pictures as they were before they were packed."""
    with np.load(task["wanted"]) as stored:
        return [stored[name] for name in stored.files]


def require_batches(batches: Iterable[Batch], task: Task, who: str) -> None:
    """Stop the run unless batches have the middles of all pictures, in order and numbered.

    The batches are those of a pass without randomness, with mean and deviation applied.
    """
    side = task["shape"]
    wanted = [_middle(picture, side) for picture in read_wanted(task)]
    count = 0
    for images, numbers in batches:
        require(images.shape[1:] == (3, side, side), who, "the shape of a batch")
        require(images.dtype == np.float32, who, "the dtype of a batch")
        for image, number in zip(images, numbers.tolist(), strict=True):
            require(number == count, who, f"the number of picture {count}")
            pixels = 255 * (image.transpose(1, 2, 0) * np.array(DEVIATION) + np.array(MEAN))
            found = psnr([wanted[count % len(wanted)]], [pixels])
            require(found >= _MIN_RESIZED, who, f"picture {count}, {found:.1f} dB,")
            count += 1
    require(count == task["nsamples"], who, "the number of pictures")


def _middle(picture: np.ndarray, side: int) -> np.ndarray:
    image = Image.fromarray(picture)
    box = middle_box(*image.size)
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR, box))


def middle_box(width: int, height: int) -> tuple[int, int, int, int]:
    """Return the largest square in the middle: left, top, right and bottom in pixels."""
    side = min(width, height)
    x, y = (width - side) // 2, (height - side) // 2
    return x, y, x + side, y + side


def require_lumas(lumas: Iterable[np.ndarray], task: Task, who: str, count: int) -> None:
    """Stop the run unless the luma planes of frames have the pictures at their top left."""
    wanted = [picture @ _LUMA for picture in read_wanted(task)]
    _require_coded(lumas, wanted, who, count)


def require_pictures(pictures: Iterable[np.ndarray], task: Task, who: str, count: int) -> None:
    """Stop the run unless these are the pictures, to the precision of H.265."""
    wanted = read_wanted(task)

    def right_shapes() -> Iterator[np.ndarray]:
        for number, picture in enumerate(pictures):
            is_equal = picture.shape == wanted[number % len(wanted)].shape
            require(is_equal, who, f"the shape of picture {number}")
            yield picture

    _require_coded(right_shapes(), wanted, who, count)


def _require_coded(
    pictures: Iterable[np.ndarray], wanted: list[np.ndarray], who: str, count: int
) -> None:
    found = 0
    for picture in pictures:
        original = wanted[found % len(wanted)]
        height, width = original.shape[:2]
        decibels = psnr([original], [picture[:height, :width]])
        require(decibels >= _MIN_CODED, who, f"picture {found}, {decibels:.1f} dB,")
        found += 1
    require(found == count, who, "the number of pictures")
