"""Cases: loading, an index, single samples, packing, and sizes."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from race.quality import psnr
from race.races import Benchmark, Case, Races, Task, random_places, size_of

from benzina.contenders import LOAD, OPEN, PACK, PARSE, SAMPLE, TABLE
from benzina.data import ABOUT, SETTINGS, make_pictures
from benzina.index import write_index
from benzina.with_pillow import write_files
from bloscpack import benzina
from bloscpack.benzina.mp4.format import THUMB
from bloscpack.parallel.threads import available_cpus

_SEED = 11
_PER_CALL = 16
SIZES = "sizes"
REFERENCE = "dataset, profile reference"


class Pictures(Races):
    """Races over datasets of the same pictures.

    Attributes
    ----------
    pictures : list of ndarray
        The pictures that are packed, uint8 (H, W, 3).
    """

    folder_name, table = "benzina", TABLE

    def make_data(self) -> None:
        self.pictures, absent = make_pictures(self.setting)
        self.absent |= absent
        self._wanted = self.folder / "wanted.npz"
        np.savez(self._wanted, *self.pictures)

    def about(self) -> dict[str, str]:
        setting = self.setting
        sizes = ", ".join(f"{width} x {height}" for height, width in setting.sizes)
        texts = (text for name, text in ABOUT.items() if name not in self.absent)
        pictures = f"{setting.npictures} of {sizes}; {'; '.join(texts)}"
        return super().about() | {"pictures": pictures}

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
        """The bytes of each picture as coded by H.265, without headers."""
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
        """A folder with a JPEG file for each sample, of at least the PSNR of the dataset."""
        wanted = self.psnr_of(self.once)
        self.say("finding the quality of JPEG")
        folder = self.folder / "jpegs"
        self.found["jpeg"] = write_files(folder, self.pictures, wanted, self.setting.nsamples)
        return folder

    def psnr_of(self, path: Path) -> float:
        """Return the PSNR of the pictures in a dataset, in dB."""
        with benzina.open(path) as dataset:
            return psnr(self.pictures, [sample.decode() for sample in dataset.samples()])

    @cached_property
    def index(self) -> dict[str, Any]:
        """The place of the large index; see `write_index`."""
        self.say("writing a large index")
        with benzina.open(self.once) as dataset:
            return write_index(self.folder, self.setting.nindexed, dataset[0].data)

    @cached_property
    def _places(self) -> dict[str, Any]:
        """Places of the samples in the dataset, and of thumbnails in their samples."""
        with benzina.open(self.dataset) as dataset:
            samples = list(dataset.samples())
        thumbs = [sample.layout.tracks[THUMB] for sample in samples]
        return {
            "extents": [(sample.location, sample.size) for sample in samples],
            "thumbs": [(one.offset, one.nbytes) for one in thumbs],
            "places": random_places(_SEED, len(samples))[0],
            "per_call": _PER_CALL,
        }

    def task(self, work: str, nthreads: int) -> Task:
        """Return a task of a contender.

        All tasks have `work`, `wanted`, a ``.npz`` file with the pictures, and `nthreads`. Loading
        adds ``path`` and ``jpegs``, the dataset and the folder, and of the setting ``nsamples``,
        ``shape`` and ``batch``. Packing adds ``new``, the file to write, of the setting
        ``npacked``, ``tile`` and ``crf``, and ``payload_nbytes``, the coded bytes to expect.
        Opening adds the values of `write_index`; single samples ``path`` and those of `_places`.
        """
        setting = self.setting
        task: Task = {"work": work, "wanted": str(self._wanted), "nthreads": nthreads}
        if work == OPEN:
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
        """Race all contenders that do a kind of work; by default on all processors."""
        task = self.task(work, nthreads or available_cpus())
        self.hold_work(case, work, lambda one: task, per_call)


def race_loading(races: Pictures) -> None:
    """Load batches on one thread and on more."""
    nbytes = 3 * 4 * races.setting.shape**2
    for nthreads in races.setting.threads:
        title = f"{nthreads} thread{'s' * (nthreads > 1)}"
        case = Case(f"load/{nthreads}", title, nbytes)
        races.race(case, LOAD, races.setting.nsamples, nthreads)


def race_index(races: Pictures) -> None:
    """Open a large index."""
    count = f"{races.setting.nindexed:,} samples"
    nbytes = races.index["moov_nbytes"]
    races.race(Case("index/tables", f"all tables of {count}", nbytes), OPEN, 1)


def race_samples(races: Pictures) -> None:
    """Parse samples, and read them at random."""
    races.race(Case("sample/parse", "parsed, in memory", 0), PARSE, _PER_CALL)
    races.race(Case("sample/bytes", "its bytes, one at random", 0), SAMPLE, _PER_CALL)


def race_packing(races: Pictures) -> None:
    """Pack pictures on all processors."""
    count = races.setting.npacked
    races.race(Case("pack", f"{count} pictures", 0), PACK, count)
    for path in races.memory_folder.iterdir():
        path.unlink()


def measure_sizes(races: Pictures) -> None:
    """Find bytes and PSNR of all pictures in each form."""
    races.say("sizes of files")
    sizes: dict[str, Any] = {}
    for name, path in (("dataset", races.once), (REFERENCE, races.pack("reference"))):
        sizes[name] = {"nbytes": size_of(path), "psnr": races.psnr_of(path)}
    sizes["the coded pictures alone"] = {"nbytes": sum(races.payload_sizes)}
    _ = races.jpegs
    found = races.found["jpeg"]
    sizes[f"JPEG files, quality {found['quality']}"] = found
    races.found[SIZES] = sizes


BENCHMARK = Benchmark(
    Pictures,
    {
        "loading": race_loading,
        "index": race_index,
        "samples": race_samples,
        "packing": race_packing,
        "sizes": measure_sizes,
    },
    SETTINGS,
)
