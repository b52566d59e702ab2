"""Recorded data: a synthetic motion sensor, and noisy frames of real pictures."""

import numpy as np
from race.arrays import load_array
from race.races import Setting

_SEED = 7
_GRAVITY = 9.81
# One step of a sensor of 16 bits: of 8 g in all, and of 2,000 degrees a second.
_ACCELERATION_STEP = 8 * _GRAVITY / 2**16
_ROTATION_STEP = np.deg2rad(2_000) / 2**16

MOTION = np.dtype(
    [
        ("captured", "<i8"),
        ("temperature", "<f4"),
        ("accelerometer", "<f4", 3),
        ("gyroscope", "<f4", 3),
    ]
)
"""The payload of a record of the motion sensor."""
FIELD = "accelerometer"

# How much is done: in a full run, and in a try.
SETTINGS = {
    "nrecords": (100_000, 500),  # of the motion sensor
    "nframes": (300, 40),  # of the camera
    "height": (480, 48),
    "width": (640, 64),
    "nrounds": (7, 2),
}


def make_motion(setting: Setting) -> np.ndarray:
    """Return records of a motion sensor of 1 kHz, the same for every call; `MOTION`, (N,)."""
    count = setting.nrecords
    rng = np.random.default_rng(_SEED)
    rows = np.zeros(count, MOTION)
    rows["captured"] = 1_000_000 * np.arange(count) + rng.integers(0, 20_000, count)
    seconds = np.arange(count)[:, None] / 1_000
    rows["temperature"] = np.round(16 * (30 + 5 * np.sin(seconds[:, 0] / 60))) / 16
    phases, speeds = np.array([0, 1, 2]), np.array([1.3, 2.1, 0.7])
    swing = np.sin(speeds * seconds + phases)
    moved = 2 * swing + np.array([0, 0, _GRAVITY]) + rng.normal(0, 0.02, (count, 3))
    turned = 0.8 * np.cos(speeds * seconds + phases) + rng.normal(0, 0.003, (count, 3))
    rows["accelerometer"] = np.round(moved / _ACCELERATION_STEP) * _ACCELERATION_STEP
    rows["gyroscope"] = np.round(turned / _ROTATION_STEP) * _ROTATION_STEP
    return rows


def make_frames(setting: Setting) -> np.ndarray:
    """Return grey frames with the noise of a camera, the same for every call; uint8 (T, H, W)."""
    pictures = load_array()[..., 1]
    large = pictures.repeat(2, axis=1).repeat(2, axis=2)[:, : setting.height, : setting.width]
    rng = np.random.default_rng(_SEED)
    frames = np.empty((setting.nframes, *large.shape[1:]), np.uint8)
    for number, frame in enumerate(frames):
        noise = rng.normal(0, 1, large.shape[1:])
        frame[:] = np.clip(np.rint(large[number % len(large)] + noise), 0, 255)
    return frames
