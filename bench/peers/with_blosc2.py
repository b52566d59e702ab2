"""python-blosc2: an NDArray in one contiguous file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import blosc2
import numpy as np

from peers.contenders import Append, Contender, DataExtent
from peers.data import Spec


class Blosc2(Contender):
    """A b2nd file with the given chunks, and blocks of its own choice."""

    name = "blosc2"
    note = "blocks of its own choice; it has no checksums"
    libraries = "blosc2 {blosc2}"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
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
        before = blosc2.set_nthreads(nthreads or blosc2.nthreads)
        try:
            return blosc2.open(str(path), mode="r")[:]
        finally:
            blosc2.set_nthreads(before)

    @contextmanager
    def open(self, path: Path) -> Iterator[Any]:
        yield blosc2.open(str(path), mode="r")  # closed with the last reference

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
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
