"""Decoding alone: the JPEG images in memory, simplejpeg, and threads that wait for work."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import simplejpeg
from race.timing import NTHREADS

from bloscpack.gulp.clipsource import GulpSource
from frames.contenders import BARE_JPEG, ONE_THREAD, Contender, ReadClip
from frames.with_bloscpack import GulpDirectory


class BareJpeg(Contender):
    """Decoding without a container: the limit of threads on this machine."""

    name = BARE_JPEG
    note = (
        "no more than decoding: the same images in memory, into one array, simplejpeg on as many "
        "threads as there are processors"
    )
    libraries = "simplejpeg {simplejpeg}"
    files = "gulp"
    pixels = "jpeg"
    nthreads = NTHREADS

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        GulpDirectory().write(path, ids, frames)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with GulpSource(path) as source:
            images = {key: source[key].read_images() for key in source}
            shape = source[next(iter(images))].shape[1:]
        with ThreadPoolExecutor(self.nthreads) as pool:

            def read(key: str, selection: slice) -> np.ndarray:
                chosen = images[key][selection]
                frames = np.empty((len(chosen), *shape), np.uint8)

                def decode(first: int) -> None:
                    for k in range(first, len(chosen), self.nthreads):
                        simplejpeg.decode_jpeg(
                            chosen[k], fastdct=True, fastupsample=True, buffer=frames[k]
                        )

                if self.nthreads == 1:
                    decode(0)
                else:
                    list(pool.map(decode, range(self.nthreads)))
                return frames

            yield read


class BareJpegOneThread(BareJpeg):
    """On one thread."""

    name = f"{BARE_JPEG}{ONE_THREAD}"
    note = "the same on one thread"
    nthreads = 1
