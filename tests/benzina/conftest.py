"""Fixtures for dataset tests, and the parser by Benzina's authors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bloscpack import benzina
from bloscpack.storage.file import FileSource
from tests.cli.conftest import blpk as blpk
from tests.conftest import REPOSITORY
from tests.oracle import Recipe, oracle_fixture, pip_commands

from . import subject, vectors

_FOLDER = REPOSITORY / ".benzina-oracle"
RECIPE = Recipe(
    library="pybenzinaparse",
    variable="BLOSCPACK_BENZINA_ORACLE",
    python=_FOLDER / "bin" / "python",
    probe="import numpy, pybenzinaparse",
    # Later versions of bitstring lack a function it needs, but its requirements allow them.
    commands=pip_commands(
        _FOLDER, ["bitstring==4.4.0", "numpy"], ["--no-deps", "pybenzinaparse==0.2.2"]
    ),
)
# See `tests.benzina.subject` for the names in snippets.
parser = oracle_fixture(RECIPE, Path(subject.__file__), "0.2.2")


class Counted:
    """Reads of all opened datasets, as (offset, nbytes)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[tuple[int, int]] = []
        monkeypatch.setattr(FileSource, "read_at", self._counting(FileSource.read_at))
        monkeypatch.setattr(FileSource, "read_into", self._counting(FileSource.read_into))

    def _counting(self, read: Any) -> Any:
        def counted(source: FileSource, offset: int, wanted: Any) -> Any:
            nbytes = wanted if isinstance(wanted, int) else len(wanted)
            self.reads.append((offset, nbytes))
            return read(source, offset, wanted)

        return counted

    def take(self) -> list[tuple[int, int]]:
        """Return the reads since the last call."""
        taken, self.reads = self.reads, []
        return taken


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.fixture(scope="module")
def mini() -> Iterator[benzina.Dataset]:
    """A dataset of 12 pictures."""
    vectors.manifest()
    with benzina.open(vectors.FOLDER / "mini12.bzna") as dataset:
        yield dataset
