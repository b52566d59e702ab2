"""What is stored: small frames of a real film, and how much is done with them."""

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
    """How much is done.

    Attributes
    ----------
    nrows, height, width : int
        Of the array of frames, uint8 (nrows, height, width, 3).
    chunk_rows : int
        Rows of a chunk.
    nclip : int
        Rows of a clip; the frame store has clips of so many.
    npicked : int
        Rows of a selection at random.
    step : int
        Of the slice.
    nfew, nnear : int
        Rows of that selection, and rows at the beginning to iterate over, when it is timed.
    delay : float
        Seconds that the server waits before each answer when it is timed.
    nrounds : int
        Rounds of a race of readers.
    block_nbytes, dask_nbytes, dask_chunk_nbytes : int
        What Dask writes and reads: a block, all, and a chunk.
    codecs, schedulers : tuple of str
        With which Dask works.
    ndask_rounds : int
        Rounds of a race under Dask.
    """

    nrows: int
    height: int
    width: int
    chunk_rows: int
    nclip: int
    npicked: int
    step: int
    nfew: int
    nnear: int
    delay: float
    nrounds: int
    block_nbytes: int
    dask_nbytes: int
    dask_chunk_nbytes: int
    codecs: tuple[str, ...]
    schedulers: tuple[str, ...]
    ndask_rounds: int


FULL = Setting(
    nrows=2048,
    height=120,
    width=160,
    chunk_rows=8,
    nclip=32,
    npicked=1000,
    step=64,
    nfew=100,
    nnear=256,
    delay=0.02,
    nrounds=3,
    block_nbytes=16 << 20,
    dask_nbytes=128 << 20,
    dask_chunk_nbytes=1 << 20,
    codecs=("zstd", "lz4"),
    schedulers=("threads", "2 processes"),
    ndask_rounds=7,
)
QUICK = Setting(
    nrows=256,
    height=60,
    width=80,
    chunk_rows=8,
    nclip=32,
    npicked=16,
    step=64,
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
    """Return different rows in no order, the same for every call."""
    rng = np.random.default_rng(_SEED)
    rows: list[int] = rng.permutation(setting.nrows)[: setting.npicked].tolist()
    return rows
