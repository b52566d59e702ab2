"""Plain reads of the same bytes, and the parser of Benzina's authors."""

import os
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import numpy as np
from race.races import Contender, Task, require
from race.timing import Call, cycling

from benzina.contenders import OPEN, PARSE, SAMPLE
from bloscpack import benzina
from bloscpack.benzina.mp4.format import THUMB


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


class Parser(Contender):
    note = (
        "the parser of Benzina's authors: all boxes as objects, and the place of the thumbnail; of "
        "Benzina's own reader, which does not install, 80 us were measured"
    )
    libraries = "pybenzinaparse {pybenzinaparse}"
    works = (PARSE,)

    modules = ("bitstring", "pybenzinaparse", "pybenzinaparse.utils")

    def parse(self, task: Task, stack: ExitStack) -> Call:
        """Find the bytes of the thumbnail in samples."""
        parse = import_module("pybenzinaparse").Parser.parse
        locate = import_module("pybenzinaparse.utils").get_trak_sample_location

        def find(data: bytes) -> tuple[int, int]:
            stream = self.lib.ConstBitStream(data)
            for box in parse(stream):
                box.load(stream)
                if box.header.type == b"moov":
                    offset, nbytes = locate(box.boxes, [THUMB.encode() + b"\0"], 0)
                    return offset, nbytes
            return 0, 0

        with benzina.open(task["path"]) as dataset:
            samples = [sample.data for sample in dataset.samples()]
        for index, data in enumerate(samples):
            require(find(data) == tuple(task["thumbs"][index]), self.name, f"sample {index}")
        return cycling(find, samples, task["per_call"])
