"""zarr through fsspec: an object for each chunk, or for many."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import zarr
from peers.data import Spec
from peers.with_zarr import Zarr
from zarr.codecs import BloscCodec
from zarr.storage import FsspecStore

from remote.contender import SHARDED, WORK, ZARR, Chunkwise

# Chunks of a shard.
_NSHARDED = 32


class Plain(Chunkwise):
    """Format 3 with its defaults."""

    name = ZARR
    note = (
        "format 3, an object for each chunk, without checksums, the default; `FsspecStore`, told "
        "that it is format 3, which saves asking for format 2; rows at random are asked for as "
        "they are stored, which is faster"
    )
    works = WORK

    def version(self) -> str:
        """Return names and versions."""
        return f"zarr {zarr.__version__} with fsspec {fsspec.__version__}"

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        """Create an array and assign to it."""
        path = folder / "array.zarr"
        Zarr().write(path, array, spec)
        return path

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        """Open; there is nothing to close."""
        store = FsspecStore.from_url(url, storage_options=options, read_only=True)
        yield zarr.open_array(store, mode="r", zarr_format=3)

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        """Index by a list that ascends, and put the rows into their order."""
        found: np.ndarray = array.oindex[sorted(rows)]
        return found[np.argsort(np.argsort(rows))]


class Sharded(Plain):
    """The same with shards."""

    name = SHARDED
    note = f"the same with {_NSHARDED} chunks in an object, a shard"

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        """Create an array and assign to it."""
        path = folder / "sharded.zarr"
        stored = zarr.create_array(
            str(path),
            shape=array.shape,
            dtype=array.dtype,
            chunks=(spec.chunk_rows, *array.shape[1:]),
            shards=(_NSHARDED * spec.chunk_rows, *array.shape[1:]),
            compressors=[BloscCodec(cname=spec.codec, clevel=spec.clevel, shuffle="shuffle")],
        )
        stored[:] = array
        return path
