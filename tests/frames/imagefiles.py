"""Small images, and folders of them."""

from pathlib import Path
from typing import Any

import numpy as np

from bloscpack.media import image

Pixels = np.ndarray[Any, np.dtype[Any]]


def picture(number: int, height: int = 12, width: int = 16) -> Pixels:
    """Return an RGB image that is different for each seed."""
    rows, columns = np.mgrid[:height, :width]
    channels = [rows * 9 + number * 5, columns * 7, rows + columns + number]
    return np.stack(channels, axis=-1).astype(np.uint8)


def write_jpeg(path: Path, number: int, **shape: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = image.encode_jpeg(picture(number, **shape))
    path.write_bytes(data)
    return data


def write_png(path: Path, pixels: Pixels) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = image.encode_png(pixels)
    path.write_bytes(data)
    return data


def image_folders(root: Path, nclips: int = 5, nframes: int = 4) -> dict[str, list[bytes]]:
    """Make folders of JPEG files; return the images by id."""
    return {
        f"clip{clip}": [
            write_jpeg(root / f"clip{clip}" / f"f{frame}.jpg", 10 * clip + frame)
            for frame in range(nframes)
        ]
        for clip in range(nclips)
    }
