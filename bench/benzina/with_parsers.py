"""Samples parsed by others: the plain twin of our kernel, and the parser of Benzina's authors."""

import platform
import runpy
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any

from races import require

from benzina.contender import PARSE, PARSER, TWIN, Call, Task
from bloscpack import benzina
from bloscpack.benzina.mp4.format import THUMB

_TWIN = Path(__file__).resolve().parents[2] / "tests" / "reference" / "benzina_sample.py"
# What finds the bytes of the thumbnail in a sample.
Find = Callable[[bytes], tuple[int, int]]


class Twin:
    """Our kernel in plain Python, as the tests have it."""

    name = TWIN
    note = "the twin of our kernel that the tests compare it with"
    works = (PARSE,)

    def __init__(self) -> None:
        self._parse = runpy.run_path(str(_TWIN))["parse_sample"]

    def version(self) -> str:
        """Return name and version."""
        return f"Python {platform.python_version()}"

    def parse(self, task: Task, stack: ExitStack) -> Call:
        """Return parsing samples that are in memory."""

        def find(data: bytes) -> tuple[int, int]:
            *_, tracks = self._parse(data)
            offset, nbytes = tracks[THUMB][3:5]
            return offset, nbytes

        return _parsing(find, task, self.name)


class Parser:
    """All boxes as objects, and the extent of the thumbnail found in them."""

    name = PARSER
    note = (
        "the parser of Benzina's authors: all boxes as objects, and the place of the thumbnail; of "
        "Benzina's own reader, which does not install, 80 us were measured"
    )
    works = (PARSE,)

    def __init__(self) -> None:
        import bitstring
        import pybenzinaparse
        from pybenzinaparse import utils

        self._open: Any = bitstring.ConstBitStream
        self._boxes: Any = pybenzinaparse.Parser.parse
        self._location: Any = utils.get_trak_sample_location

    def version(self) -> str:
        """Return name and version."""
        return f"pybenzinaparse {version('pybenzinaparse')}"

    def parse(self, task: Task, stack: ExitStack) -> Call:
        """Return parsing samples that are in memory."""

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
    datas, per_call = cycle(samples), task["per_call"]

    def call() -> None:
        for _ in range(per_call):
            find(next(datas))

    return call
