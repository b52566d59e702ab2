"""The engine of xarray, and threads of Dask, for tests of several modules."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..entrypoints import entry_points


@pytest.fixture
def installed_engine(tmp_path: Path) -> Iterator[None]:
    """Import the accessors of xarray, and register its engine."""
    importlib.import_module("bloscpack.integrations.xarray")
    with entry_points(tmp_path / "site"):
        yield


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Let Dask compute on two threads."""
    dask = importlib.import_module("dask")
    with dask.config.set(scheduler="threads", num_workers=2):
        yield
