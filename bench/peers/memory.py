"""Peak memory of a whole read, and of writing rows as they come, each in a process of its own.

The peak is the growth of the resident set (VmHWM of Linux, after a reset) over that of the process
with its libraries loaded.
"""

import ctypes
import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from race.races import assemble, remove
from race.resident import resident
from race.worker import last_line

from peers.contenders import TABLE
from peers.data import ZSTD, field

if TYPE_CHECKING:
    from peers.cases import Arrays

_RESET = Path("/proc/self/clear_refs")
_TIMEOUT = 300  # seconds


def measure_memory(races: "Arrays") -> None:
    """Find the growth in bytes, or why it was not measured, by action and contender."""
    races.say("peak memory")
    if not _RESET.exists():
        return
    found: dict[str, dict[str, int | str]] = {"read": {}, "write": {}}
    for contender in races.contenders:
        if contender.is_variant:
            continue
        written = races.folder / "written over time"
        for action, path in (("read", races.path_of(contender, ZSTD)), ("write", written)):
            arguments = (action, contender.name, path, len(races.array))
            found[action][contender.name] = last_line("peers.memory", *arguments, timeout=_TIMEOUT)
        remove(written)
    races.found["memory"] = {"nbytes": races.array.nbytes, **found}


def main(arguments: list[str]) -> int:
    """Do one of the actions and print the growth; return the exit status."""
    action, name, path, nrows = arguments
    (contender,), _ = assemble(TABLE, [name])
    if action == "read":
        before = _start()
        result = contender.read(Path(path))
        growth = resident("VmHWM") - before
        if result.shape != (int(nrows), ZSTD.chunk_nbytes // ZSTD.chunk_rows // 4):
            raise RuntimeError(f"{name}: the array has shape {result.shape}")
    else:
        block = field(ZSTD.chunk_rows)
        if not contender.can_grow:
            print(json.dumps("it cannot write a file of unknown length"))
            return 0
        before = _start()
        with contender.writer(Path(path), block[0], ZSTD) as append:
            for rows in _blocks(block, int(nrows)):
                append(rows)
        growth = resident("VmHWM") - before
        wanted = list(_blocks(block, int(nrows)))
        if not np.array_equal(contender.read(Path(path)), np.concatenate(wanted)):
            raise RuntimeError(f"{name}: the array differs from what was written")
    print(json.dumps(growth))
    return 0


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
    return resident("VmRSS")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
