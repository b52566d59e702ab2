"""Resident memory of this process; imports nothing that would change it."""

from pathlib import Path

STATUS = Path("/proc/self/status")


def resident(name: str = "VmRSS") -> int:
    """Return the resident bytes now, or their peak with the name "VmHWM"."""
    for line in STATUS.read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{STATUS} has no {name}")
