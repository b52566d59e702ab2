"""What a run was made of: machine, versions, parameters, file systems."""

import racepage
from harness import ORIGINAL
from races import file_system

from peers.data import GENERATOR, SPECS, Spec
from peers.race import Bench
from peers.with_bloscpack import Ours, chunk_places


def surroundings(bench: Bench) -> dict[str, str]:
    """Return what the page says above the figures, by name."""
    versions = None if bench.original is None else bench.original.versions
    about = racepage.surroundings(bench, original=versions or bench.absent[ORIGINAL])
    about["array"] = f"{bench.array.nbytes / 1e6:g} MB {GENERATOR}"
    about["chunks"] = "; ".join(_stored(bench, spec) for spec in SPECS)
    memory = bench.memory_folder
    about["files"] = f"{file_system(bench.folder)}, in the page cache" + (
        f"; 'in memory': {file_system(memory)}" if memory else ""
    )
    setting = bench.setting
    about["rounds"] = f"{setting.nrounds}, or {setting.nrounds_of_parts} of small parts"
    return about


def _stored(bench: Bench, spec: Spec) -> str:
    path = bench.path_of(Ours(), spec)
    cbytes = sum(size for _, size in chunk_places(path))
    return (
        f"{spec} ({spec.chunk_rows} rows): stored {bench.array.nbytes / cbytes:.2f} times smaller, "
        f"Blosc blocks of {bench.blocksize(spec):,} bytes"
    )
