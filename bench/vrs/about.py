"""What a run was made of: machine, versions, parameters, file systems."""

import racepage
from races import file_system

from vrs.race import Bench


def surroundings(bench: Bench) -> dict[str, str]:
    """Return what the page says above the figures, by name."""
    about = racepage.surroundings(bench)
    about["files"] = (
        f"read from {file_system(bench.folder)}, in the page cache; "
        f"written to {file_system(bench.memory_folder)}"
    )
    about["rounds"] = str(bench.setting.nrounds)
    return about
