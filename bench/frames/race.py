"""One run: its clips, its contenders, the files they wrote, and the races held so far."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Loop
from process import Worker
from races import Case, Races, assemble, remove, require

from frames.contender import TABLE, Contender, Frames
from frames.data import Clip, Setting, load_clips, make_depth_and_masks
from frames.with_bloscpack import encode_frames

_SEED = 11
_NREADS = 499  # reads before the same ones come again; a prime number


class Bench(Races):
    """What all work shares.

    Parameters
    ----------
    setting : Setting
        How much to do.
    folder : Path
        Empty; takes the files.
    names : list of str
        The contenders.
    say : callable
        Takes a line on the progress.
    """

    def __init__(
        self, setting: Setting, folder: Path, names: list[str], say: Callable[[str], object]
    ) -> None:
        super().__init__(setting, *assemble(TABLE, names), say)
        self.folder = folder
        self.clips, absent = load_clips(setting)
        self.absent.update(absent)
        self.other_clips = make_depth_and_masks(setting)
        self.ids = [f"clip {number:03d}" for number in range(setting.nclips)]
        self.span = (setting.window - 1) * setting.stride + 1
        self._readers: dict[tuple[str, bool], Worker] = {}

    def has(self, name: str) -> bool:
        """Return whether a contender takes part."""
        return any(one.name == name for one in self.contenders)

    def write(self, contender: Contender, clip: Clip) -> Path:
        """Return the file or folder that a contender wrote of a clip, made once."""
        path = self.folder / f"{contender.files}, {clip.name}"
        if not path.exists():
            contender.write(path, self.ids, clip.frames)
        return path

    def forget(self, clip: Clip) -> None:
        """Remove all that was written of a clip."""
        for path in self.folder.glob(f"*, {clip.name}"):
            remove(path)

    def windows(self) -> list[tuple[str, int, int, int]]:
        """Return ids and slices to read at random, the same for every call."""
        rng = np.random.default_rng(_SEED)
        setting = self.setting
        starts = rng.integers(0, setting.nframes - self.span + 1, _NREADS).tolist()
        numbers = rng.integers(0, setting.nclips, _NREADS).tolist()
        return [
            (self.ids[number], start, start + self.span, setting.stride)
            for number, start in zip(numbers, starts, strict=True)
        ]

    def places(self) -> list[tuple[str, int]]:
        """Return ids and single frames to read at random, the same for every call."""
        rng = np.random.default_rng(_SEED + 1)
        numbers = rng.integers(0, self.setting.nclips, _NREADS).tolist()
        frames = rng.integers(0, self.setting.nframes, _NREADS).tolist()
        return [(self.ids[n], frame) for n, frame in zip(numbers, frames, strict=True)]

    def reader(self, name: str, *, bare: bool = False) -> Worker:
        """Return the process of a contender, or one of its bare decoding."""
        if (name, bare) not in self._readers:
            self._readers[name, bare] = reader = Worker("frames.reader_worker", name)
            self.closing.callback(reader.close)
        return self._readers[name, bare]

    def race(self, case: Case, loops: dict[str, Loop], per_call: int = 1) -> None:
        """Let all run in turns and keep the result.

        Parameters
        ----------
        case : Case
            Without results.
        loops : dict of str to Loop
            What is timed, by the name of who does it; its result was checked before.
        per_call : int
            How many of the things that are timed a call does.
        """
        self.hold(case, loops, per_call, self.setting.nrounds)


def jpeg_pixels(frames: np.ndarray) -> np.ndarray:
    """Return frames as they come back from GulpIO2: lossy, decoded fast."""
    import simplejpeg

    return np.stack(
        [
            simplejpeg.decode_jpeg(data, fastdct=True, fastupsample=True)
            for data in encode_frames(frames)
        ]
    )


def require_frames(found: Frames, wanted: np.ndarray, who: str, what: str) -> None:
    """Fail the run unless frames, in an array or a list, are those wanted."""
    require(
        len(found) == len(wanted)
        and all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True)),
        who,
        what,
    )
