"""What a run was made of: machine, versions, parameters, file systems."""

from datetime import UTC, datetime
from pathlib import Path

import report
from harness import ORIGINAL

from peers.data import GENERATOR, SPECS, Spec
from peers.race import Bench
from peers.with_bloscpack import Ours, chunk_places


def surroundings(bench: Bench) -> dict[str, str]:
    """Return what the page says above the figures, by name."""
    versions = None if bench.original is None else bench.original.versions
    about = report.surroundings(versions or bench.absent[ORIGINAL])
    about = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **about}
    libraries = dict.fromkeys(one.version() for one in bench.contenders)
    about["contenders"] = "; ".join(libraries)
    about["array"] = f"{bench.array.nbytes / 1e6:g} MB {GENERATOR}"
    about["chunks"] = "; ".join(_stored(bench, spec) for spec in SPECS)
    memory = bench.memory_folder
    about["files"] = f"{file_system(bench.folder)}, in the page cache" + (
        f"; 'in memory': {file_system(memory)}" if memory else ""
    )
    setting = bench.setting
    about["rounds"] = f"{setting.nrounds}, or {setting.nrounds_of_parts} of small parts"
    if bench.absent:
        about["not there"] = "; ".join(f"{who}: {why}" for who, why in bench.absent.items())
    return about


def _stored(bench: Bench, spec: Spec) -> str:
    path = bench.path_of(Ours(), spec)
    cbytes = sum(size for _, size in chunk_places(path))
    return (
        f"{spec} ({spec.chunk_rows} rows): stored {bench.array.nbytes / cbytes:.2f} times smaller, "
        f"Blosc blocks of {bench.blocksize(spec):,} bytes"
    )


def file_system(folder: Path) -> str:
    """Return the folder and the kind of its file system."""
    best, kind = Path(), "unknown file system"
    mounts = Path("/proc/mounts")
    if mounts.exists():
        for line in mounts.read_text("utf-8").splitlines():
            _, point, name, *_ = line.split()
            if folder.resolve().is_relative_to(point) and len(point) >= len(str(best)):
                best, kind = Path(point), name
    return f"{folder.parent} ({kind})"
