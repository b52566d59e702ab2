"""The bytes alone: what is read when nothing is made of them."""

import os
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import numpy as np
from races import require

from benzina.contender import BYTES, OPEN, SAMPLE, Call, Task


class Bytes:
    """numpy.fromfile and os.pread, told where to read."""

    name = BYTES
    note = (
        "`numpy.fromfile` of the same bytes, and `os.pread` of a sample that is known where it is"
    )
    works = (OPEN, SAMPLE)

    def version(self) -> str:
        """Return name and version."""
        return f"numpy {np.__version__}"

    def open(self, task: Task, stack: ExitStack) -> Call:
        """Return reading the moov."""

        def call() -> np.ndarray:
            return np.fromfile(task["path"], "u1", task["moov_nbytes"], offset=task["moov_offset"])

        found = call()
        require(len(found) == task["moov_nbytes"], self.name, "the size of the moov")
        require(found[4:8].tobytes() == b"moov", self.name, "the type of the moov")
        return call

    def sample(self, task: Task, stack: ExitStack) -> Call:
        """Return reading samples at random."""
        stream = stack.enter_context(Path(task["path"]).open("rb"))  # noqa: SIM115 - on the stack
        descriptor, extents = stream.fileno(), task["extents"]
        for index, (offset, nbytes) in enumerate(extents):
            found = os.pread(descriptor, nbytes, offset)
            require(found[4:8] == b"ftyp" and len(found) == nbytes, self.name, f"sample {index}")
        places, per_call = cycle(task["places"]), task["per_call"]

        def call() -> None:
            for _ in range(per_call):
                offset, nbytes = extents[next(places)]
                os.pread(descriptor, nbytes, offset)

        return call
