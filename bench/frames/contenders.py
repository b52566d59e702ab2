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
batch
    How many of these one read of a batch takes, else 0.

A task with a ``method`` is one of a loader, see loading.py; with ``ncameras``, see episodes.py.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from race import races
from race.races import Task, require, require_equal
from race.timing import Loop, cycling, loop_of

Frames = np.ndarray | Sequence[np.ndarray]
ReadClip = Callable[[str, slice], Frames]
ReadBatch = Callable[[list[tuple[str, slice]]], Frames]

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
STORE_RAW = "bloscpack, raw"
STORE_VIDEO = "bloscpack, video"
STORES = (STORE_JPEG, STORE_FAST, STORE_SMALL)
PYAV = "H.264, PyAV"
TORCHCODEC = "H.264, torchcodec"
LITDATA_JPEG = "litdata, JPEG"
LANCE_JPEG = "Lance, JPEG"
HDF5_RAW = "h5py, raw"
MEMMAP = "numpy.memmap"

GOP, CRF = 8, 18  # of video
# Kinds of work.
CLIP, SINGLE, BATCH, LOADING, EPISODES = "clip", "single", "batch", "loading", "episodes"


def _store(kind: str, note: str, *works: str, nthreads: int | None = None) -> tuple[str, Any]:
    """Return the entry of a frame store; without a note, of the one above on one thread."""
    note = note and f"frame store, {note}, checksums compared; all processors"
    note = note or "the same on one thread"
    options = {"kind": kind, "note": note, "works": works, "nthreads": nthreads}
    return "frames.with_bloscpack:Store", options


_RAW = "preset raw, all frames read and verified before"
_VIDEO = f"a clip as H.264 by x264, crf {CRF}, preset fast, groups of {GOP} frames, 4:2:0"
_HDF5, _LITDATA = "frames.formats:Hdf5", "frames.formats:LitData"
TABLE = {
    GULPIO2: "frames.formats:GulpIO2",
    GULPIO2_STACKED: "frames.formats:GulpIO2Stacked",
    BARE_JPEG: "frames.with_bloscpack:BareJpeg",
    GULP_SOURCE: "frames.with_bloscpack:Gulp",
    STORE_JPEG: _store("jpeg", "the same JPEG bytes", CLIP, SINGLE, LOADING, EPISODES),
    STORE_FAST: _store("fast", "lossless, preset fast", CLIP, SINGLE, BATCH, LOADING, EPISODES),
    STORE_FAST + ONE_THREAD: _store("fast", "", CLIP, nthreads=1),
    STORE_SMALL: _store("small", "lossless, preset small", CLIP, SINGLE, LOADING),
    STORE_SMALL + ONE_THREAD: _store("small", "", CLIP, nthreads=1),
    STORE_RAW: _store("raw", _RAW, CLIP, SINGLE, BATCH, LOADING),
    STORE_VIDEO: _store("video", _VIDEO, CLIP, LOADING, EPISODES),
    STORE_VIDEO + ONE_THREAD: _store("video", "", CLIP, SINGLE, nthreads=1),
    TORCHCODEC: "frames.video:TorchCodec",
    PYAV: "frames.video:PyAv",
    MEMMAP: "frames.formats:MemoryMap",
    "webdataset, JPEG": "frames.formats:WebDataset",
    PNG: "frames.formats:PngFiles",
    FFV1: "frames.video:Ffv1",
    "h5py, Blosc lz4": _HDF5,
    "h5py, Blosc zstd": (
        _HDF5,
        {"codec": ("zstd", 1), "works": (CLIP,), "note": "the same with level 1 of Zstandard"},
    ),
    "litdata, raw": (_LITDATA, {"works": (CLIP, SINGLE, LOADING)}),
    LITDATA_JPEG: (
        _LITDATA,
        {"pixels": "jpeg", "works": (CLIP, LOADING), "note": "the same of the JPEG images"},
    ),
    LANCE_JPEG: "frames.formats:Lance",
    HDF5_RAW: (_HDF5, {"works": (EPISODES,), "note": "for episodes only: no compression"}),
}
_NCHECKED = 20
_TOLERANCE = 2.0  # mean difference of the pixels of video, of 255
_ITEMS_PER_CHUNK = 100  # the default of GulpIO2


