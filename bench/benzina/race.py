"""One run: its contenders, the files they read, and the races held so far."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from process import Worker
from races import Case, Races, assemble

from benzina import jpeg
from benzina.contender import BARE_ONE, LOAD, OPEN, PACK, TABLE, TARGETS, Contender, Task
from benzina.data import Setting, make_pictures
from benzina.index import write_index
from bloscpack import benzina
from bloscpack.benzina.mp4.format import THUMB
from bloscpack.parallel.threads import available_cpus

_SEED = 11
_NREADS = 499  # reads before the same ones come again; a prime number
_PER_CALL = 16


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

    Attributes
    ----------
    pictures : list of ndarray
        What is packed, uint8 (H, W, 3).
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
        self.pictures, absent = make_pictures(setting)
        self.absent |= absent
        self._wanted = folder / "wanted.npz"
        np.savez(self._wanted, *self.pictures)
        self._workers: dict[str, Worker] = {}

    @cached_property
    def once(self) -> Path:
        """The dataset that has every picture once."""
        self.say("packing the pictures")
        return self.pack("default")

    def pack(self, profile: Any) -> Path:
        """Return a new dataset of the pictures."""
        path = self.folder / f"{profile}.bzna"
        items = [(picture, number) for number, picture in enumerate(self.pictures)]
        options = {"crf": self.setting.crf, "profile": profile}
        if profile == "default":
            options["tile"] = self.setting.tile
        benzina.pack(items, path, **options)
        return path

    @cached_property
    def payload_sizes(self) -> list[int]:
        """The bytes of each picture, as coded by H.265, without anything about it."""
        with benzina.open(self.once) as dataset:
            return [sample.layout.tracks[THUMB].nbytes for sample in dataset.samples()]

    @cached_property
    def dataset(self) -> Path:
        """The dataset that is loaded: each picture several times, its target its ordinal."""
        path = self.folder / "loaded.bzna"
        with benzina.open(self.once) as source, benzina.Writer(path) as writer:
            samples = [sample.data for sample in source.samples()]
            for number in range(self.setting.nsamples):
                writer.add_encoded(samples[number % len(samples)], number)
        return path

    @cached_property
    def jpegs(self) -> Path:
        """The folder of as many JPEG files, of no less PSNR than the dataset."""
        wanted = self.psnr_of(self.once)
        self.say("finding the quality of JPEG")
        quality = jpeg.find_quality(self.pictures, wanted)
        coded = [jpeg.encode(picture, quality) for picture in self.pictures]
        folder = self.folder / "jpegs"
        folder.mkdir()
        for number in range(self.setting.nsamples):
            jpeg.path_of(folder, number).write_bytes(coded[number % len(coded)])
        self.found["jpeg"] = {
            "quality": quality,
            "nbytes": sum(map(len, coded)),
            "psnr": jpeg.psnr(self.pictures, list(map(jpeg.decode, coded))),
        }
        return folder

    def psnr_of(self, path: Path) -> float:
        """Return what is left of the pictures in a dataset, in dB."""
        with benzina.open(path) as dataset:
            return jpeg.psnr(self.pictures, [sample.decode() for sample in dataset.samples()])

    @cached_property
    def index(self) -> dict[str, Any]:
        """Where the large index is; see `write_index`."""
        self.say("writing a large index")
        with benzina.open(self.once) as dataset:
            return write_index(self.folder, self.setting.nindexed, dataset[0].data)

    @cached_property
    def _places(self) -> dict[str, Any]:
        """Where the samples of the dataset are, and their thumbnails in them."""
        rng = np.random.default_rng(_SEED)
        with benzina.open(self.dataset) as dataset:
            samples = list(dataset.samples())
        thumbs = [sample.layout.tracks[THUMB] for sample in samples]
        return {
            "extents": [(sample.location, sample.size) for sample in samples],
            "thumbs": [(one.offset, one.nbytes) for one in thumbs],
            "places": rng.integers(0, len(samples), _NREADS).tolist(),
            "per_call": _PER_CALL,
        }

    def task(self, work: str, nthreads: int) -> Task:
        """Return what a contender is told.

        Always there are `work`, `wanted`, a ``.npz`` file with the pictures, and `nthreads`. Beside
        these, for loading, ``path`` and ``jpegs``, the dataset and the folder, and of the setting
        ``nsamples``, ``shape`` and ``batch``; for packing ``new``, the file to write, and of the
        setting ``npacked``, ``tile`` and ``crf``, and ``payload_nbytes``, how large all that comes
        out is; for opening, what `write_index` returns; for
        single samples, ``path``, and what `_places` has.
        """
        setting = self.setting
        task: Task = {"work": work, "wanted": str(self._wanted), "nthreads": nthreads}
        if work in (OPEN, TARGETS):
            return task | self.index
        if work == PACK:
            task |= {"new": str(self.memory_folder / "new.bzna"), "npacked": setting.npacked}
            task["payload_nbytes"] = sum(self.payload_sizes[: setting.npacked])
            return task | {"tile": setting.tile, "crf": setting.crf}
        task["path"] = str(self.dataset)
        if work != LOAD:
            return task | self._places
        task |= {"jpegs": str(self.jpegs), "nsamples": setting.nsamples}
        return task | {"shape": setting.shape, "batch": setting.batch}

    def race(self, case: Case, work: str, per_call: int, nthreads: int | None = None) -> None:
        """Let all who do a kind of work take turns.

        Parameters
        ----------
        case : Case
            Without results.
        work : str
            One of `contender.WORK`.
        per_call : int
            How many things are done in a call.
        nthreads : int, optional
            How many do it; by default as many as there are processors.
        """
        nthreads = nthreads or available_cpus()
        loops = {}
        for one in self.contenders:
            # One thread is no different from one in each of one.
            if work in one.works and not (one.name == BARE_ONE and nthreads == 1):
                loops[one.name] = self._worker(one).prepare(**self.task(work, nthreads))
        self.hold(case, loops, per_call, self.setting.nrounds)

    def _worker(self, contender: Contender) -> Worker:
        name = contender.name
        if name not in self._workers:
            self._workers[name] = worker = Worker("benzina.worker", name)
            self.closing.callback(worker.close)
        return self._workers[name]
