"""Stored data: small frames of a real film, and how much is done with them."""

from dataclasses import dataclass

import numpy as np
from frames.data import load_animation

_NPICTURES = 16
_SEED = 17
_STEP = 11  # pixels
ABOUT = (
    "frames of Big Buck Bunny, (c) 2008 Blender Foundation, CC BY 3.0, made smaller, and moved to "
    "the side when they come again"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """How much is done; by default a full run."""

    nrows: int = 2048  # of the array of frames, uint8 (nrows, height, width, 3)
    height: int = 120
    width: int = 160
    chunk_rows: int = 8
    nclip: int = 32  # rows of a clip, also in the frame store
    npicked: int = 1000  # rows of a random selection
    step: int = 64  # of the slice
    nfew: int = 100  # rows of a random selection that is timed
    nnear: int = 256  # rows at the beginning to iterate over, when that is timed
    delay: float = 0.02  # seconds that the server waits before each answer that is timed
    nrounds: int = 3
    block_nbytes: int = 16 << 20  # of a block of Dask
    dask_nbytes: int = 128 << 20
    dask_chunk_nbytes: int = 1 << 20
    codecs: tuple[str, ...] = ("zstd", "lz4")
    schedulers: tuple[str, ...] = ("threads", "2 processes")
    ndask_rounds: int = 7


FULL = Setting()
QUICK = Setting(
    nrows=256,
    height=60,
    width=80,
    npicked=16,
    nfew=8,
    nnear=16,
    delay=0.001,
    nrounds=2,
    block_nbytes=1 << 20,
    dask_nbytes=4 << 20,
    dask_chunk_nbytes=1 << 18,
    codecs=("zstd",),
    schedulers=("threads",),
    ndask_rounds=2,
)


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
