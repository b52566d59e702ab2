"""Who takes part: one interface for every way to keep clips, a module for each library.

A contender that is not installed is not an error: `assemble` says why it is missing, and the
tables repeat it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import numpy as np

Frames = np.ndarray | Sequence[np.ndarray]
ReadClip = Callable[[str, slice], Frames]

GULPIO2 = "GulpIO2"
GULPIO2_STACKED = "GulpIO2 and np.stack"
PNG = "PNG files, cv2"
FFV1 = "FFV1, PyAV"
ONE_THREAD = ", 1 thread"
GULP_SOURCE = "bloscpack, Gulp directory"
BARE_JPEG = "bare JPEG decoding"
STORE_JPEG = "bloscpack, JPEG"
STORE_FAST = "bloscpack, fast"
STORE_SMALL = "bloscpack, small"

# Module and class of each, in the order of the tables.
TABLE = {
    GULPIO2: ("frames.with_gulpio2", "GulpIO2"),
    GULPIO2_STACKED: ("frames.with_gulpio2", "GulpIO2Stacked"),
    BARE_JPEG: ("frames.with_simplejpeg", "BareJpeg"),
    f"{BARE_JPEG}{ONE_THREAD}": ("frames.with_simplejpeg", "BareJpegOneThread"),
    GULP_SOURCE: ("frames.with_bloscpack", "Gulp"),
    f"{GULP_SOURCE}{ONE_THREAD}": ("frames.with_bloscpack", "GulpOneThread"),
    "bloscpack.gulp.GulpDirectory": ("frames.with_bloscpack", "GulpDirectory"),
    STORE_JPEG: ("frames.with_bloscpack", "StoreJpeg"),
    f"{STORE_JPEG}{ONE_THREAD}": ("frames.with_bloscpack", "StoreJpegOneThread"),
    STORE_FAST: ("frames.with_bloscpack", "StoreFast"),
    f"{STORE_FAST}{ONE_THREAD}": ("frames.with_bloscpack", "StoreFastOneThread"),
    STORE_SMALL: ("frames.with_bloscpack", "StoreSmall"),
    f"{STORE_SMALL}{ONE_THREAD}": ("frames.with_bloscpack", "StoreSmallOneThread"),
    "webdataset, JPEG": ("frames.with_webdataset", "WebDataset"),
    PNG: ("frames.with_png", "PngFiles"),
    FFV1: ("frames.with_ffv1", "Ffv1"),
    "h5py, Blosc lz4": ("frames.with_h5py", "Hdf5Lz4"),
    "h5py, Blosc zstd": ("frames.with_h5py", "Hdf5Zstd"),
}
OURS = tuple(name for name in TABLE if name.startswith("bloscpack"))


class Contender(Protocol):
    """A way to keep clips of frames and the library that reads and writes it.

    Attributes
    ----------
    name : str
        As in the tables.
    note : str
        What it keeps and how it reads, for the page.
    files : str
        Contenders of one such name read the same files.
    is_lossy : bool
        Whether frames come back as the pixels of the JPEG images they became.
    """

    name: str
    note: str
    files: str
    is_lossy: bool

    def version(self) -> str:
        """Return name and version of the library."""
        ...

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write a clip of these frames under each id; nothing is at `path`."""
        ...

    def open(self, path: Path) -> AbstractContextManager[ReadClip]:
        """Open for reading; gives the function that reads frames of a clip."""
        ...
