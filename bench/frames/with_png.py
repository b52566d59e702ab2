"""Folders of PNG files, by OpenCV."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

from frames.contenders import PNG, Contender, Frames, ReadClip


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


class PngFiles(Contender):
    """A folder of numbered files for each clip."""

    name = files = PNG
    note = "a folder of PNG files for each clip, OpenCV's default level; one array; one thread"
    libraries = "OpenCV {opencv-python-headless}"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Encode each frame once and write it for each id."""
        images = [encode_png(frame) for frame in frames]
        for key in ids:
            folder = path / key
            folder.mkdir(parents=True)
            for number, data in enumerate(images):
                (folder / f"{number:05d}.png").write_bytes(data)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Read straight into one array, as RGB."""
        folders = {entry.name: sorted(map(str, entry.iterdir())) for entry in path.iterdir()}

        def read(key: str, selection: slice) -> Frames:
            names = folders[key][selection]
            first = cv2.imread(names[0])
            frames = np.empty((len(names), *first.shape), first.dtype)
            for name, frame in zip(names, frames, strict=True):
                cv2.cvtColor(cv2.imread(name), cv2.COLOR_BGR2RGB, dst=frame)
            return frames

        yield read