class Contender(races.Contender):
    """A way to keep clips of frames.

    Attributes
    ----------
    files : str
        Contenders with the same value read the same files; by default those of its name.
    pixels : str
        Result of a read: the "frames", the pixels of "jpeg" images or those of "video".
    """

    works: tuple[str, ...] = (CLIP,)
    files = ""
    pixels = "frames"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write a clip of these frames under each id, to a new path."""
        raise NotImplementedError

    def open(self, path: Path) -> AbstractContextManager[ReadClip]:
        """Open for reading; the value is a function that reads frames of a clip."""
        raise NotImplementedError

    @contextmanager
    def open_batch(self, path: Path) -> Iterator[ReadBatch]:
        """Open for reading; the value is a function that reads frames of clips, stacked."""
        with self.open(path) as read:
            yield lambda requests: np.stack([read(*request) for request in requests])


class ClipFiles(Contender):
    """A file, or a folder, for each clip."""

    suffix = ""

    def encode(self, frames: np.ndarray) -> Any:
        """Return what is written for each id; by default the frames."""
        return frames

    def write_clip(self, path: Path, coded: Any) -> None:
        """Write what `encode` returned; by default bytes."""
        path.write_bytes(coded)

    def open_clip(self, path: Path) -> Any:
        """Return what `read_clip` gets, kept for all reads; by default the path."""
        return path

    def read_clip(self, clip: Any, selection: slice) -> Frames:
        """Return frames of a clip; by default by indexing it."""
        return clip[selection]

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        path.mkdir()
        coded = self.encode(frames)
        for key in ids:
            self.write_clip(path / f"{key}{self.suffix}", coded)

    def open_clips(self, path: Path) -> dict[str, Any]:
        """Open all clips of a folder."""
        return {
            each.name.removesuffix(self.suffix): self.open_clip(each) for each in path.iterdir()
        }

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        clips = self.open_clips(path)
        yield lambda key, selection: self.read_clip(clips[key], selection)


class GulpClips(Contender):
    """A Gulp directory, written by `lib`: GulpIO2, or our module of its names."""

    files = "gulp"
    pixels = "jpeg"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        path.mkdir()
        starts = range(0, len(ids), _ITEMS_PER_CHUNK)
        chunks = self.lib.GulpDirectory(str(path)).new_chunks(len(starts))
        for start, chunk in zip(starts, chunks, strict=True):
            with chunk.open("wb"):
                for key in ids[start : start + _ITEMS_PER_CHUNK]:
                    chunk.append(key, {"label": key}, list(frames))


def prepare(contender: Contender, task: Task, stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking its result."""
    if "ncameras" in task:
        from frames.episodes import prepare_episodes

        return prepare_episodes(contender, task)
    if "method" in task:
        from frames.loading import prepare_loader

        return prepare_loader(contender, task, stack)
    # Mapped, so that this process has never had an array of this size.
    wanted = np.load(task["wanted"], mmap_mode="r")
    places = [_place(contender, *place) for place in task["places"]]
    path, per_call = Path(task["path"]), task["per_call"]
    if nclips := task["batch"]:
        read_batch = stack.enter_context(contender.open_batch(path))
        batches = [places[k : k + nclips] for k in range(0, len(places) - nclips + 1, nclips)]
        for frames, (key, which) in zip(read_batch(batches[0]), batches[0], strict=True):
            check(contender, frames, wanted[which], f"{key}, frames {which} of a batch")
        return loop_of(cycling(read_batch, batches, per_call))
    if task["bare"]:
        from frames.bare import bare_frames

        read: Any = bare_frames(path)
    else:
        read = stack.enter_context(contender.open(path))
    for key, which in places[:_NCHECKED]:
        found = read(key, which)
        if isinstance(which, int):
            found, which = [found], slice(which, which + 1)
        check(contender, found, wanted[which], f"{key}, frames {which}")
    return loop_of(cycling(lambda place: read(*place), places, per_call))


def _place(contender: Contender, key: str, *which: int) -> tuple[str, Any]:
    if len(which) > 1:
        return key, slice(*which)
    if contender.name.startswith("bloscpack"):  # an int picks a frame
        return key, which[0]
    return key, slice(which[0], which[0] + 1)


def check(contender: Contender, found: Frames, wanted: np.ndarray, what: str) -> None:
    """Stop the run unless frames are those that were stored; of video, within its tolerance."""
    if contender.pixels == "video":
        require(is_near(found, wanted), contender.name, what)
    else:
        require_equal(found, wanted, contender.name, what)


def is_near(found: Frames, wanted: np.ndarray) -> bool:
    """Return whether each frame is that of another decoder: they round and scale chroma freely."""
    return len(found) == len(wanted) and all(
        one.shape == two.shape and np.abs(one.astype(np.int16) - two).mean() <= _TOLERANCE
        for one, two in zip(found, wanted, strict=True)
    )
