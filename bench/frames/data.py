"""Stored clips: three of real frames, and synthetic depth and masks.

The clips are those of ``shared/data``, or of the folder that ``BLOSCPACK_DATA`` names. Without them
there is one: the frames that ship in ``bench/data``, played forwards and backwards.
"""

import os
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from race.arrays import load_array
from race.races import Setting

from bloscpack.media import image

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("BLOSCPACK_DATA") or ROOT.parent / "shared" / "data")
_SEED = 3

# How much is done: in a full run, and in a try.
SETTINGS = {
    "nclips": (12, 3),  # of a store
    "nframes": (64, 16),  # of a clip
    "window": (32, 8),  # frames of one read
    "stride": (2, 2),  # of these frames
    "crop": (None, (48, 64)),  # height and width to cut frames to
    "nrounds": (15, 2),
    "nindexed": (10_000, 20),  # clips of 100 frames of the store that is opened
    "ningested": (24, 3),  # clips
    "nepochs": (5, 1),  # passes of a loader
    "nepisodes": (6, 2),  # of images and numbers
    "batch": (8, 2),  # clips
    "batch_window": (16, 4),  # frames of a clip in a batch
    # Ways to start the workers of a loader. All contenders use the first.
    "methods": (("fork", "spawn", "forkserver"), ("fork",)),
}


@dataclass(frozen=True, slots=True)
class Clip:
    """Frames, (T, H, W) or (T, H, W, 3), with a label and a description."""

    name: str
    about: str
    frames: np.ndarray


def load_clips(setting: Setting) -> tuple[list[Clip], dict[str, str]]:
    """Return the clips of frames, and why others are not there."""
    clips, absent = [], {}
    for name, about, load in _CLIPS:
        try:
            frames = load(setting.nframes)
        except FileNotFoundError as err:
            absent[name] = f"no {err.filename}"
            continue
        if setting.crop is not None:
            height, width = setting.crop
            frames = np.ascontiguousarray(frames[:, :height, :width])
        clips.append(Clip(name, about, frames))
    return clips, absent


def load_animation(nframes: int) -> np.ndarray:
    """Return the first frames of the animation, uint8 (T, 240, 320, 3); repeated if too few."""
    path = FOLDER / "bbb_64x240x320x3_u8.npy.zst"
    if path.exists():
        return load_array(path)[:nframes]
    shipped = load_array()
    there_and_back = np.concatenate([shipped, shipped[::-1]])
    return np.resize(there_and_back, (nframes, *shipped.shape[1:]))


def load_photo() -> np.ndarray:
    """Return the photograph, uint8 (400, 600, 3)."""
    return load_array(FOLDER / "coffee_400x600x3_u8.npy.zst")


def _static(nframes: int) -> np.ndarray:
    return load_array(FOLDER / "gulptest_96x144x256x3_u8.npy.zst")[:nframes]


def _pan(nframes: int) -> np.ndarray:
    photo = load_photo()
    tool = FOLDER.parent / "tools" / "make_pan_frames.py"
    return runpy.run_path(str(tool))["pan"](photo, nframes)


_CLIPS: tuple[tuple[str, str, Callable[[int], np.ndarray]], ...] = (
    (
        "animation",
        (
            "Big Buck Bunny, (c) 2008 Blender Foundation, CC BY 3.0: 320 x 240, cropped and "
            "area-averaged from 720p"
        ),
        load_animation,
    ),
    (
        "static camera",
        (
            "a phone video of a still scene, H.264 of 100 kbit/s before, so that it is smooth: "
            "256 x 144; from GulpIO2's tests, (c) 2017 Twenty Billion Neurons GmbH, MIT"
        ),
        _static,
    ),
    (
        "moving camera",
        (
            "a photograph (Rachel Michetti, CC0) with pan, zoom, shake, shot noise and read noise: "
            "320 x 240"
        ),
        _pan,
    ),
)


def make_depth_and_masks(setting: Setting) -> list[Clip]:
    """Return clips of other kinds of pixels, the same for every call."""
    height, width = setting.crop or (240, 320)
    count = setting.window
    rng = np.random.default_rng(_SEED)
    row, column = np.mgrid[0:height, 0:width].astype(np.float64)
    labels = np.zeros((count, height, width), np.uint8)
    depth = np.empty((count, height, width), np.uint16)
    for k in range(count):
        # A floor that comes nearer, and a wall behind it.
        metres = np.minimum(4.0, 1.5 * height / np.maximum(row - 0.2 * height, 1.0))
        for ball in range(5):
            phase = 2 * np.pi * (ball / 5 + k / 100)
            y, x = height * (0.5 + 0.3 * np.sin(phase)), width * (0.5 + 0.35 * np.cos(phase / 2))
            radius = height * (0.06 + 0.02 * ball)
            inside = radius**2 - (row - y) ** 2 - (column - x) ** 2
            front = 1.0 + 0.4 * ball - np.sqrt(np.maximum(inside, 0)) / height
            is_hit = (inside > 0) & (front < metres)
            metres = np.where(is_hit, front, metres)
            labels[k][is_hit] = ball + 1
        # The noise of a depth camera grows with the square of the distance; some pixels see none.
        noisy = 1000 * metres + rng.normal(0, 1.5, metres.shape) * metres**2
        noisy[rng.random(metres.shape) < 0.01] = 0
        depth[k] = np.rint(noisy)
    return [
        Clip(
            "depth, uint16",
            "millimetres of a floor, a wall and five balls that move, with normal noise of "
            "1.5 mm at 1 m that grows with the square of the distance, and 1 % of pixels without "
            "a value, 0",
            depth,
        ),
        Clip("mask, uint8", "the number of the ball at each pixel, 0 for none", labels),
        Clip("mask, bool", "whether there is a ball", labels > 0),
    ]


def encode_frames(frames: np.ndarray) -> list[bytes]:
    """Return frames as JPEG images, byte for byte those that GulpIO2 makes."""
    return [image.encode_jpeg(frame) for frame in frames]


def decode_frames(images: Sequence[bytes]) -> np.ndarray:
    """Return images decoded as GulpIO2 does: fast, on one thread."""
    import simplejpeg

    return np.stack(
        [simplejpeg.decode_jpeg(data, fastdct=True, fastupsample=True) for data in images]
    )


def jpeg_pixels(frames: np.ndarray) -> np.ndarray:
    """Return frames as GulpIO2 returns them: lossy, decoded fast."""
    return decode_frames(encode_frames(frames))
