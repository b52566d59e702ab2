"""Vectors of GulpIO2, and the real GulpIO2 0.0.4 in a process of its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import snippets
from tests.cli.conftest import blpk as blpk
from tests.conftest import REPOSITORY, ReferenceFolder
from tests.oracle import Oracle, Recipe, oracle_fixture, pip_commands

from . import subject

pytest.importorskip("simplejpeg", reason="frames are JPEGs")

import bloscpack.gulp

_FOLDER = REPOSITORY / ".gulp-oracle"
RECIPE = Recipe(
    library="GulpIO2",
    variable="BLOSCPACK_GULP_ORACLE",
    python=_FOLDER / "bin" / "python",
    probe="import gulpio2.fileio",
    commands=pip_commands(
        _FOLDER,
        # Without its dependencies: one is Pillow-SIMD, which must be compiled.
        ["--no-deps", "gulpio2==0.0.4"],
        ["simplejpeg==1.9.0", "pillow", "numpy", "docopt", "jinja2", "sh", "tqdm"],
    ),
)
FILES = ReferenceFolder("gulp")
oracle = oracle_fixture(RECIPE, Path(subject.__file__), "0.0.4")


def run_ours(source: str, values: dict[str, Any]) -> tuple[str, Any]:
    """Run a snippet with our package, as `Oracle.outcome` does with GulpIO2."""
    return snippets.run(subject.names(bloscpack.gulp), source, values)


@pytest.fixture
def same(oracle: Oracle) -> Callable[..., Any]:
    """Run a snippet with GulpIO2 and with our package, and check that the outcomes are equal.

    Our error must be of the class that GulpIO2 raises, or of a subclass.
    """

    def check(source: str, /, **values: Any) -> Any:
        kind, theirs = oracle.outcome(source, **values)
        our_kind, ours = run_ours(source, values)
        assert our_kind == kind, f"GulpIO2: {theirs!r:.500}\nours: {ours!r:.500}"
        if kind == "error":
            assert theirs[0][0] in ours[0], f"GulpIO2: {theirs}\nours: {ours}"
        else:
            assert type(ours) is type(theirs)
            assert repr(ours) == repr(theirs)
        return ours

    return check


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `case` for each case of the manifest."""
    if "case" not in metafunc.fixturenames:
        return
    if not FILES:
        skip = pytest.mark.skip(reason=FILES.missing)
        metafunc.parametrize("case", [pytest.param(None, marks=skip)])
        return
    cases = json.loads((FILES / "manifest.json").read_text("utf-8"))["cases"]
    for case in cases:
        case["folder"] = FILES / case["case"]
    metafunc.parametrize("case", cases, ids=[case["case"] for case in cases])


def frames(number: int, *shape: int, seed: int = 0) -> list[NDArray[np.uint8]]:
    """Return frames whose JPEG files differ in size."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (number, 2, 2, *shape[2:]), dtype="u1")
    return [np.ascontiguousarray(np.resize(frame, shape)) for frame in small]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Gulp directory of two chunks: a, b and c."""
    path = tmp_path / "gulp"
    path.mkdir()
    write(path, 0, {"a": frames(5, 12, 16, 3), "b": frames(3, 9, 7, seed=1)})
    write(path, 1, {"c": frames(4, 12, 16, 3, seed=2)})
    return path


def write(path: Path, number: int, items: dict[str, list[Any]]) -> None:
    """Write a chunk; the metadata of each item contain its name."""
    chunk = bloscpack.gulp.GulpChunk(path / f"data_{number}.gulp", path / f"meta_{number}.gmeta")
    with chunk.open("wb"):
        for id_, images in items.items():
            chunk.append(id_, {"name": id_}, images)
