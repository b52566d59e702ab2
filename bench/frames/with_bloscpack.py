"""Our frame store with each of its codecs, our reader of Gulp directories, and bare decoding."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from race.timing import NTHREADS

import bloscpack as bp
from frames.contenders import CLIP, LOADING, Contender, GulpClips, ReadBatch, ReadClip
from frames.data import encode_frames
from frames.video import encode_mp4


class Store(Contender):
    """A frame store; a read returns one array of the frames.

    `kind` is a codec of images or a preset.
    """

    kind = ""
    nthreads: int | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        is_coded = self.kind in ("jpeg", "video")
        self.files, self.pixels = f"{self.kind} store", self.kind if is_coded else "frames"
        self._options = {"codec" if is_coded else "preset": self.kind}

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
        with bp.frames.open(path, nthreads=self.nthreads) as store:
            if self.kind == "raw":  # chunks are verified once, when they are first read
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


class BareJpeg(Store):
    """Decoding without a container, on threads that wait for work: their limit on this machine."""

    note = (
        "no more than decoding: the same images in memory, into one array, simplejpeg on as many "
        "threads as there are processors"
    )
    libraries = "simplejpeg {simplejpeg}"
    modules = ("simplejpeg",)
    kind = "jpeg"

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with bp.frames.open(path) as source:
            images = {key: source[key].read_images() for key in source}
            shape = source[next(iter(images))].shape[1:]
        decode_jpeg = self.lib.decode_jpeg
        with ThreadPoolExecutor(NTHREADS) as pool:

            def read(key: str, selection: slice) -> np.ndarray:
                chosen = images[key][selection]
                frames = np.empty((len(chosen), *shape), np.uint8)

                def decode(first: int) -> None:
                    for k in range(first, len(chosen), NTHREADS):
                        decode_jpeg(chosen[k], fastdct=True, fastupsample=True, buffer=frames[k])

                list(pool.map(decode, range(NTHREADS)))
                return frames

            yield read


class Gulp(GulpClips):
    note = "GulpIO2's files through `bloscpack.frames.open`: one array; all processors"
    modules = ("bloscpack.gulp",)
    works = (CLIP, LOADING)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with bp.frames.open(path) as source:
            yield lambda key, selection: source[key].read(selection)
