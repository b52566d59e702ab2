"""Folders of images for tests of adapters."""

from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray


def pixels(seed: int, height: int = 24, width: int = 32) -> NDArray[np.uint8]:
    """Return a smooth RGB image that differs by `seed`."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (3, 4, 3), dtype="u1")
    return np.asarray(PIL.Image.fromarray(small).resize((width, height)))


def save(path: Path, seed: int = 0, mode: str = "RGB", **size: int) -> Path:
    """Write an image in a Pillow mode, in the format of the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = PIL.Image.fromarray(pixels(seed, **size))
    if mode == "I;16":
        image = PIL.Image.fromarray(np.arange(600, dtype="u2").reshape(20, 30) * 100)
    else:
        image = image.convert(mode)
    image.save(path)
    return path


def image_tree(root: Path) -> Path:
    """Make a folder for each of two labels, with JPEG, PNG and other files."""
    for number, label in enumerate(("dog", "cat")):
        for name in ("b.jpg", "a.png", "c.jpg"):
            save(root / label / name, seed=10 * number + len(name) + ord(name[0]))
    save(root / "cat" / "deep" / "x.jpg", seed=50, height=40, width=20)
    save(root / "cat" / "gray.jpg", seed=51, mode="L")
    (root / "cat" / "notes.txt").write_text("no image")
    return root
