"""GulpIO2 0.0.4."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import gulpio2
import numpy as np

from frames.contender import GULPIO2, Frames, ReadClip

_ITEMS_PER_CHUNK = 100  # the default of its commands


class GulpIO2:
    """A Gulp directory, read by ``gd[id, slice]``."""

    name = GULPIO2
    note = "JPEG of quality 90, 4:4:4; gives a list of frames; one thread, there is no other way"
    files = "gulp"
    is_lossy = True

    def version(self) -> str:
        """Return names and versions."""
        return f"gulpio2 {version('gulpio2')} (simplejpeg {version('simplejpeg')})"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write chunks of up to 100 clips."""
        path.mkdir()
        starts = range(0, len(ids), _ITEMS_PER_CHUNK)
        chunks = gulpio2.GulpDirectory(str(path)).new_chunks(len(starts))
        for start, chunk in zip(starts, chunks, strict=True):
            with chunk.open("wb"):
                for key in ids[start : start + _ITEMS_PER_CHUNK]:
                    chunk.append(key, {"label": key}, list(frames))

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Open the directory."""
        directory = gulpio2.GulpDirectory(str(path))

        def read(key: str, selection: slice) -> Frames:
            frames: list[np.ndarray] = directory[key, selection][0]
            return frames

        yield read


class GulpIO2Stacked(GulpIO2):
    """The same, with the frames put into one array, as a model wants them."""

    name = f"{GULPIO2} and np.stack"
    note = "the same, the list made one array"

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Open the directory."""
        with super().open(path) as read:
            yield lambda key, selection: np.stack(read(key, selection))
