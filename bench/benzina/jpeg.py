"""JPEG files of the pictures: their quality, and crops as torchvision makes them."""

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels."""

# Commonly used ones of ImageNet: red, green and blue in 0 to 1.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
_SCALE, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
_NTRIES = 10
_QUALITIES = range(1, 101)


def psnr(pictures: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
    """Return the peak signal-to-noise ratio of all pixels of pictures in dB."""
    total = count = 0.0
    for one, other in zip(pictures, others, strict=True):
        total += float(np.square(one.astype(np.float64) - other).sum())
        count += one.size
    return 10 * math.log10(255**2 * count / total) if total else math.inf


def encode(picture: np.ndarray, quality: int) -> bytes:
    """Return a picture as JPEG, 4:2:0, with Huffman tables of its own."""
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "JPEG", quality=quality, optimize=True)
    return stream.getvalue()


def decode(data: bytes) -> np.ndarray:
    """Return the pixels, uint8 (H, W, 3)."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def find_quality(pictures: Sequence[np.ndarray], wanted: float) -> int:
    """Return the lowest quality of JPEG at which pictures keep `wanted` dB, or the highest."""
    low, high = 0, len(_QUALITIES) - 1
    while low < high:
        middle = (low + high) // 2
        found = [decode(encode(one, _QUALITIES[middle])) for one in pictures]
        if psnr(pictures, found) >= wanted:
            high = middle
        else:
            low = middle + 1
    return _QUALITIES[low]


def path_of(folder: Path, number: int) -> Path:
    """Return the path of a picture."""
    return folder / f"{number:06}.jpg"


def random_box(width: int, height: int, rng: np.random.Generator) -> Box:
    """Draw a crop as torchvision's RandomResizedCrop does."""
    for _ in range(_NTRIES):
        area = width * height * rng.uniform(*_SCALE)
        ratio = math.exp(rng.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            x, y = rng.integers(width - across + 1), rng.integers(height - down + 1)
            return int(x), int(y), int(x) + across, int(y) + down
    return middle_box(width, height)


def middle_box(width: int, height: int) -> Box:
    """Return the largest square in the middle."""
    side = min(width, height)
    x, y = (width - side) // 2, (height - side) // 2
    return x, y, x + side, y + side


def load(path: Path, side: int, rng: np.random.Generator | None) -> Image.Image:
    """Return a picture cropped to a square of `side` pixels as torchvision's transforms do it.

    Crop and flip are random; without `rng` the middle is taken.
    """
    with Image.open(path) as image:
        rgb = image.convert("RGB")
    box = middle_box(*rgb.size) if rng is None else random_box(*rgb.size, rng)
    cropped = rgb.crop(box).resize((side, side), Image.Resampling.BILINEAR)
    if rng is not None and rng.random() < 0.5:
        return cropped.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return cropped
