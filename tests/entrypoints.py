"""Entry points of the package for tests, although it is not installed."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import REPOSITORY


@contextmanager
def entry_points(folder: Path) -> Iterator[None]:
    """Register the xarray engine of ``pyproject.toml`` through a package in `folder`."""
    import xarray

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    info = folder / "bloscpack-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bloscpack\nVersion: 1\n")
    points = project["entry-points"]["xarray.backends"].items()
    lines = "".join(f"{name} = {value}\n" for name, value in points)
    (info / "entry_points.txt").write_text(f"[xarray.backends]\n{lines}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        xarray.backends.refresh_engines()
        yield
    xarray.backends.refresh_engines()
