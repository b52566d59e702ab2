"""Our datasets, and plain reads of the same bytes."""

import os
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from race.races import Contender, Task, exhaust, require
from race.timing import Call, cycling

from benzina.checks import read_wanted, require_batches, require_pictures
from benzina.contenders import LOAD, OPEN, PACK, PARSE, SAMPLE
from benzina.data import DEVIATION, MEAN
from bloscpack import benzina
from bloscpack.benzina.mp4.format import THUMB
from bloscpack.benzina.transforms import CenterResizedCrop, RandomResizedCrop

_BIAS = tuple(255 * value for value in MEAN)
_NORM = tuple(1 / (255 * value) for value in DEVIATION)


class Ours(Contender):
    """The loader, the dataset and `pack`."""

    note = (
        "`benzina.Loader` with torchvision's random crop and flip, bias and norm; `benzina.open`; "
        "`benzina.parse_sample`; `benzina.pack` of arrays in memory"
    )
    works = (LOAD, OPEN, SAMPLE, PARSE, PACK)

    def load(self, task: Task, stack: ExitStack) -> Call:
        dataset = stack.enter_context(benzina.open(task["path"]))
        middles = _loader(dataset, task, is_random=False)
        require_batches(middles, task, self.name)
        loader = _loader(dataset, task, is_random=True)
        return lambda: exhaust(loader)

    def open(self, task: Task, stack: ExitStack) -> Call:
        def call() -> dict[str, tuple[np.ndarray, np.ndarray]]:
            with benzina.open(task["path"]) as dataset:
                return {name: (one.offsets, one.sizes) for name, one in dataset.tracks.items()}

        tables = call()
        with np.load(task["tables"]) as wanted:
            for name, (offsets, sizes) in tables.items():
                is_equal = np.array_equal(wanted[f"{name} offsets"], offsets)
                require(is_equal, self.name, f"the table of offsets of {name}")
                is_equal = np.array_equal(wanted[f"{name} sizes"], sizes)
                require(is_equal, self.name, f"the table of sizes of {name}")
            require(2 * len(tables) == len(wanted.files), self.name, "the number of tracks")
        return call

    def sample(self, task: Task, stack: ExitStack) -> Call:
        dataset = stack.enter_context(benzina.open(task["path"]))
        with Path(task["path"]).open("rb") as stream:
            for index, (offset, nbytes) in enumerate(task["extents"]):
                wanted = os.pread(stream.fileno(), nbytes, offset)
                require(dataset[index].data == wanted, self.name, f"sample {index}")
        return cycling(lambda place: dataset[place].data, task["places"], task["per_call"])

    def parse(self, task: Task, stack: ExitStack) -> Call:
        with benzina.open(task["path"]) as dataset:
            samples = [sample.data for sample in dataset.samples()]
        wanted = [tuple(values) for values in task["thumbs"]]
        for index, data in enumerate(samples):
            found = benzina.parse_sample(data).tracks[THUMB]
            require((found.offset, found.nbytes) == wanted[index], self.name, f"sample {index}")
        return cycling(benzina.parse_sample, samples, task["per_call"])

    def pack(self, task: Task, stack: ExitStack) -> Call:
        items = [(picture, number) for number, picture in enumerate(read_wanted(task))]
        items, path = items[: task["npacked"]], task["new"]

        def call() -> None:
            benzina.pack(
                items,
                path,
                crf=task["crf"],
                tile=task["tile"],
                nthreads=task["nthreads"],
                overwrite=True,
            )

        call()
        with benzina.open(path) as dataset:
            pictures = (sample.decode() for sample in dataset.samples())
            require_pictures(pictures, task, self.name, len(items))
        return call


def _loader(dataset: benzina.Dataset, task: Task, *, is_random: bool) -> benzina.Loader:
    middle = CenterResizedCrop()
    return benzina.Loader(
        dataset,
        task["shape"],
        task["batch"],
        shuffle=is_random,
        seed=1,
        warp=RandomResizedCrop(flip_h=0.5, uniform_area=True) if is_random else middle,
        bias=_BIAS,
        norm=_NORM,
        threads=task["nthreads"],
    )


class Bytes(Contender):
    note = "`numpy.fromfile` of the same bytes, and `os.pread` of a sample whose place is known"
    libraries = "numpy {numpy}"
    works = (OPEN, SAMPLE)

    def open(self, task: Task, stack: ExitStack) -> Call:
        def call() -> np.ndarray:
            return np.fromfile(task["path"], "u1", task["moov_nbytes"], offset=task["moov_offset"])

        found = call()
        require(len(found) == task["moov_nbytes"], self.name, "the size of the moov")
        require(found[4:8].tobytes() == b"moov", self.name, "the type of the moov")
        return call

    def sample(self, task: Task, stack: ExitStack) -> Call:
        stream = stack.enter_context(Path(task["path"]).open("rb"))  # noqa: SIM115 - on the stack
        descriptor, extents = stream.fileno(), task["extents"]
        for index, (offset, nbytes) in enumerate(extents):
            found = os.pread(descriptor, nbytes, offset)
            require(found[4:8] == b"ftyp" and len(found) == nbytes, self.name, f"sample {index}")

        def read(place: int) -> bytes:
            offset, nbytes = extents[place]
            return os.pread(descriptor, nbytes, offset)

        return cycling(read, task["places"], task["per_call"])
