"""What a run was made of: machine, versions, parameters, file systems."""

from datetime import UTC, datetime

import report
from harness import ORIGINAL
from peers.about import file_system

from vrs.race import Bench


def surroundings(bench: Bench) -> dict[str, str]:
    """Return what the page says above the figures, by name."""
    about = report.surroundings("")
    del about[ORIGINAL]
    about = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **about}
    about["contenders"] = "; ".join(dict.fromkeys(one.version() for one in bench.contenders))
    about["files"] = (
        f"read from {file_system(bench.folder)}, in the page cache; "
        f"written to {file_system(bench.memory_folder)}"
    )
    about["rounds"] = str(bench.setting.nrounds)
    if bench.absent:
        about["not there"] = "; ".join(f"{who}: {why}" for who, why in bench.absent.items())
    return about
