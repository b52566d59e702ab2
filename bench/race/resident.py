"""Memory and processor time of processes; imports nothing that would change their memory."""

import os
from pathlib import Path
from time import process_time

STATUS = Path("/proc/self/status")


def resident(name: str = "VmRSS") -> int:
    """Return the resident bytes now, or their peak with the name "VmHWM"."""
    return _kilobytes(STATUS, name) * 1024


def proportional(pid: int | str = "self") -> int:
    """Return the resident bytes of a process, its share of pages that processes share."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss") * 1024


def processor_seconds(*children: int) -> float:
    """Return the processor time of all threads of this process and of some others."""
    seconds = process_time()
    for pid in children:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def _kilobytes(path: Path, name: str) -> int:
    for line in path.read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise RuntimeError(f"{path} has no {name}")
