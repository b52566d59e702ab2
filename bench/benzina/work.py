"""The kinds of work: loading, an index, single samples, packing, and sizes."""

from typing import Any

from races import Case, size_of

from benzina.contender import LOAD, OPEN, PACK, PARSE, SAMPLE, TARGETS
from benzina.race import Bench

_PER_CALL = 16
SIZES = "sizes"
REFERENCE = "dataset, profile reference"


def race_loading(bench: Bench) -> None:
    """Load batches on one thread and on more."""
    side = bench.setting.shape
    nbytes = 3 * 4 * side**2
    for nthreads in bench.setting.threads:
        title = f"{nthreads} thread{'s' * (nthreads > 1)}"
        case = Case(f"load/{nthreads}", title, nbytes)
        bench.race(case, LOAD, bench.setting.nsamples, nthreads)


def race_index(bench: Bench) -> None:
    """Open a large index."""
    count = f"{bench.setting.nindexed:,} samples"
    nbytes = bench.index["moov_nbytes"]
    bench.race(Case("index/tables", f"all tables of {count}", nbytes), OPEN, 1)
    bench.race(Case("index/targets", f"all targets of {count}", 0), TARGETS, 1)


def race_samples(bench: Bench) -> None:
    """Parse samples, and read them at random."""
    bench.race(Case("sample/parse", "parsed, in memory", 0), PARSE, _PER_CALL)
    bench.race(Case("sample/bytes", "its bytes, one at random", 0), SAMPLE, _PER_CALL)


def race_packing(bench: Bench) -> None:
    """Pack pictures on all processors."""
    count = bench.setting.npacked
    bench.race(Case("pack", f"{count} pictures", 0), PACK, count)
    for path in bench.memory_folder.iterdir():
        path.unlink()


def measure_sizes(bench: Bench) -> None:
    """Find the bytes of all pictures in each form, and how much of them is left."""
    bench.say("sizes of files")
    sizes: dict[str, Any] = {}
    for name, path in (("dataset", bench.once), (REFERENCE, bench.pack("reference"))):
        sizes[name] = {"nbytes": size_of(path), "psnr": bench.psnr_of(path)}
    sizes["the coded pictures alone"] = {"nbytes": sum(bench.payload_sizes)}
    _ = bench.jpegs
    found = bench.found["jpeg"]
    sizes[f"JPEG files, quality {found['quality']}"] = found
    bench.found[SIZES] = sizes
