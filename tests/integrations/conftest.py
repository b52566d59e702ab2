"""The engine of xarray for tests of several modules."""

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
