"""Cases: clips and single frames read at random, and the sizes of files."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from race.page import surroundings
from race.races import Benchmark, Case, Races, file_system, random_places, remove, size_of

from frames.codecs import race_codecs
from frames.contenders import (
    BARE_JPEG,
    GULPIO2,
    HDF5_LZ4,
    MEMMAP,
    ONE_THREAD,
    PNG,
    STORE_FAST,
    STORE_JPEG,
    STORE_RAW,
    STORE_SMALL,
    TABLE,
    Contender,
)
from frames.data import FULL, QUICK, Clip, jpeg_pixels, load_clips, make_depth_and_masks
from frames.ingesting import race_ingest
from frames.loading import measure_loading
from frames.opening import measure_opening

BARE = "bare decoding of "
STORES = (STORE_JPEG, STORE_FAST, STORE_SMALL)
_SINGLES = (GULPIO2, *STORES, STORE_RAW, MEMMAP, PNG, HDF5_LZ4)
_PER_CALL = 16
_SEED = 11
_LIBRARIES = ("simplejpeg", "pillow", "torch")


class Clips(Races):
    """Races over the same clips.

    Attributes
    ----------
    clips, other_clips : list of Clip
        Clips of colour frames, and of depth and masks.
    ids : list of str
        Names under which everyone keeps each clip.
    """

    folder_name, table = "frames", TABLE

    def make_data(self) -> None:
        setting = self.setting
        self.clips, absent = load_clips(setting)
        self.absent.update(absent)
        self.other_clips = make_depth_and_masks(setting)
        self.ids = [f"clip {number:03d}" for number in range(setting.nclips)]
        self.found["clips"] = {one.name: one.about for one in (*self.clips, *self.other_clips)}

    def about(self) -> dict[str, str]:
        libraries = []
        for name in _LIBRARIES:
            try:
                libraries.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                continue
        about = surroundings(self, libraries)
        about["files"] = f"{file_system(self.folder)}, in the page cache"
        nrounds, nepochs = self.setting.nrounds, self.setting.nepochs
        about["rounds"] = f"{nrounds}; 5 of ingest and of opening, {nepochs} of loaders"
        return about

    def write(self, contender: Contender, clip: Clip) -> Path:
        """Return the file or folder of a contender with a clip, written once."""
        path = self.folder / f"{contender.files}, {clip.name}"
        if not path.exists():
            contender.write(path, self.ids, clip.frames)
        return path

    def forget(self, clip: Clip) -> None:
        """Remove all files of a clip."""
        for path in self.folder.glob(f"*, {clip.name}"):
            remove(path)

    def windows(self) -> list[tuple[str, int, int, int]]:
        """Return ids and slices to read at random, the same for every call."""
        setting = self.setting
        span = (setting.window - 1) * setting.stride + 1
        starts, numbers = random_places(_SEED, setting.nframes - span + 1, setting.nclips)
        return [
            (self.ids[number], start, start + span, setting.stride)
            for number, start in zip(numbers, starts, strict=True)
        ]

    def places(self) -> list[tuple[str, int]]:
        """Return ids and single frames to read at random, the same for every call."""
        counts = (self.setting.nclips, self.setting.nframes)
        numbers, frames = random_places(_SEED + 1, *counts)
        return [(self.ids[n], frame) for n, frame in zip(numbers, frames, strict=True)]


def race_clips(races: Clips) -> None:
    """Read frames of each clip with every contender."""
    sizes = races.found.setdefault("sizes", {})
    for clip in races.clips:
        wanted = {False: races.folder / "frames.npy", True: races.folder / "pixels.npy"}
        np.save(wanted[False], clip.frames)
        np.save(wanted[True], jpeg_pixels(clip.frames))
        for contender in races.contenders:
            races.write(contender, clip)
        _race_windows(races, clip, wanted)
        _race_singles(races, clip, wanted)
        sizes[clip.name] = _measure_sizes(races, clip)
        races.forget(clip)


def _measure_sizes(races: Clips, clip: Clip) -> dict[str, float]:
    """Return bytes per frame, of the whole files, by contender."""
    nframes = races.setting.nclips * len(clip.frames)
    sizes = {"raw": float(clip.frames[0].nbytes)}
    for contender in races.contenders:
        if contender.name != BARE_JPEG and not contender.name.endswith(ONE_THREAD):
            sizes[contender.name] = size_of(races.write(contender, clip)) / nframes
    return sizes


def _race_windows(races: Clips, clip: Clip, wanted: dict[bool, Path]) -> None:
    """Read many frames with a stride, of a clip at random."""
    nframes = races.setting.window
    loops = {
        one.name: races.worker(one.name, False).prepare(
            path=str(races.write(one, clip)),
            wanted=str(wanted[one.is_lossy]),
            places=races.windows(),
            per_call=1,
            bare=False,
        )
        for one in races.contenders
    }
    case = Case(f"clip/{clip.name}", f"{clip.name}, {nframes} frames", clip.frames[0].nbytes)
    races.hold(case, loops, nframes)


def _race_singles(races: Clips, clip: Clip, wanted: dict[bool, Path]) -> None:
    """Read a frame at random, beside decoding the same chunks in memory."""
    loops = {}
    for one in races.contenders:
        if one.name not in _SINGLES:
            continue
        for bare in (False, True) if one.name in STORES else (False,):
            loops[BARE * bare + one.name] = races.worker(one.name, bare).prepare(
                path=str(races.write(one, clip)),
                wanted=str(wanted[one.is_lossy]),
                places=races.places(),
                per_call=_PER_CALL,
                bare=bare,
            )
    case = Case(f"single/{clip.name}", f"{clip.name}, one frame", clip.frames[0].nbytes)
    races.hold(case, loops, _PER_CALL)


BENCHMARK = Benchmark(
    Clips,
    {
        "clips": race_clips,
        "codecs": race_codecs,
        "opening": measure_opening,
        "ingest": race_ingest,
        "loading": measure_loading,
    },
    FULL,
    QUICK,
)
