"""What a run was made of: machine, versions, parameters, file system."""

from importlib.metadata import PackageNotFoundError, version

import racepage
from races import file_system

from frames.race import Bench

_LIBRARIES = ("simplejpeg", "pillow", "torch")


def surroundings(bench: Bench) -> dict[str, str]:
    """Return what the page says above the figures, by name."""
    about = racepage.surroundings(bench, libraries=_versions())
    about["files"] = f"{file_system(bench.folder)}, in the page cache"
    setting = bench.setting
    about["rounds"] = f"{setting.nrounds}; 5 of ingest and of opening, {setting.nepochs} of loaders"
    return about


def _versions() -> list[str]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found
