"""python-blosc2: an NDArray in one contiguous file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import blosc2
import numpy as np

from peers.contender import Append, DataExtent, GrowingFile
from peers.data import Spec


class Blosc2(GrowingFile):
    """A b2nd file with the chunks that are asked for and the blocks that it chooses."""

    name = "blosc2"
    note = "blocks of its own choice; it has no checksums"
    can_append = True
    can_grow = True
    is_parallel = True
    is_variant = False

    def version(self) -> str:
        """Return name and version."""
        return f"blosc2 {blosc2.__version__}"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Write with `asarray`."""
        blosc2.asarray(
            array,
            chunks=(spec.chunk_rows, *array.shape[1:]),
            urlpath=str(path),
            mode="w",
            cparams=blosc2.CParams(
                codec=blosc2.Codec[spec.codec.upper()],
                clevel=spec.clevel,
                filters=[blosc2.Filter.SHUFFLE],
                nthreads=blosc2.nthreads,
            ),
        )

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Read."""
        before = blosc2.set_nthreads(nthreads or blosc2.nthreads)
        try:
            return blosc2.open(str(path), mode="r")[:]
        finally:
            blosc2.set_nthreads(before)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        """Open; the file is closed with the last reference."""
        yield blosc2.open(str(path), mode="r")

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        """Open in mode "a"; resize and assign."""
        array = blosc2.open(str(path), mode="a")

        def append(rows: np.ndarray) -> None:
            length = array.shape[0]
            array.resize((length + len(rows), *array.shape[1:]))
            array[length:] = rows

        yield append

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the chunks: they follow the header of the frame (c-blosc2, frame.h)."""
        with path.open("rb") as stream:
            head = stream.read(64)
        header_len = int.from_bytes(head[11:15], "big")
        cbytes = int.from_bytes(head[39:47], "big")
        return [DataExtent(path, header_len, header_len + cbytes)]
