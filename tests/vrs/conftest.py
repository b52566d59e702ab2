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
    # Without what it declares: backports to Python 3.6 of modules that Python has.
    commands=pip_commands(
        _FOLDER, ["--no-deps", "--only-binary=vrs", "vrs==1.2.2"], ["--only-binary=numpy", "numpy"]
    ),
)


@pytest.fixture(scope="session")
def wheel(pytestconfig: pytest.Config) -> Iterator[Oracle]:
    """The wheel; see `tests.vrs.subject` for what snippets see."""
    oracle = Oracle(RECIPE, Path(subject.__file__), install=pytestconfig.getoption("--all"))
    assert oracle.greeting == "1.2.2"
    yield oracle
    oracle.close()
