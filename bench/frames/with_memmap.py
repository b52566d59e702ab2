"""Raw frames in a ``.npy`` file for each clip, mapped by numpy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from frames.contenders import MEMMAP, Contender, Frames, ReadClip


class MemoryMap(Contender):
    """A mapped file for each clip; a read copies the frames."""

    name = files = MEMMAP
    note = "a .npy file for each clip, mapped and copied to one array; one thread, no checksums"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write the frames for each id."""
        path.mkdir()
        for key in ids:
            np.save(path / f"{key}.npy", frames)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Map all files."""
        clips = {each.stem: np.load(each, mmap_mode="r") for each in path.iterdir()}

        def read(key: str, selection: slice) -> Frames:
            return np.array(clips[key][selection])

        yield read
