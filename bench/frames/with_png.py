"""Folders of PNG files, by OpenCV."""

from pathlib import Path

import cv2
import numpy as np

from frames.contenders import PNG, ClipFiles


def encode_png(frame: np.ndarray) -> bytes:
    """Return a frame as PNG with OpenCV's defaults; of bools, one bit a pixel."""
    options: list[int] = []
    if frame.dtype == bool:
        frame = frame.astype(np.uint8) * 255
        options = [cv2.IMWRITE_PNG_BILEVEL, 1]
    elif frame.ndim == 3:
        frame = cv2.cvtColor(frame, cv2.COLOR_RGB2BGR)
    is_done, data = cv2.imencode(".png", frame, options)
    if not is_done:
        raise RuntimeError("OpenCV failed to encode a PNG")
    return bytes(data)


class PngFiles(ClipFiles):
    """A folder of numbered files for each clip."""

    name = files = PNG
    note = "a folder of PNG files for each clip, OpenCV's default level; one array; one thread"
    libraries = "OpenCV {opencv-python-headless}"

    def encode(self, frames: np.ndarray) -> list[bytes]:
        return [encode_png(frame) for frame in frames]

    def write_clip(self, path: Path, coded: list[bytes]) -> None:
        path.mkdir()
        for number, data in enumerate(coded):
            (path / f"{number:05d}.png").write_bytes(data)

    def open_clip(self, path: Path) -> list[str]:
        return sorted(map(str, path.iterdir()))

    def read_clip(self, clip: list[str], selection: slice) -> np.ndarray:
        """Read straight into one array, as RGB."""
        names = clip[selection]
        first = cv2.imread(names[0])
        frames = np.empty((len(names), *first.shape), first.dtype)
        for name, frame in zip(names, frames, strict=True):
            cv2.cvtColor(cv2.imread(name), cv2.COLOR_BGR2RGB, dst=frame)
        return frames
