"""Peak memory of a whole read, and of writing rows as they come, each in a process of its own.

The peak is the growth of the resident set (VmHWM of Linux, after a reset) over what the process
had when its libraries were loaded.
"""

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from races import assemble, remove

from peers.contender import TABLE
from peers.data import ZSTD, field
from peers.race import Bench

BENCH = Path(__file__).resolve().parents[1]
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_ACTIONS = ("read", "write")
_TIMEOUT = 300  # seconds


def measure_memory(bench: Bench) -> None:
    """Find the growth in bytes, or why there is none, by action and contender."""
    bench.say("peak memory")
    if not _RESET.exists():
        return
    found: dict[str, dict[str, int | str]] = {action: {} for action in _ACTIONS}
    nrows = len(bench.array)
    for contender in bench.contenders:
        if contender.is_variant:
            continue
        written = bench.folder / "written over time"
        for action, path in (("read", bench.path_of(contender, ZSTD)), ("write", written)):
            command = [sys.executable, "-m", "peers.memory", action, contender.name, path, nrows]
            done = subprocess.run(
                [*map(str, command)],
                cwd=BENCH,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=True,
            )
            found[action][contender.name] = json.loads(done.stdout.splitlines()[-1])
        remove(written)
    bench.found["memory"] = {"nbytes": bench.array.nbytes, **found}


def main(arguments: list[str]) -> int:
    """Do one of the actions and print the growth; return the exit status."""
    action, name, path, nrows = arguments
    (contender,), _ = assemble(TABLE, [name])
    if action == "read":
        before = start()
        result = contender.read(Path(path))
        growth = peak() - before
        if result.shape != (int(nrows), ZSTD.chunk_nbytes // ZSTD.chunk_rows // 4):
            raise RuntimeError(f"{name}: the array has shape {result.shape}")
    else:
        block = field(ZSTD.chunk_rows)
        if not contender.can_grow:
            print(json.dumps("it cannot write a file of unknown length"))
            return 0
        before = start()
        with contender.writer(Path(path), block[0], ZSTD) as append:
            for rows in blocks(block, int(nrows)):
                append(rows)
        growth = peak() - before
        wanted = list(blocks(block, int(nrows)))
        if not np.array_equal(contender.read(Path(path)), np.concatenate(wanted)):
            raise RuntimeError(f"{name}: the array differs from what was written")
    print(json.dumps(growth))
    return 0


def blocks(block: np.ndarray, nrows: int) -> Iterator[np.ndarray]:
    """Yield new blocks of about 1 MiB that differ, `nrows` rows in all."""
    for start in range(0, nrows, len(block)):
        yield block[: nrows - start] + np.float32(start // len(block) / 256)


def start() -> int:
    """Return the resident bytes now, and let the peak begin here."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    _RESET.write_text("5", "ascii")
    return _status("VmRSS")


def peak() -> int:
    """Return the most resident bytes since `start`."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in _STATUS.read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{_STATUS} does not tell {name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
