"""Contenders that keep clips of frames, and the reads that each does in its own process.

Members of a task:

path
    The files of the contender.
wanted
    A ``.npy`` file with the frames of every clip.
places
    Reads, in this order, again and again: an id with start, stop and step, or with one ordinal.
per_call
    How many of these one call does.
bare
    Whether to decode chunks from memory instead; of single frames.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from race import races
from race.races import Task, require_equal
from race.timing import Loop, loop_of

Frames = np.ndarray | Sequence[np.ndarray]
ReadClip = Callable[[str, slice], Frames]

GULPIO2 = "GulpIO2"
GULPIO2_STACKED = "GulpIO2 and np.stack"
PNG = "PNG files, cv2"
FFV1 = "FFV1, PyAV"
ONE_THREAD = ", 1 thread"
GULP_SOURCE = "bloscpack, Gulp directory"
GULP_DIRECTORY = "bloscpack.gulp.GulpDirectory"
BARE_JPEG = "bare JPEG decoding"
STORE_JPEG = "bloscpack, JPEG"
STORE_FAST = "bloscpack, fast"
STORE_SMALL = "bloscpack, small"
STORE_RAW = "bloscpack, raw"
MEMMAP = "numpy.memmap"
HDF5_LZ4, HDF5_ZSTD = "h5py, Blosc lz4", "h5py, Blosc zstd"

TABLE = {
    GULPIO2: "frames.with_gulpio2:GulpIO2",
    GULPIO2_STACKED: "frames.with_gulpio2:GulpIO2Stacked",
    BARE_JPEG: "frames.with_simplejpeg:BareJpeg",
    BARE_JPEG + ONE_THREAD: "frames.with_simplejpeg:BareJpegOneThread",
    GULP_SOURCE: "frames.with_bloscpack:Gulp",
    GULP_SOURCE + ONE_THREAD: "frames.with_bloscpack:GulpOneThread",
    GULP_DIRECTORY: "frames.with_bloscpack:GulpDirectory",
    STORE_JPEG: "frames.with_bloscpack:StoreJpeg",
    STORE_JPEG + ONE_THREAD: "frames.with_bloscpack:StoreJpegOneThread",
    STORE_FAST: "frames.with_bloscpack:StoreFast",
    STORE_FAST + ONE_THREAD: "frames.with_bloscpack:StoreFastOneThread",
    STORE_SMALL: "frames.with_bloscpack:StoreSmall",
    STORE_SMALL + ONE_THREAD: "frames.with_bloscpack:StoreSmallOneThread",
    STORE_RAW: "frames.with_bloscpack:StoreRaw",
    MEMMAP: "frames.with_memmap:MemoryMap",
    "webdataset, JPEG": "frames.with_webdataset:WebDataset",
    PNG: "frames.with_png:PngFiles",
    FFV1: "frames.with_ffv1:Ffv1",
    HDF5_LZ4: "frames.with_h5py:Hdf5Lz4",
    HDF5_ZSTD: "frames.with_h5py:Hdf5Zstd",
    "blosc2": "frames.with_blosc2:Blosc2",
    "tensorstore": "frames.with_tensorstore:Tensorstore",
}
_NCHECKED = 20
_ITEMS_PER_CHUNK = 100  # the default of GulpIO2


class Contender(races.Contender):
    """A way to keep clips of frames.

    Attributes
    ----------
    files : str
        Contenders with the same value read the same files.
    is_lossy : bool
        Whether frames come back as the pixels of JPEG images.
    """

    files = ""
    is_lossy = False

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write a clip of these frames under each id, to a new path."""
        raise NotImplementedError

    def open(self, path: Path) -> AbstractContextManager[ReadClip]:
        """Open for reading; the value is a function that reads frames of a clip."""
        raise NotImplementedError


class GulpClips(Contender):
    """A Gulp directory, read by ``gd[id, slice]`` of GulpIO2, or of our module of its names."""

    files = "gulp"
    is_lossy = True
    module: Any  # gulpio2 or bloscpack.gulp

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        path.mkdir()
        starts = range(0, len(ids), _ITEMS_PER_CHUNK)
        chunks = self.module.GulpDirectory(str(path)).new_chunks(len(starts))
        for start, chunk in zip(starts, chunks, strict=True):
            with chunk.open("wb"):
                for key in ids[start : start + _ITEMS_PER_CHUNK]:
                    chunk.append(key, {"label": key}, list(frames))

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        directory = self.module.GulpDirectory(str(path))

        def read(key: str, selection: slice) -> Frames:
            frames: list[np.ndarray] = directory[key, selection][0]
            return frames

        yield read


def prepare(contender: Contender, task: Task, stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking its result."""
    from frames.bare import bare_frames

    path = Path(task["path"])
    read: Any = bare_frames(path) if task["bare"] else stack.enter_context(contender.open(path))
    places: list[tuple[str, Any]] = []
    for key, *which in task["places"]:
        if len(which) > 1:
            places.append((key, slice(*which)))
        elif contender.name.startswith("bloscpack"):  # an int picks a frame
            places.append((key, which[0]))
        else:
            places.append((key, slice(which[0], which[0] + 1)))
    # Mapped, so that this process has never had an array of this size.
    wanted = np.load(task["wanted"], mmap_mode="r")
    for key, which in places[:_NCHECKED]:
        found = read(key, which)
        if isinstance(which, int):
            found, which = [found], slice(which, which + 1)
        require_equal(found, wanted[which], contender.name, f"{key}, frames {which}")
    forever, per_call = cycle(places), task["per_call"]

    def call() -> None:
        for _ in range(per_call):
            read(*next(forever))

    return loop_of(call)
