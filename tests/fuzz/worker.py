"""Run cases ``first`` to ``first + count`` of a fuzz run in this process.

It is a separate program, so that a crash or unbounded memory use ends it and not the tests::

    python tests/fuzz/worker.py KIND SEED FIRST COUNT [PROGRESS]

KIND is the name of a function here without ``_case``: ``files``, ``gridfiles`` (files with array
chunks or a grid), ``chunks``, ``arrays`` (array chunks), ``stores`` and so on. Faults go to
standard output, one JSON object per line. The file PROGRESS holds the number of the current case,
which identifies it after a crash. To repeat one case, run it with COUNT 1.
"""

import atexit
import gc
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

# Memory beyond the actual size of a case; declared sizes may be reserved but not touched.
MAX_EXTRA_NBYTES = 64 << 20
ADDRESS_SPACE_NBYTES = 6 << 30
MAX_SECONDS = 5.0  # of processor time: the machine may be busy

# Function that runs one case and returns (its description, faults, actual size in bytes).
Case = Callable[[Random], tuple[str, list[str], int]]


def max_seconds(count: int) -> int:
    """Return the limit of processor time for `count` cases: a hundred times what they take."""
    return 60 + count // 10


def peak_nbytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def memory_folder() -> Path:
    """Return a new folder, in memory where there is such a file system; removed at exit."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def files_case(*, only_arrays: bool = False) -> Case:
    """Return the case of damaged files; `only_arrays`: those with array chunks or a grid."""
    from judge import Judge
    from mutation import damage, seal
    from vectors import load_vectors

    vectors = [one for one in load_vectors() if one.features or not only_arrays]
    most_sealed = 0.3 if only_arrays else 0.7  # damage under a valid digest reaches the decoders
    small = [vector for vector in vectors if vector.is_small]
    folder = memory_folder()
    for vector in vectors:
        assert vector.array.nbytes == len(vector.payload)

    def run(rng: Random) -> tuple[str, list[str], int]:
        vector = rng.choice(vectors if rng.random() < 0.04 else small)
        data = bytearray(vector.data)
        what = f"{vector.name}: {damage(rng, data, vector.fields)}"
        sealed = rng.random() < most_sealed
        if not sealed:
            seal(data, vector.layout)
            what += ", sealed again"
        judge = Judge(vector, bytes(data), sealed, folder)
        honest = len(vector.data) + len(vector.payload)
        return what, judge.check(rng), honest

    return run


def gridfiles_case() -> Case:
    return files_case(only_arrays=True)


def chunks_case() -> Case:
    from chunk_judge import areas, chunks, run_case

    areas()
    chunks()
    return run_case


def arrays_case() -> Case:
    from array_judge import array_chunks, run_case
    from chunk_judge import areas

    areas()
    array_chunks()
    return run_case


def archives_case() -> Case:
    from archive_judge import archive_vectors, run_case

    archive_vectors()
    return run_case


def in_a_folder(run_case: Callable[[Random, Path], tuple[str, list[str], int]]) -> Case:
    folder = memory_folder()
    return lambda rng: run_case(rng, folder)


def stores_case() -> Case:
    from store_judge import run_case
    from store_vectors import store_vectors

    store_vectors()
    return in_a_folder(run_case)


def recordings_case() -> Case:
    from recording_judge import run_case
    from recordings import recording_vectors

    recording_vectors()
    return in_a_folder(run_case)


def datasets_case() -> Case:
    from dataset_judge import run_case
    from dataset_vectors import dataset_vectors

    dataset_vectors()
    return in_a_folder(run_case)


def main(kind: str, seed: str, first: int, count: int, progress: str | None = None) -> None:
    from bloscpack.exceptions import BloscpackWarning

    warnings.simplefilter("error")
    warnings.simplefilter("ignore", BloscpackWarning)  # damage is expected here
    case: Case = globals()[f"{kind}_case"]()
    # Errors leave cycles, but looking for them at the usual rate takes a tenth of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    if not os.environ.get("BLOSCPACK_SANITIZE"):  # the sanitizer maps terabytes for itself
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_NBYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (max_seconds(count), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    where = os.open(progress, os.O_WRONLY | os.O_CREAT) if progress else -1
    baseline, most_honest = peak_nbytes(), 0
    for index in range(first, first + count):
        if where >= 0:
            os.pwrite(where, b"%20d" % index, 0)
        began = time.process_time()
        what, faults, honest = case(Random(f"{seed}:{index}"))
        seconds = time.process_time() - began
        if seconds > MAX_SECONDS:
            faults.append(f"took {seconds:.1f} s")
        peak = peak_nbytes()
        # The peak is that of all cases so far, and may come from a larger one.
        most_honest = max(most_honest, honest)
        if peak > baseline + MAX_EXTRA_NBYTES + 4 * most_honest:
            faults.append(f"took {(peak - baseline) >> 20} MiB, its honest size is {honest} bytes")
            baseline = peak
        if faults:
            report = {"case": f"{kind} {seed} {index}", "what": what, "faults": faults}
            sys.stdout.write(json.dumps(report) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:6])
