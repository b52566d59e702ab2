"""H.264 by decord.

It is imported by its own process only: it breaks OpenCV's PNG files in a process that has both.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from frames.contenders import DECORD
from frames.videofiles import VideoFiles


class Decord(VideoFiles):
    """A reader for each clip, kept."""

    name = DECORD
    note = "the mp4 files, a reader kept for each, `get_batch`; one thread"
    libraries = "decord {decord}"

    def __init__(self) -> None:
        version("decord")  # an ImportError if it is not installed

    def open_clip(self, path: Path) -> Any:
        import decord

        return decord.VideoReader(str(path), num_threads=1)

    def read_clip(self, clip: Any, selection: slice) -> np.ndarray:
        wanted = [*range(selection.start, selection.stop, selection.step or 1)]
        frames: np.ndarray = clip.get_batch(wanted).asnumpy()
        return frames
