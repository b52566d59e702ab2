"""Our frame store with each of its codecs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from frames.contenders import (
    BATCH,
    CLIP,
    LOADING,
    SINGLE,
    Contender,
    ReadBatch,
    ReadClip,
)
from frames.data import encode_frames
from frames.videofiles import NOTE, encode_mp4

_ALL, _MOST = (CLIP, SINGLE, BATCH, LOADING), (CLIP, SINGLE, LOADING)
_RAW = "preset raw, all frames read and verified before"
# Note, pixels, options and work of each store.
_STORES: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "jpeg": ("frame store of the same JPEG bytes", "jpeg", {"codec": "jpeg"}, _MOST),
    "fast": ("frame store, lossless, preset fast", "frames", {"preset": "fast"}, _ALL),
    "small": ("frame store, lossless, preset small", "frames", {"preset": "small"}, _MOST),
    "raw": (f"frame store, {_RAW}", "frames", {"preset": "raw"}, _ALL),
    "video": (f"frame store, {NOTE}", "video", {"codec": "video"}, (CLIP, LOADING)),
}


class Store(Contender):
    """A frame store, one of `_STORES`; a read returns one array of the frames."""

    def __init__(self, kind: str, nthreads: int | None = None) -> None:
        super().__init__()
        what, self.pixels, self._options, self.works = _STORES[kind]
        self.files, self._nthreads = f"{kind} store", nthreads
        self.note = f"{what}, checksums compared; all processors"
        if nthreads == 1:
            self.note = "the same on one thread"
            self.works = (CLIP, SINGLE) if kind == "video" else (CLIP,)

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
            if self.files == "raw store":  # chunks are verified once, when they are first read
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


StoreJpeg, StoreJpegOneThread = partial(Store, "jpeg"), partial(Store, "jpeg", 1)
StoreFast, StoreFastOneThread = partial(Store, "fast"), partial(Store, "fast", 1)
StoreSmall, StoreSmallOneThread = partial(Store, "small"), partial(Store, "small", 1)
StoreVideo, StoreVideoOneThread = partial(Store, "video"), partial(Store, "video", 1)
StoreRaw = partial(Store, "raw")
