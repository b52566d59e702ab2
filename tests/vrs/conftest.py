"""The wheel `vrs` 1.2.2 (module pyvrs) in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.oracle import Oracle, Recipe, pip_commands

from . import subject

_FOLDER = REPOSITORY / ".vrs-oracle"
RECIPE = Recipe(
    library="vrs wheel",
    variable="BLOSCPACK_VRS_ORACLE",
    python=_FOLDER / "bin" / "python",
    probe="import numpy, pyvrs",
    # Without its dependencies, which are backports of standard modules to Python 3.6.
    commands=pip_commands(
        _FOLDER, ["--no-deps", "--only-binary=vrs", "vrs==1.2.2"], ["--only-binary=numpy", "numpy"]
    ),
)


@pytest.fixture(scope="session")
def wheel(pytestconfig: pytest.Config) -> Iterator[Oracle]:
    """The wheel; `tests.vrs.subject` defines the names that snippets can use."""
    oracle = Oracle(RECIPE, Path(subject.__file__), install=pytestconfig.getoption("--all"))
    assert oracle.greeting == "1.2.2"
    yield oracle
    oracle.close()
