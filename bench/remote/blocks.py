"""Arrays written and read by Dask, beside zarr on the same blocks.

Blocks of the same rows, made of chunks of the same rows, are written from memory and read back by
the same scheduler: threads of one process, or a cluster of processes. Codec, level and filter are
the same. Results are compared before anything is timed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import distributed
import numpy as np
from peers.data import Spec
from peers.formats import Zarr
from race.races import Case, Races, remove, require
from race.timing import NTHREADS, loop_of

from bloscpack.integrations.dask import from_bloscpack, save
from remote.contenders import OURS, ZARR

ROW_NBYTES = 4096
LEVELS = {"zstd": 3, "lz4": 5}


class Blocks(NamedTuple):
    """How a library writes a Dask array to a path, and reads one by blocks of rows."""

    write: Callable[[Any, Path, Spec], object]
    read: Callable[[Path, int], Any]
    note: str


def _write_ours(x: Any, path: Path, spec: Spec) -> object:
    return save(x, path, chunks=spec.chunk_rows, codec=spec.codec, clevel=spec.clevel)


def _read_ours(path: Path, rows: int) -> Any:
    return from_bloscpack(path, rows * ROW_NBYTES)


def _write_zarr(x: Any, path: Path, spec: Spec, is_variant: bool = False) -> object:
    return x.to_zarr(Zarr(is_variant=is_variant).create(path, x, spec, overwrite=True))


def _read_zarr(path: Path, rows: int) -> Any:
    return da.from_zarr(str(path), chunks=(rows, -1))


CONTENDERS = {
    OURS: Blocks(
        _write_ours,
        _read_ours,
        "`integrations.dask.save` and `from_bloscpack`: one file, its checksums made and "
        "compared; writing ends with fsync",
    ),
    ZARR: Blocks(
        _write_zarr,
        _read_zarr,
        "`to_zarr` and `from_zarr`: a file for each chunk, without checksums, the default; "
        "nothing is synced",
    ),
    "zarr, crc32c": Blocks(
        partial(_write_zarr, is_variant=True), _read_zarr, "the same with its crc32c codec"
    ),
}


def race(races: Races, source: Path, codec: str, where: str) -> None:
    """Race at writing and at reading.

    `source` is a ``.npy`` file, float32 in rows of `ROW_NBYTES`; `where` is the label of the
    scheduler in use.
    """
    setting, folder = races.setting, source.parent
    rows, chunk_rows = setting.block_nbytes // ROW_NBYTES, setting.dask_chunk_nbytes // ROW_NBYTES
    spec = Spec(codec, LEVELS[codec], chunk_rows, f"{chunk_rows} rows")
    x, nbytes = _blocks(source, rows), setting.dask_nbytes
    writes, reads = {}, {}
    for name, one in CONTENDERS.items():
        path = folder / name
        one.write(x, path, spec)
        is_equal = np.array_equal(one.read(path, rows).compute(), np.load(source, mmap_mode="r"))
        require(is_equal, name, "the array that Dask reads")
        writes[name] = loop_of(lambda one=one, path=path: one.write(x, path, spec))
        reads[name] = loop_of(lambda one=one, path=path: _ends_of(one.read(path, rows)))
    for what, loops in (("write", writes), ("read", reads)):
        case = Case(f"dask/{what}/{codec}/{where}", f"{what}, {codec}, {where}", nbytes)
        races.hold(case, loops, 1, setting.ndask_rounds)
    for name in CONTENDERS:
        remove(folder / name)


def _blocks(source: Path, rows: int) -> Any:
    """Return the array as blocks of rows, mapped pages of a file, so that no block is sent."""
    array = np.load(source, mmap_mode="r")
    return da.map_blocks(
        _mapped,
        str(source),
        chunks=((rows,) * (len(array) // rows), (array.shape[1],)),
        dtype=array.dtype,
        meta=np.empty((0, 0), array.dtype),
    )


def _mapped(source: str, block_info: Any = None) -> Any:
    start, stop = block_info[None]["array-location"][0]
    return np.load(source, mmap_mode="r")[start:stop]


def _ends_of(x: Any) -> Any:
    """Compute the last item of each block: the whole block is read, one item is returned."""
    ends = x.map_blocks(lambda rows: rows[-1:, -1:], chunks=((1,) * x.numblocks[0], (1,)))
    return ends.compute()


@contextmanager
def scheduler(where: str) -> Iterator[None]:
    """Make Dask use threads, or a cluster of two processes, inside the block."""
    if where == "threads":
        with dask.config.set(scheduler="threads", num_workers=NTHREADS):
            yield
        return
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        yield
