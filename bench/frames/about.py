"""What a run was made of: machine, versions, parameters, file system."""

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import report
from harness import ORIGINAL
from peers.about import file_system

from frames.race import Bench

_LIBRARIES = ("simplejpeg", "pillow", "torch")


def surroundings(bench: Bench) -> dict[str, str]:
    """Return what the page says above the figures, by name."""
    about = report.surroundings("")
    del about[ORIGINAL]
    about = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **about}
    libraries = dict.fromkeys(one.version() for one in bench.contenders)
    about["contenders"] = "; ".join([*libraries, *_versions()])
    about["files"] = f"{file_system(bench.folder)}, in the page cache"
    setting = bench.setting
    about["rounds"] = f"{setting.nrounds}; 5 of ingest and of opening, {setting.nepochs} of loaders"
    if bench.absent:
        about["not there"] = "; ".join(f"{who}: {why}" for who, why in bench.absent.items())
    return about


def _versions() -> list[str]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found
