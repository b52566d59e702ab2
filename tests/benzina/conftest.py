"""The parser of Benzina's authors, pybenzinaparse 0.2.2, in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.oracle import Oracle, Recipe, pip_commands

from . import subject

_FOLDER = REPOSITORY / ".benzina-oracle"
RECIPE = Recipe(
    library="pybenzinaparse",
    variable="BLOSCPACK_BENZINA_ORACLE",
    python=_FOLDER / "bin" / "python",
    probe="import numpy, pybenzinaparse",
    # Later versions of bitstring have not all it needs, and it does not say so.
    commands=pip_commands(
        _FOLDER, ["bitstring==4.4.0", "numpy"], ["--no-deps", "pybenzinaparse==0.2.2"]
    ),
)


@pytest.fixture(scope="session")
def parser() -> Iterator[Oracle]:
    """The library; see `tests.benzina.subject` for what snippets see."""
    oracle = Oracle(RECIPE, Path(subject.__file__))
    assert oracle.greeting == "0.2.2"
    yield oracle
    oracle.close()
