"""Peak memory of a whole read, and of writing rows as they come, each in a fresh process.

The peak is the growth of the resident set (VmHWM of Linux, after a reset) over that of the process
with its libraries loaded.
"""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from race.races import remove, require, require_equal
from race.resident import resident
from race.worker import Worker

from peers.arrays import Arrays
from peers.contenders import Contender
from peers.data import ROW_NITEMS, ZSTD, field

_RESET = Path("/proc/self/clear_refs")
_TIMEOUT = 300  # seconds


def measure_memory(races: Arrays) -> None:
    """Find the growth in bytes, or why it was not measured, by action and contender."""
    races.say("peak memory")
    if not _RESET.exists():
        return
    found: dict[str, dict[str, int | str]] = {"read": {}, "write": {}}
    for contender in races.formats():
        if contender.is_variant:
            continue
        written = races.folder / "written over time"
        for action, path in ((read, races.path_of(contender, ZSTD)), (write, written)):
            with closing(Worker("peers", contender.name, _TIMEOUT)) as worker:
                growth = worker.report(action, path=path, nrows=len(races.array))
            found[action.__name__][contender.name] = growth
        remove(written)
    races.found["memory"] = {"nbytes": races.array.nbytes, **found}


def read(contender: Contender, path: str, nrows: int) -> int:
    """Return the growth of a whole read."""
    before = _start()
    result = contender.read(Path(path))
    growth = resident("VmHWM") - before
    require(result.shape == (nrows, ROW_NITEMS), contender.name, "the shape")
    return growth


def write(contender: Contender, path: str, nrows: int) -> int | str:
    """Return the growth of a write from a generator."""
    if not contender.can_grow:
        return "it cannot write a file of unknown length"
    block = field(ZSTD.chunk_rows)
    before = _start()
    with contender.writer(Path(path), block[0], ZSTD) as append:
        for rows in _blocks(block, nrows):
            append(rows)
    growth = resident("VmHWM") - before
    wanted = np.concatenate(list(_blocks(block, nrows)))
    require_equal(contender.read(Path(path)), wanted, contender.name, "the array")
    return growth


def _blocks(block: np.ndarray, nrows: int) -> Iterator[np.ndarray]:
    """Yield new blocks of about 1 MiB that differ, `nrows` rows in all."""
    for start in range(0, nrows, len(block)):
        yield block[: nrows - start] + np.float32(start // len(block) / 256)


def _start() -> int:
    """Return the resident bytes now, and reset their peak."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    _RESET.write_text("5", "ascii")
    return resident()
