"""Our frame store with three codecs, and Gulp directories."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack import gulp
from bloscpack.gulp.clipsource import GulpSource
from frames.contenders import (
    GULP_DIRECTORY,
    GULP_SOURCE,
    ONE_THREAD,
    STORE_FAST,
    STORE_JPEG,
    STORE_RAW,
    STORE_SMALL,
    STORE_VIDEO,
    Contender,
    Frames,
    GulpClips,
    ReadBatch,
    ReadClip,
)
from frames.data import encode_frames
from frames.videofiles import NOTE, encode_mp4

_STORES: dict[str, tuple[str, str, dict[str, Any]]] = {
    STORE_JPEG: ("frame store of the same JPEG bytes", "jpeg", {"codec": "jpeg"}),
    STORE_FAST: ("frame store, lossless, preset fast", "frames", {"preset": "fast"}),
    STORE_SMALL: ("frame store, lossless, preset small", "frames", {"preset": "small"}),
    STORE_RAW: (
        "frame store, preset raw, all frames read and verified before",
        "frames",
        {"preset": "raw"},
    ),
    STORE_VIDEO: (f"frame store, {NOTE}", "video", {"codec": "video"}),
}


class Store(Contender):
    """A frame store, one of `_STORES`; a read returns one array of the frames."""

    def __init__(self, files: str, nthreads: int | None = None) -> None:
        note, self.pixels, self._options = _STORES[files]
        self.files, self.name, self._nthreads = files, files, nthreads
        self.note = f"{note}, checksums compared; all processors"
        if nthreads == 1:
            self.name, self.note = f"{files}{ONE_THREAD}", "the same on one thread"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        clip = encode_frames(frames) if self.pixels == "jpeg" else frames
        video = encode_mp4(frames) if self.pixels == "video" else None
        with bp.frames.create(path, **self._options) as store:
            for key in ids:
                if video is not None:
                    store.append_video(key, video, {"label": key})
                else:
                    store.append(key, clip, {"label": key})

    @contextmanager
    def _store(self, path: Path) -> Iterator[bp.frames.FrameStore]:
        with bp.frames.open(path, nthreads=self._nthreads) as store:
            if self.files == STORE_RAW:  # chunks are verified once, when they are first read
                for clip in store.values():
                    for number in range(len(clip)):
                        clip.read(number)
            yield store

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with self._store(path) as store:
            yield lambda key, selection: store[key].read(selection)

    @contextmanager
    def open_batch(self, path: Path) -> Iterator[ReadBatch]:
        with self._store(path) as store:
            _, *shape = store[store.keys()[0]].shape

            def read(requests: list[tuple[str, slice]]) -> np.ndarray:
                which = requests[0][1]
                nframes = len(range(which.start, which.stop, which.step or 1))
                batch = np.empty((len(requests), nframes, *shape), np.uint8)
                store.read(requests, out=list(batch))
                return batch

            yield read


StoreJpeg, StoreJpegOneThread = partial(Store, STORE_JPEG), partial(Store, STORE_JPEG, 1)
StoreFast, StoreFastOneThread = partial(Store, STORE_FAST), partial(Store, STORE_FAST, 1)
StoreSmall, StoreSmallOneThread = partial(Store, STORE_SMALL), partial(Store, STORE_SMALL, 1)
StoreVideo, StoreVideoOneThread = partial(Store, STORE_VIDEO), partial(Store, STORE_VIDEO, 1)
StoreRaw = partial(Store, STORE_RAW)


class GulpDirectory(GulpClips):
    """A Gulp directory, read by the names of GulpIO2."""

    name = GULP_DIRECTORY
    note = "GulpIO2's files and its ``gd[id, slice]``: a list of frames"
    module = gulp


class Gulp(GulpDirectory):
    """A Gulp directory as a source of clips."""

    name = GULP_SOURCE
    note = "GulpIO2's files through `bloscpack.frames.open`: one array; all processors"
    nthreads: int | None = None

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with GulpSource(path) as source:

            def read(key: str, selection: slice) -> Frames:
                (frames,) = source.read([(key, selection)], nthreads=self.nthreads)
                return frames

            yield read


class GulpOneThread(Gulp):
    """A Gulp directory as a source, on one thread."""

    name = f"{GULP_SOURCE}{ONE_THREAD}"
    note = "the same on one thread"
    nthreads = 1
