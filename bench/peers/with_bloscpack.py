"""Our own files."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from peers.contenders import Append, Contender, DataExtent
from peers.data import Spec

_CRC32_SIZE = 4


class Ours(Contender):
    """A file of `bloscpack.save`, every chunk's checksum compared."""

    name = "bloscpack"
    note = "crc32 of every chunk, checked; save and append end with fsync"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        bp.save(path, array, **_options(spec))

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        return bp.load(path, nthreads=nthreads)

    def open(self, path: Path) -> AbstractContextManager[Any]:
        return bp.open(path)  # verify=True is the default

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        with bp.open(path, "a") as array:  # closing commits
            yield array.append

    @contextmanager
    def writer(self, path: Path, row: np.ndarray, spec: Spec) -> Iterator[Append]:
        with bp.Writer(path, dtype=row.dtype, shape=(None, *row.shape), **_options(spec)) as writer:
            yield writer.append

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the chunks with their digests."""
        return [
            DataExtent(path, offset, offset + cbytes + _CRC32_SIZE)
            for offset, cbytes in chunk_places(path)
        ]


def _options(spec: Spec) -> dict[str, Any]:
    return {
        "chunks": spec.chunk_rows,
        "codec": spec.codec,
        "clevel": spec.clevel,
        "shuffle": "byte",
    }


def chunk_places(path: Path) -> list[tuple[int, int]]:
    """Return position and stored bytes of every chunk, without its digest."""
    with bp.open(path) as array, path.open("rb") as stream:
        return [stored_place(stream, array.chunk_offset(index)) for index in range(array.nchunks)]


def stored_place(stream: Any, offset: int) -> tuple[int, int]:
    """Return position and stored bytes of the chunk at `offset`, from its Blosc header."""
    stream.seek(offset + 12)
    return offset, int.from_bytes(stream.read(4), "little")


def stored_chunks(path: Path) -> list[bytes]:
    """Return the Blosc chunks of a file."""
    content = memoryview(path.read_bytes())
    return [bytes(content[offset : offset + cbytes]) for offset, cbytes in chunk_places(path)]
