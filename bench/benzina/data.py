"""Pictures of the size of photographs, cut from real ones.

They are parts of the frames and of the photograph that `frames.data` has; without a
photograph, of the frames alone.
"""

from collections.abc import Sequence

import numpy as np
from frames.data import load_animation, load_photo
from PIL import Image
from race.races import Setting

_SEED = 5
# Commonly used ones of ImageNet: red, green and blue in 0 to 1.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
_MIN_AREA = 0.7  # of what a picture is cut from
ABOUT = {
    "animation": "every other picture is of a frame of Big Buck Bunny, (c) 2008 Blender "
    "Foundation, CC BY 3.0",
    "photograph": "the others are of a photograph (Rachel Michetti, CC0)",
}
"""Sources of the pictures, by name."""

# How much is done: in a full run, and in a try.
SETTINGS = {
    "npictures": (96, 6),  # distinct ones
    "nsamples": (960, 12),  # of the dataset that is loaded: the pictures again and again
    "sizes": (((375, 500), (500, 375), (333, 500)), ((48, 64), (64, 48))),  # height, width
    "tile": (512, 64),  # of the dataset; at least the size of any picture
    "crf": (28, 28),  # quality of H.265
    "shape": (224, 32),  # side of the pictures that loaders return
    "batch": (32, 4),
    "threads": ((1, 2), (1, 2)),  # of the loaders
    "npacked": (32, 6),
    "nindexed": (1_431_167, 1_000),  # samples of the index that is opened
    "nrounds": (9, 2),
}


def make_pictures(setting: Setting) -> tuple[list[np.ndarray], dict[str, str]]:
    """Return the pictures, uint8 (H, W, 3), the same for every call, and why some are not there."""
    frames = load_animation(setting.npictures)
    absent = {}
    try:
        photo = load_photo()
    except FileNotFoundError as err:
        photo, absent["photograph"] = None, f"no {err.filename}"
    rng = np.random.default_rng(_SEED)
    pictures = []
    for number in range(setting.npictures):
        whole = frames[number % len(frames)] if number % 2 or photo is None else photo
        pictures.append(_cut(whole, setting.sizes[number % len(setting.sizes)], rng))
    return pictures, absent


def _cut(whole: np.ndarray, size: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Return a part at random in another size."""
    height, width = size
    room_height, room_width = whole.shape[:2]
    zoom = min(room_height / height, room_width / width) * rng.uniform(_MIN_AREA, 1) ** 0.5
    across, down = zoom * width, zoom * height
    x, y = rng.uniform(0, room_width - across), rng.uniform(0, room_height - down)
    box = (x, y, x + across, y + down)
    return np.asarray(Image.fromarray(whole).resize((width, height), Image.Resampling.BICUBIC, box))
