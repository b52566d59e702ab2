"""zarr through fsspec: an object for each chunk, or for many."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from peers.data import Spec
from peers.with_zarr import Zarr, create
from zarr.storage import FsspecStore

from remote.contenders import SHARDED, ZARR, Contender

_NSHARDED = 32  # chunks of a shard


class Plain(Contender):
    """Format 3 with its defaults."""

    name = ZARR
    note = (
        "format 3, an object for each chunk, without checksums, the default; `FsspecStore`, opened "
        "as format 3, which saves asking for format 2; rows at random are asked for as they are "
        "stored, which is faster"
    )
    libraries = "zarr {zarr} with fsspec {fsspec}"

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "array.zarr"
        Zarr().write(path, array, spec)
        return path

    @contextmanager
    def open(self, url: str, options: dict[str, Any]) -> Iterator[Any]:
        store = FsspecStore.from_url(url, storage_options=options, read_only=True)
        yield zarr.open_array(store, mode="r", zarr_format=3)

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        found: np.ndarray = array.oindex[sorted(rows)]
        return found[np.argsort(np.argsort(rows))]


class Sharded(Plain):
    """Format 3 with shards."""

    name = SHARDED
    note = f"the same with {_NSHARDED} chunks in an object, a shard"

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        path = folder / "sharded.zarr"
        shards = (_NSHARDED * spec.chunk_rows, *array.shape[1:])
        create(path, array, spec, shards=shards)[:] = array
        return path
