"""Open files, to check that calls close those that they open."""

import os
from pathlib import Path

_FOLDER = Path("/proc/self/fd")


def open_files(place: Path | str) -> list[str]:
    """Return the names of this process's open files below a folder; [] where there is no /proc.

    Those of the whole process are not compared: the garbage collector, servers of earlier tests and
    the event loop close files and connections at any time.
    """
    found = []
    for each in _FOLDER.iterdir() if _FOLDER.is_dir() else ():
        try:
            found.append(os.readlink(each))
        except FileNotFoundError:  # closed since, or the listing itself
            continue
    return sorted(each for each in found if each.startswith(str(place)))
