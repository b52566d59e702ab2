"""H.264 by torchcodec, imported by its own process only, as it takes long."""

from ctypes.util import find_library
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from frames.contenders import TORCHCODEC, TORCHCODEC_OPENED
from frames.videofiles import VideoFiles


class TorchCodec(VideoFiles):
    """A decoder for each clip, kept."""

    name = TORCHCODEC
    note = "the mp4 files, a decoder kept for each, seek mode exact; one thread"
    libraries = "torchcodec {torchcodec}"

    def __init__(self) -> None:
        version("torchcodec")  # an ImportError if it is not installed
        if find_library("avcodec") is None:
            raise ImportError("torchcodec needs the shared libraries of FFmpeg 4 to 8")

    def open_clip(self, path: Path) -> Any:
        import torch
        from torchcodec.decoders import VideoDecoder

        torch.set_num_threads(1)
        return VideoDecoder(
            str(path), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact"
        )

    def read_clip(self, clip: Any, selection: slice) -> np.ndarray:
        wanted = [*range(selection.start, selection.stop, selection.step or 1)]
        frames: np.ndarray = clip.get_frames_at(wanted).data.numpy()
        return frames


class TorchCodecOpened(TorchCodec):
    """A decoder that is opened for each read."""

    name = TORCHCODEC_OPENED
    note = "the same, a decoder opened for each read"

    def open_clip(self, path: Path) -> Path:
        return path

    def read_clip(self, clip: Path, selection: slice) -> np.ndarray:
        return super().read_clip(super().open_clip(clip), selection)
