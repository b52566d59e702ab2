"""Raw frames in a ``.npy`` file for each clip, mapped by numpy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from frames.contenders import MEMMAP, ClipFiles, ReadBatch


class MemoryMap(ClipFiles):
    """A mapped file for each clip; a read copies the frames."""

    name = files = MEMMAP
    note = "a .npy file for each clip, mapped and copied to one array; one thread, no checksums"
    suffix = ".npy"

    def write_clip(self, path: Path, coded: np.ndarray) -> None:
        np.save(path, coded)

    def open_clip(self, path: Path) -> np.ndarray:
        return np.load(path, mmap_mode="r")

    def read_clip(self, clip: np.ndarray, selection: slice) -> np.ndarray:
        return np.array(clip[selection])

    @contextmanager
    def open_batch(self, path: Path) -> Iterator[ReadBatch]:
        clips = self.open_clips(path)

        def read(requests: list[tuple[str, slice]]) -> np.ndarray:
            parts = [clips[key][which] for key, which in requests]
            batch = np.empty((len(parts), *parts[0].shape), parts[0].dtype)
            for place, part in zip(batch, parts, strict=True):
                place[...] = part
            return batch

        yield read
