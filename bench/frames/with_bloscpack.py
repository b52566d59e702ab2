"""Our own: the frame store with three codecs, and Gulp directories."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack import gulp
from bloscpack.gulp.clipsource import GulpSource
from bloscpack.media import image
from frames.contender import (
    GULP_SOURCE,
    ONE_THREAD,
    STORE_FAST,
    STORE_JPEG,
    STORE_SMALL,
    Frames,
    ReadClip,
)


def encode_frames(frames: np.ndarray) -> list[bytes]:
    """Return frames as JPEG images, byte for byte those that GulpIO2 makes."""
    return [image.encode_jpeg(frame) for frame in frames]


class Store:
    """A frame store; one array of the frames."""

    name = ""
    note = ""
    files = ""
    is_lossy = False
    options: dict[str, Any] = {}  # noqa: RUF012 - a constant of each class
    nthreads: int | None = None

    def version(self) -> str:
        """Return name and version."""
        return f"bloscpack {bp.__version__}"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Create a store; JPEG images are kept as they are."""
        clip = encode_frames(frames) if self.is_lossy else frames
        with bp.frames.create(path, **self.options) as store:
            for key in ids:
                store.append(key, clip, {"label": key})

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Open the store."""
        with bp.frames.open(path, nthreads=self.nthreads) as store:
            yield lambda key, selection: store[key].read(selection)


class StoreJpeg(Store):
    """The JPEG images of the Gulp directory, as they are."""

    name = files = STORE_JPEG
    note = "frame store of the same JPEG bytes, checksums compared; all processors"
    is_lossy = True
    options = {"codec": "jpeg"}  # noqa: RUF012


class StoreJpegOneThread(StoreJpeg):
    """On one thread."""

    name = f"{STORE_JPEG}{ONE_THREAD}"
    note = "the same on one thread"
    nthreads = 1


class StoreFast(Store):
    """Lossless, preset fast."""

    name = files = STORE_FAST
    note = "frame store, lossless, preset fast, checksums compared; all processors"
    options = {"preset": "fast"}  # noqa: RUF012


class StoreFastOneThread(StoreFast):
    """On one thread."""

    name = f"{STORE_FAST}{ONE_THREAD}"
    note = "the same on one thread"
    nthreads = 1


class StoreSmall(Store):
    """Lossless, preset small."""

    name = files = STORE_SMALL
    note = "frame store, lossless, preset small, checksums compared; all processors"
    options = {"preset": "small"}  # noqa: RUF012


class StoreSmallOneThread(StoreSmall):
    """On one thread."""

    name = f"{STORE_SMALL}{ONE_THREAD}"
    note = "the same on one thread"
    nthreads = 1


class GulpDirectory:
    """A Gulp directory, read by the names of GulpIO2."""

    name = "bloscpack.gulp.GulpDirectory"
    note = "GulpIO2's files and its ``gd[id, slice]``: a list of frames"
    files = "gulp"
    is_lossy = True

    def version(self) -> str:
        """Return name and version."""
        return f"bloscpack {bp.__version__}"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write one chunk, the files that GulpIO2 would write."""
        path.mkdir()
        (chunk,) = gulp.GulpDirectory(path).new_chunks(1)
        with chunk.open("wb"):
            for key in ids:
                chunk.append(key, {"label": key}, list(frames))

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Open the directory."""
        directory = gulp.GulpDirectory(path)

        def read(key: str, selection: slice) -> Frames:
            frames: list[np.ndarray] = directory[key, selection][0]
            return frames

        yield read


class Gulp(GulpDirectory):
    """A Gulp directory as a source of clips."""

    name = GULP_SOURCE
    note = "GulpIO2's files through `bloscpack.frames.open`: one array; all processors"
    nthreads: int | None = None

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Open the source."""
        with GulpSource(path) as source:

            def read(key: str, selection: slice) -> Frames:
                (frames,) = source.read([(key, selection)], nthreads=self.nthreads)
                return frames

            yield read


class GulpOneThread(Gulp):
    """On one thread."""

    name = f"{GULP_SOURCE}{ONE_THREAD}"
    note = "the same on one thread"
    nthreads = 1
