"""The wheel `vrs` 1.2.2 (module pyvrs) in a separate process."""

from pathlib import Path

from tests.cli.conftest import blpk as blpk
from tests.cli.conftest import content as content
from tests.cli.conftest import packed as packed
from tests.cli.conftest import ramp as ramp
from tests.conftest import REPOSITORY
from tests.oracle import Recipe, oracle_fixture, pip_commands

from . import subject

_FOLDER = REPOSITORY / ".vrs-oracle"
RECIPE = Recipe(
    library="vrs wheel",
    variable="BLOSCPACK_VRS_ORACLE",
    python=_FOLDER / "bin" / "python",
    probe="import numpy, pyvrs",
    # Without its declared dependencies: backports to Python 3.6 of modules of the standard library.
    commands=pip_commands(
        _FOLDER, ["--no-deps", "--only-binary=vrs", "vrs==1.2.2"], ["--only-binary=numpy", "numpy"]
    ),
)
# See `tests.vrs.subject` for the names in snippets.
wheel = oracle_fixture(RECIPE, Path(subject.__file__), "1.2.2")
