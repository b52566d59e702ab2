"""Stored data: small frames of a real film, and how much is done with them."""

import numpy as np
from frames.data import load_animation
from race.races import Setting

_NPICTURES = 16
_SEED = 17
_STEP = 11  # pixels
CODEC, LEVEL = "zstd", 3
NCLIP = 32  # rows of a clip, also in the frame store
ABOUT = (
    "frames of Big Buck Bunny, (c) 2008 Blender Foundation, CC BY 3.0, made smaller, and moved to "
    "the side when they come again"
)

# How much is done: in a full run, and in a try.
SETTINGS = {
    "nrows": (2048, 256),  # of the array of frames, uint8 (nrows, height, width, 3)
    "height": (120, 60),
    "width": (160, 80),
    "chunk_rows": (8, 8),
    "grid_chunk": ((64, 60, 80), (32, 30, 40)),  # rows, height, width
    "nclip": (NCLIP, NCLIP),
    "npicked": (1000, 16),  # rows of a random selection
    "step": (64, 64),  # of the slice
    "nfew": (100, 8),  # rows of a random selection that is timed
    "tile": ((64, 48, 64), (8, 16, 16)),  # rows, height, width
    "nnear": (256, 16),  # rows at the beginning to iterate over, when that is timed
    "delay": (0.02, 0.001),  # seconds that the server waits before each answer that is timed
    "rate": (125_000_000, 1_000_000_000),  # bytes a second, when the whole array is read
    "nrounds": (3, 2),
    "block_nbytes": (16 << 20, 1 << 20),  # of a block of Dask
    "dask_nbytes": (128 << 20, 4 << 20),
    "dask_chunk_nbytes": (1 << 20, 1 << 18),
    "codecs": (("zstd", "lz4"), ("zstd",)),
    "schedulers": (("threads", "2 processes"), ("threads",)),
    "ndask_rounds": (7, 2),
}


def make_frames(setting: Setting) -> np.ndarray:
    """Return the array, the same for every call."""
    pictures = load_animation(_NPICTURES)
    _, height, width, _ = pictures.shape
    small = pictures[:, :: height // setting.height, :: width // setting.width]
    frames = np.empty((setting.nrows, *small.shape[1:]), np.uint8)
    for number, frame in enumerate(frames):
        again, which = divmod(number, len(small))
        frame[:] = np.roll(small[which], _STEP * again, axis=1)
    return frames


def pick_rows(setting: Setting) -> list[int]:
    """Return distinct rows in random order, the same for every call."""
    rng = np.random.default_rng(_SEED)
    return rng.permutation(setting.nrows)[: setting.npicked].tolist()
