"""Arrays written and read by Dask, beside zarr on the same blocks: how fast are they.

Blocks of the same rows, made of chunks of the same rows, are written from memory and read back by
the same scheduler: threads of one process, or a cluster of processes. Codec, level and filter are
the same. bloscpack writes one file, with checksums, and syncs it; zarr a file for each chunk,
without checksums unless told, and syncs nothing. Results are compared before anything is timed.

From bench/: ``python dask_blocks.py``; with ``--quick`` on less data, with ``--json FILE`` for the
figures. It needs zarr and distributed (``pip install '.[dask,peers]'``).
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import zarr
from harness import NTHREADS, Timing, loop_of, signal, take_turns
from zarr.codecs import BloscCodec, Crc32cCodec

import bloscpack as bp
from bloscpack.integrations.dask import from_bloscpack, save

ROW_NBYTES = 4096
CHUNK_NBYTES, BLOCK_NBYTES = 1 << 20, 16 << 20
CODECS = {"zstd": 3, "lz4": 5}
SCHEDULERS = ("threads", "2 processes")
NROUNDS = 7


@dataclass(frozen=True)
class Contender:
    """Who takes part: how it writes a Dask array to a path, and reads one by blocks of rows."""

    name: str
    write: Callable[[Any, Path, str], object]
    read: Callable[[Path, int], Any]


def write_ours(x: Any, path: Path, codec: str) -> object:
    """Save with our defaults."""
    chunk_rows = CHUNK_NBYTES // ROW_NBYTES
    return save(x, path, chunks=chunk_rows, codec=codec, clevel=CODECS[codec])


def read_ours(path: Path, rows: int) -> Any:
    """Read by blocks of that many rows."""
    return from_bloscpack(path, rows * ROW_NBYTES)


def write_zarr(x: Any, path: Path, codec: str, *more: Any) -> object:
    """Store to an array of format 3."""
    stored = zarr.create_array(
        str(path),
        shape=x.shape,
        dtype=x.dtype,
        chunks=(CHUNK_NBYTES // ROW_NBYTES, x.shape[1]),
        compressors=[BloscCodec(cname=codec, clevel=CODECS[codec], shuffle="shuffle"), *more],
        overwrite=True,
    )
    return x.to_zarr(stored)


def read_zarr(path: Path, rows: int) -> Any:
    """Read by blocks of that many rows."""
    return da.from_zarr(str(path), chunks=(rows, -1))


CONTENDERS = (
    Contender("bloscpack", write_ours, read_ours),
    Contender("zarr", write_zarr, read_zarr),
    Contender("zarr, crc32c", lambda x, path, codec: write_zarr(x, path, codec, Crc32cCodec()),
              read_zarr),
)  # fmt: skip


def ends_of(x: Any) -> Any:
    """Return the last item of each block: all of it is read, and hardly anything is returned."""
    return x.map_blocks(lambda rows: rows[-1:, -1:], chunks=((1,) * x.numblocks[0], (1,)))


def race(source: Path, codec: str, where: str, nrounds: int) -> Iterator[Any]:
    """Yield (title, {name: timing}) of writing and of reading."""
    rows, folder = BLOCK_NBYTES // ROW_NBYTES, source.parent
    array = np.load(source, mmap_mode="r")
    # Blocks are pages of a file in memory: they cost next to nothing, and none of them travels.
    x = da.map_blocks(
        mapped,
        str(source),
        chunks=((rows,) * (len(array) // rows), (array.shape[1],)),
        dtype=array.dtype,
        meta=np.empty((0, 0), array.dtype),
    )
    for one in CONTENDERS:
        path = folder / one.name
        one.write(x, path, codec)
        if not np.array_equal(one.read(path, rows).compute(), x.compute()):
            raise ValueError(f"{one.name} gives other values")
    writes = {one.name: loop_of(lambda one=one: one.write(x, folder / one.name, codec))
              for one in CONTENDERS}  # fmt: skip
    yield f"write, {codec}, {where}", take_turns(writes, nrounds=nrounds)
    reads = {one.name: loop_of(lambda one=one: ends_of(one.read(folder / one.name, rows)).compute())
             for one in CONTENDERS}  # fmt: skip
    yield f"read, {codec}, {where}", take_turns(reads, nrounds=nrounds)
    for one in CONTENDERS:
        path = folder / one.name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def mapped(source: str, block_info: Any = None) -> Any:
    """Return a block of the file."""
    start, stop = block_info[None]["array-location"][0]
    return np.load(source, mmap_mode="r")[start:stop]


@contextmanager
def scheduler(where: str) -> Iterator[None]:
    """Have Dask use threads, or a cluster of two processes, inside of the block."""
    if where == "threads":
        with dask.config.set(scheduler="threads", num_workers=NTHREADS):
            yield
        return
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield


def main() -> int:
    """Run all races and print them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="little data, few rounds")
    parser.add_argument("--on", choices=SCHEDULERS, action="append", help="may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    options = parser.parse_args()
    nbytes, nrounds = (32 << 20, 1) if options.quick else (256 << 20, NROUNDS)
    found: dict[str, Any] = {}
    print(f"{platform.machine()}, {NTHREADS} threads; bloscpack {bp.__version__}, "
          f"zarr {zarr.__version__}, dask {dask.__version__}, numpy {np.__version__}; "
          f"{nbytes >> 20} MiB of float32 in chunks of 1 MiB, blocks of 16 MiB")  # fmt: skip
    print(f"{'MB/s of decoded bytes, median':32}", *(f"{one.name:>14}" for one in CONTENDERS),
          f"{'ours / zarr':>12}")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="blp-dask-") as folder:
        source = Path(folder) / "source.npy"
        np.save(source, signal(nbytes, "f4").reshape(-1, ROW_NBYTES // 4))
        for where in options.on or SCHEDULERS:
            with scheduler(where):
                for codec in CODECS:
                    for title, timings in race(source, codec, where, nrounds):
                        found[title] = {name: t.seconds for name, t in timings.items()}
                        print(line_of(title, timings, nbytes), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"nbytes": nbytes, "seconds": found}))
    return 0


def line_of(title: str, timings: dict[str, Timing], nbytes: int) -> str:
    """Return the line of the table for one race."""
    speeds = [nbytes / 1e6 / timings[one.name].median for one in CONTENDERS]
    ratio = speeds[0] / speeds[1]
    return " ".join([f"{title:32}", *(f"{speed:14.0f}" for speed in speeds), f"{ratio:12.2f}"])


if __name__ == "__main__":
    sys.exit(main())
