"""Plain reads of the same bytes, the twin of our kernel, and the parser of Benzina's authors."""

import os
import platform
import runpy
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from race.races import Contender, Task, require
from race.timing import Call, cycling

from benzina.contenders import OPEN, PARSE, SAMPLE
from bloscpack import benzina
from bloscpack.benzina.mp4.format import THUMB

_TWIN = Path(__file__).resolve().parents[2] / "tests" / "reference" / "benzina_sample.py"
Find = Callable[[bytes], tuple[int, int]]
"""Finds the bytes of the thumbnail in a sample."""


class Bytes(Contender):
    """numpy.fromfile and os.pread at known places."""

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


class Twin(Contender):
    """Our kernel in plain Python, from the tests."""

    note = "the twin of our kernel that the tests compare it with"
    works = (PARSE,)

    def __init__(self) -> None:
        self._parse = runpy.run_path(str(_TWIN))["parse_sample"]

    def version(self) -> str:
        return f"Python {platform.python_version()}"

    def parse(self, task: Task, stack: ExitStack) -> Call:
        def find(data: bytes) -> tuple[int, int]:
            *_, tracks = self._parse(data)
            offset, nbytes = tracks[THUMB][3:5]
            return offset, nbytes

        return _parsing(find, task, self.name)


class Parser(Contender):
    """All boxes as objects, and the extent of the thumbnail found in them."""

    note = (
        "the parser of Benzina's authors: all boxes as objects, and the place of the thumbnail; of "
        "Benzina's own reader, which does not install, 80 us were measured"
    )
    libraries = "pybenzinaparse {pybenzinaparse}"
    works = (PARSE,)

    def __init__(self) -> None:
        import bitstring
        import pybenzinaparse
        from pybenzinaparse import utils

        self._open: Any = bitstring.ConstBitStream
        self._boxes: Any = pybenzinaparse.Parser.parse
        self._location: Any = utils.get_trak_sample_location

    def parse(self, task: Task, stack: ExitStack) -> Call:
        def find(data: bytes) -> tuple[int, int]:
            stream = self._open(data)
            for box in self._boxes(stream):
                box.load(stream)
                if box.header.type == b"moov":
                    offset, nbytes = self._location(box.boxes, [THUMB.encode() + b"\0"], 0)
                    return offset, nbytes
            return 0, 0

        return _parsing(find, task, self.name)


def _parsing(find: Find, task: Task, who: str) -> Call:
    with benzina.open(task["path"]) as dataset:
        samples = [sample.data for sample in dataset.samples()]
    for index, data in enumerate(samples):
        require(find(data) == tuple(task["thumbs"][index]), who, f"sample {index}")
    return cycling(find, samples, task["per_call"])
