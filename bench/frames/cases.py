"""Cases: clips and single frames read at random, and the sizes of files."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from race.quality import psnr
from race.races import Benchmark, Case, Races, file_system, random_places, remove, size_of

from frames.codecs import race_codecs
from frames.contenders import (
    BARE_JPEG,
    BATCH,
    CLIP,
    EPISODES,
    SINGLE,
    STORES,
    TABLE,
    Contender,
)
from frames.data import SETTINGS, Clip, jpeg_pixels, load_clips, make_depth_and_masks
from frames.episodes import measure_episodes
from frames.ingesting import race_ingest
from frames.loading import measure_loading
from frames.opening import measure_opening
from frames.video import decode_mp4, encode_mp4, jpeg_nbytes

BARE = "bare decoding of "
JPEG_420 = "JPEG 4:2:0 of the PSNR of the video"
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
        about = super().about(libraries)
        about["files"] = f"{file_system(self.folder)}, in the page cache"
        nrounds, nepochs = self.setting.nrounds, self.setting.nepochs
        about["rounds"] = f"{nrounds}; 5 of ingest and of opening, {nepochs} of loaders"
        return about

    def keepers(self) -> list[Contender]:
        """Return the contenders that keep clips, and not episodes only."""
        return [one for one in self.contenders if one.works != (EPISODES,)]

    def write(self, contender: Contender, clip: Clip) -> Path:
        """Return the file or folder of a contender with a clip, written once."""
        path = self.folder / f"{contender.files or contender.name}, {clip.name}"
        if not path.exists():
            contender.write(path, self.ids, clip.frames)
        return path

    def save_wanted(self, clip: Clip) -> dict[str, Path]:
        """Return files with the frames of a clip as contenders return them, by `pixels`."""
        found = {"frames": clip.frames, "jpeg": jpeg_pixels(clip.frames)}
        if any(one.pixels == "video" for one in self.contenders):
            found["video"] = decode_mp4(encode_mp4(clip.frames))
        wanted = {pixels: self.folder / f"{pixels}.npy" for pixels in found}
        for pixels, path in wanted.items():
            np.save(path, found[pixels])
        return wanted

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
    qualities = races.found.setdefault("psnr", {})
    for clip in races.clips:
        wanted = races.save_wanted(clip)
        for contender in races.keepers():
            races.write(contender, clip)
        name, nclips = clip.name, races.setting.batch
        _race(races, CLIP, f"{races.setting.window} frames", clip, wanted)
        _race(races, SINGLE, "one frame", clip, wanted)
        _race(races, BATCH, f"{nclips} clips", clip, wanted, nclips)
        qualities[name] = {
            pixels: psnr(np.load(path), clip.frames)
            for pixels, path in wanted.items()
            if pixels != "frames"
        }
        sizes[name] = _measure_sizes(races, clip, qualities[name].get("video"))
        races.forget(clip)


def _measure_sizes(races: Clips, clip: Clip, quality: float | None) -> dict[str, float]:
    """Return bytes per frame, of the whole files, by contender."""
    nframes = races.setting.nclips * len(clip.frames)
    sizes = {"raw": float(clip.frames[0].nbytes)}
    measured = set()
    for contender in races.keepers():
        path = races.write(contender, clip)
        if contender.name != BARE_JPEG and path not in measured:  # several read the same files
            sizes[contender.name] = size_of(path) / nframes
            measured.add(path)
    if quality is not None and (nbytes := jpeg_nbytes(clip.frames, quality)) is not None:
        sizes[JPEG_420] = nbytes
    return sizes


def _race(
    races: Clips, work: str, what: str, clip: Clip, wanted: dict[str, Path], batch: int = 0
) -> None:
    """Read clips, single frames or batches of clips at random; frames of our stores also bare."""
    is_single = work == SINGLE
    places = races.places() if is_single else races.windows()
    per_call = _PER_CALL if is_single else 1
    loops = {}
    for one in races.contenders:
        if work not in one.works:
            continue
        for is_bare in (False, True) if is_single and one.name in STORES else (False,):
            loops[BARE * is_bare + one.name] = races.worker(one.name, is_bare).prepare(
                path=races.write(one, clip),
                wanted=wanted[one.pixels],
                places=places,
                per_call=per_call,
                bare=is_bare,
                batch=batch,
            )
    case = Case(f"{work}/{clip.name}", f"{clip.name}, {what}", clip.frames[0].nbytes)
    races.hold(case, loops, per_call if is_single else races.setting.window * max(batch, 1))


BENCHMARK = Benchmark(
    Clips,
    {
        "clips": race_clips,
        "codecs": race_codecs,
        "opening": measure_opening,
        "ingest": race_ingest,
        "loading": measure_loading,
        "episodes": measure_episodes,
    },
    SETTINGS,
)
