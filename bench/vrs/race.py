"""One run: its contenders, the files they wrote, and the races held so far."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from process import Worker
from races import Case, Races, assemble

from vrs.contender import TABLE, Contender
from vrs.data import Setting, make_frames, make_motion
from vrs.with_bloscpack import Ours

_SEED = 11
_NREADS = 499  # reads before the same ones come again; a prime number
MOTION, FRAMES = "motion", "frames"


class Bench(Races):
    """What all work shares.

    Parameters
    ----------
    setting : Setting
        How much to do.
    folder : Path
        Empty; takes the files that are read.
    memory_folder : Path
        Empty; takes the files that are written and timed, best on a file system in memory.
    names : list of str
        The contenders.
    say : callable
        Takes a line on the progress.
    """

    def __init__(
        self,
        setting: Setting,
        folder: Path,
        memory_folder: Path,
        names: list[str],
        say: Callable[[str], object],
    ) -> None:
        super().__init__(setting, *assemble(TABLE, names), say)
        self.folder = folder
        self.memory_folder = memory_folder
        self.stored = {MOTION: make_motion(setting), FRAMES: make_frames(setting)}
        for what, values in self.stored.items():
            np.save(self.wanted(what), values)
        self._workers: dict[str, Worker] = {}

    def wanted(self, what: str) -> Path:
        """Return where the motion or the frames lie as an array."""
        return self.folder / f"{what}.npy"

    def write(self, contender: Contender, what: str, preset: str = "none") -> Path:
        """Return the file that a contender reads, made once: a recording by us for all of VRS."""
        path = self.folder / f"{what}, {preset}.{contender.files}"
        if not path.exists():
            writer = Ours() if contender.files == Ours.files else contender
            values = self.stored[what]
            if what == MOTION:
                writer.motion_writer(values, preset)(path)
            else:
                writer.frames_writer(values, preset)(path)
        return path

    def places(self, what: str) -> list[int]:
        """Return records to read at random, the same for every call."""
        rng = np.random.default_rng(_SEED)
        found: list[int] = rng.integers(0, len(self.stored[what]), _NREADS).tolist()
        return found

    def read(self, case: Case, work: str, what: str, preset: str = "none") -> None:
        """Race all who do a kind of reading.

        Parameters
        ----------
        case : Case
            Without results.
        work : str
            One of `contender.READING`.
        what, preset : str
            Motion or frames, and how frames are compressed.
        """
        is_single = work in ("record", "frame")
        count = {"open": 1, "record": 16, "frame": 16}.get(work, len(self.stored[what]))
        loops = {}
        for one in self.contenders:
            if work in one.works:
                loops[one.name] = self._worker(one).prepare(
                    work=work,
                    path=str(self.write(one, what, preset)),
                    wanted=str(self.wanted(what)),
                    places=self.places(what) if is_single else [],
                    per_call=count,
                )
        self._race(case, loops, count)

    def time_writing(self, case: Case, work: str, what: str, preset: str = "none") -> None:
        """Race all who do a kind of writing, to files in memory."""
        loops = {}
        for one in self.contenders:
            if work in one.works:
                loops[one.name] = self._worker(one).prepare(
                    work=work,
                    path=str(self.memory_folder / f"{work}, {preset}.{one.files}"),
                    wanted=str(self.wanted(what)),
                    preset=preset,
                )
        self._race(case, loops, len(self.stored[what]))
        for path in self.memory_folder.iterdir():
            path.unlink()

    def _worker(self, contender: Contender) -> Worker:
        name = contender.name
        if name not in self._workers:
            self._workers[name] = worker = Worker("vrs.worker", name)
            self.closing.callback(worker.close)
        return self._workers[name]

    def _race(self, case: Case, loops: dict[str, Any], per_call: int) -> None:
        """Let all run in turns and keep the result: seconds for each of what a call does."""
        self.hold(case, loops, per_call, self.setting.nrounds)
