"""bloscpack: this package."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from peers.contender import Append, DataExtent
from peers.data import Spec

_CRC32_SIZE = 4


class Ours:
    """A file of `bloscpack.save`, every chunk's checksum compared."""

    name = "bloscpack"
    note = "crc32 of every chunk, checked; save and append end with fsync"
    can_append = hasattr(bp.Array, "append")
    can_grow = hasattr(bp, "Writer")
    is_parallel = True
    is_variant = False

    def version(self) -> str:
        """Return name and version."""
        return f"bloscpack {bp.__version__}"

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Save."""
        bp.save(path, array, **_options(spec))

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        """Load."""
        return bp.load(path, nthreads=nthreads)

    def open(self, path: Path) -> AbstractContextManager[Any]:
        """Open with `verify=True`, the default."""
        return bp.open(path)

    @contextmanager
    def appender(self, path: Path) -> Iterator[Append]:
        """Open in mode "a"; closing commits."""
        with bp.open(path, "a") as array:
            yield array.append

    @contextmanager
    def writer(self, path: Path, row: np.ndarray, spec: Spec) -> Iterator[Append]:
        """Write through `bloscpack.Writer`."""
        with bp.Writer(path, dtype=row.dtype, shape=(None, *row.shape), **_options(spec)) as writer:
            yield writer.append

    def data_extents(self, path: Path) -> list[DataExtent]:
        """Return the chunks with their digests."""
        return [
            DataExtent(path, offset, offset + cbytes + _CRC32_SIZE)
            for offset, cbytes in chunk_places(path)
        ]

    def read_past_damage(self, path: Path) -> np.ndarray | None:
        """Return what `on_error="fill"` gives of a damaged file; None if there is no such thing."""
        if "on_error" not in signature(bp.load).parameters:
            return None
        return bp.load(path, on_error="fill", fill_value=np.nan)

    def recover(self, source: Path, target: Path) -> np.ndarray | None:
        """Return the array of the file that `bloscpack.recover` makes; None without it."""
        if not hasattr(bp, "recover"):
            return None
        bp.recover(source, target)
        return bp.load(target)


def _options(spec: Spec) -> dict[str, Any]:
    return {
        "chunks": spec.chunk_rows,
        "codec": spec.codec,
        "clevel": spec.clevel,
        "shuffle": "byte",
    }


def chunk_places(path: Path) -> list[tuple[int, int]]:
    """Return position and stored bytes of every chunk, without its digest."""
    places = []
    with bp.open(path) as array, path.open("rb") as stream:
        for index in range(array.nchunks):
            offset = array.chunk_offset(index)
            stream.seek(offset + 12)  # in the Blosc header
            places.append((offset, int.from_bytes(stream.read(4), "little")))
    return places


def stored_chunks(path: Path) -> list[bytes]:
    """Return the Blosc chunks of a file."""
    content = memoryview(path.read_bytes())
    return [bytes(content[offset : offset + cbytes]) for offset, cbytes in chunk_places(path)]
