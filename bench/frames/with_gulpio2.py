"""GulpIO2 0.0.4."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import gulpio2
import numpy as np

from frames.contenders import GULPIO2, GULPIO2_STACKED, Contender, Frames, ReadClip

_ITEMS_PER_CHUNK = 100  # the default of its commands


class GulpIO2(Contender):
    """A Gulp directory, read by ``gd[id, slice]``."""

    name = GULPIO2
    note = "JPEG of quality 90, 4:4:4; gives a list of frames; one thread, the only way"
    libraries = "gulpio2 {gulpio2} (simplejpeg {simplejpeg})"
    files = "gulp"
    is_lossy = True

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        path.mkdir()
        starts = range(0, len(ids), _ITEMS_PER_CHUNK)
        chunks = gulpio2.GulpDirectory(str(path)).new_chunks(len(starts))
        for start, chunk in zip(starts, chunks, strict=True):
            with chunk.open("wb"):
                for key in ids[start : start + _ITEMS_PER_CHUNK]:
                    chunk.append(key, {"label": key}, list(frames))

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        directory = gulpio2.GulpDirectory(str(path))

        def read(key: str, selection: slice) -> Frames:
            frames: list[np.ndarray] = directory[key, selection][0]
            return frames

        yield read


class GulpIO2Stacked(GulpIO2):
    """Frames put into one array, as a model needs them."""

    name = GULPIO2_STACKED
    note = "the same, the list made one array"

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with super().open(path) as read:
            yield lambda key, selection: np.stack(read(key, selection))
