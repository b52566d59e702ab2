"""Clips as H.264 in mp4 files, in groups of 8 frames, and their quality and that of JPEG.

The packets in the files are those that our frame store keeps.
"""

from fractions import Fraction

import numpy as np

from bloscpack.frames.video.videoencoder import encoded, numbered
from bloscpack.media import image

GOP, RATE = 8, 25
_CRF = 18
NOTE = f"a clip as H.264 by x264, crf {_CRF}, preset fast, groups of {GOP} frames, 4:2:0"


def encode_mp4(frames: np.ndarray) -> bytes:
    """Return frames as an mp4 file by the encoder of the frame store."""
    with encoded(
        numbered(frames), Fraction(1, RATE), crf=_CRF, gop=GOP, encoder="h264", preset="fast"
    ) as file:
        return file.read()


def psnr(one: np.ndarray, two: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio in dB."""
    return float(10 * np.log10(255**2 / np.mean((one.astype(np.float32) - two) ** 2)))


def jpeg_nbytes(frames: np.ndarray, target: float) -> float | None:
    """Return the bytes a frame of JPEG 4:2:0 with this PSNR, interpolated between two qualities.

    None if no quality reaches it.
    """

    def at(quality: int) -> tuple[float, float]:
        coded = [image.encode_jpeg(each, quality=quality, subsampling="420") for each in frames]
        pixels = np.stack([image.decode(each) for each in coded])
        return psnr(pixels, frames), sum(map(len, coded)) / len(frames)

    low, high = 10, 100
    below, above = at(low), at(high)
    if not below[0] <= target <= above[0]:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        found = at(middle)
        if found[0] < target:
            low, below = middle, found
        else:
            high, above = middle, found
    return float(np.interp(target, [below[0], above[0]], [below[1], above[1]]))
