"""Frame stores for tests of commands."""

from pathlib import Path

import numpy as np

import bloscpack as bp


def pixels(number: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, shape).astype(np.uint8)


CLIPS = {
    "walk": pixels(1, 6, 16, 12, 3),
    "depth": (pixels(2, 3, 4, 6).astype("<u2") + 300),
    "mask": pixels(3, 5, 4, 6) > 100,
    "none": np.zeros((0, 4, 6), "<f4"),
}


def write_store(path: Path) -> Path:
    """Write the clips, with a number as metadata."""
    with bp.frames.create(path, attrs={"camera": "left"}) as store:
        for number, (id_, frames) in enumerate(CLIPS.items()):
            store.append(id_, frames, {"n": number})
    return path
