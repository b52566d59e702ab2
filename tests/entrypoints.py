"""Entry points of the package for tests, although it is not installed."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from .conftest import REPOSITORY


@contextmanager
def entry_points(folder: Path) -> Iterator[None]:
    """Register the xarray engine and codec of ``pyproject.toml`` through a package in `folder`."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    info = folder / "bloscpack-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bloscpack\nVersion: 1\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("".join(groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        _refresh()
        yield
    _refresh()


def _refresh() -> None:
    """Let libraries that are installed look for entry points again."""
    with suppress(ImportError):
        import xarray

        xarray.backends.refresh_engines()
    with suppress(ImportError):
        from numcodecs import registry

        registry.codec_registry.pop("bloscpack_array_chunk", None)
        registry.run_entrypoints()
