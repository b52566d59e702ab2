"""Vectors of GulpIO2, and the real GulpIO2 0.0.4 in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import REPOSITORY, VECTORS

from . import gulp_server

pytest.importorskip("simplejpeg", reason="frames are JPEGs")

import bloscpack.gulp

BUILD_TIMEOUT_S = 600
_REQUIREMENTS = ["simplejpeg==1.9.0", "pillow", "numpy", "docopt", "jinja2", "sh", "tqdm"]
GULP_VECTORS = VECTORS / "gulp"


class Oracle:
    """GulpIO2 0.0.4 in a process that lives as long as the session."""

    def __init__(self, python: Path) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-I", "-W", "ignore", gulp_server.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self.version: str = self._receive()

    def outcome(self, source: str, /, **values: Any) -> tuple[str, Any]:
        """Run a snippet in GulpIO2; see `gulp_server.run`."""
        gulp_server.send(self._process.stdin, (source, values))
        return self._receive()

    def __call__(self, source: str, /, **values: Any) -> Any:
        """Run a snippet in GulpIO2 and return its result; an error of it fails the test."""
        kind, result = self.outcome(source, **values)
        if kind == "error":
            pytest.fail(f"GulpIO2: {result}")
        return result

    def _receive(self) -> Any:
        try:
            return gulp_server.receive(self._process.stdout)
        except EOFError:
            self._stderr.seek(0)
            said = self._stderr.read().decode(errors="replace")
            pytest.fail(f"the oracle died (code {self._process.wait()}): {said[-2000:]}")

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                stream.close()
        self._process.wait()


def _is_usable(python: Path) -> bool:
    if not python.exists():
        return False
    command = [python, "-I", "-W", "ignore", "-c", "import gulpio2.fileio"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _oracle_python() -> Path:
    """Return the python of a working oracle, made now if need be; skip where that cannot be."""
    given = os.environ.get("BLOSCPACK_GULP_ORACLE")
    folder = REPOSITORY / ".gulp-oracle"
    python = Path(given) if given else folder / "bin" / "python"
    if _is_usable(python):
        return python
    if given:
        pytest.fail(f"BLOSCPACK_GULP_ORACLE={given} is no python with gulpio2 0.0.4")
    # One retry: without a network this should end in seconds.
    environment = {**os.environ, "PIP_RETRIES": "1", "PIP_TIMEOUT": "15"}
    environment.pop("PYTHONPATH", None)
    pip = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", folder],
        # Without what it declares: that is Pillow-SIMD, which has to be compiled.
        [*pip, "--no-deps", "gulpio2==0.0.4"],
        [*pip, *_REQUIREMENTS],
    ):
        try:
            made = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                env=environment,
                timeout=BUILD_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"no GulpIO2 to compare with: over {BUILD_TIMEOUT_S} s to install it")
        if made.returncode:
            lines = made.stderr.strip().splitlines() or ["no message"]
            pytest.skip(f"no GulpIO2 to compare with: {lines[-1]}")
    return python


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """GulpIO2 0.0.4."""
    oracle = Oracle(_oracle_python())
    assert oracle.version == "0.0.4"
    yield oracle
    oracle.close()


@pytest.fixture
def same(oracle: Oracle) -> Callable[..., Any]:
    """Run a snippet with GulpIO2 and with ours and check that the outcomes are equal.

    An error of ours must be of the class that GulpIO2 raises, or of one derived from it.
    """

    def check(source: str, /, **values: Any) -> Any:
        kind, theirs = oracle.outcome(source, **values)
        our_kind, ours = gulp_server.run(bloscpack.gulp, source, values)
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
    manifest = GULP_VECTORS / "manifest.json"
    if not manifest.exists():
        skip = pytest.mark.skip(reason=f"no vectors in {GULP_VECTORS}")
        metafunc.parametrize("case", [pytest.param(None, marks=skip)])
        return
    cases = json.loads(manifest.read_text("utf-8"))["cases"]
    for case in cases:
        case["folder"] = GULP_VECTORS / case["case"]
    metafunc.parametrize("case", cases, ids=[case["case"] for case in cases])


def frames(number: int, *shape: int, seed: int = 0) -> list[NDArray[np.uint8]]:
    """Return frames that JPEG makes files of different sizes of."""
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
    """Write a chunk; the metadata of an item say its name."""
    chunk = bloscpack.gulp.GulpChunk(path / f"data_{number}.gulp", path / f"meta_{number}.gmeta")
    with chunk.open("wb"):
        for id_, images in items.items():
            chunk.append(id_, {"name": id_}, images)
