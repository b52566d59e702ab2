"""The original bloscpack in a process of its own, and the files it wrote."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import bloscpack
import bloscpack.codec

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"
VECTORS = Path(os.environ.get("BLOSCPACK_VECTORS") or SHARED / "vectors") / "bloscpack"
BUILD_TIMEOUT_S = 600


def _load_server() -> ModuleType:
    # By path: whether tests are packages, and what pytest puts on sys.path, does not matter so.
    spec = importlib.util.spec_from_file_location(
        "oracle_server", Path(__file__).with_name("oracle_server.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


server = _load_server()


class SnippetError(Exception):
    """A snippet raised; `kinds` are the names of the classes of its error, most derived first."""

    def __init__(self, kinds: list[str], message: str) -> None:
        super().__init__(f"{kinds[0]}: {message}")
        self.kinds = kinds


class Oracle:
    """Bloscpack 0.16 in a process that lives as long as the session."""

    def __init__(self, folder: Path) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [_python(folder), "-I", "-W", "ignore", server.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        greeting = self._receive()
        self.version: str = greeting["bloscpack"]
        self.codecs: list[str] = greeting["codecs"]

    def outcome(self, source: str, /, **values: Any) -> tuple[str, Any]:
        """Run a snippet in bloscpack 0.16; see `oracle_server.run`."""
        server.send(self._process.stdin, (source, values))
        return self._receive()

    def __call__(self, source: str, /, **values: Any) -> Any:
        """Run a snippet in bloscpack 0.16 and return its result, or raise SnippetError."""
        kind, result = self.outcome(source, **values)
        if kind == "error":
            raise SnippetError(*result)
        return result

    def _receive(self) -> Any:
        try:
            return server.receive(self._process.stdout)
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


def _python(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def _is_usable(folder: Path) -> bool:
    if not _python(folder).exists():
        return False
    # Isolated: the bloscpack in the current folder is ours.
    command = [_python(folder), "-I", "-W", "ignore", "-c", "import bloscpack.file_io"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _oracle_folder() -> Path:
    """Return the folder of a working oracle, made now if need be; skip where that cannot be."""
    given = os.environ.get("BLOSCPACK_ORACLE")
    folder = Path(given) if given else REPOSITORY / ".oracle"
    if _is_usable(folder):
        return folder
    if given:
        pytest.fail(f"BLOSCPACK_ORACLE={given} holds no working bloscpack 0.16")
    script = SHARED / "tools" / "make_bloscpack_oracle.sh"
    if not script.exists():
        pytest.skip(f"no bloscpack 0.16 to compare with: {script} is absent")
    # One retry: without a network this should end in seconds.
    environment = {**os.environ, "PYTHON": sys.executable, "PIP_RETRIES": "1", "PIP_TIMEOUT": "15"}
    environment.pop("PYTHONPATH", None)
    try:
        made = subprocess.run(
            ["bash", script, folder],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=SHARED,  # from the repository it would import our bloscpack
            timeout=BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"no bloscpack 0.16 to compare with: {script} took over {BUILD_TIMEOUT_S} s")
    if made.returncode or not _is_usable(folder):
        lines = made.stderr.strip().splitlines() or ["it left no working environment"]
        pytest.skip(f"no bloscpack 0.16 to compare with: {script.name} failed: {lines[-1]}")
    return folder


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Bloscpack 0.16."""
    oracle = Oracle(_oracle_folder())
    assert oracle.version == "0.16.0"
    # Bytes are compared below, so both must compress alike.
    assert set(oracle.codecs) <= set(bloscpack.codec.CODECS)
    yield oracle
    oracle.close()


@pytest.fixture
def same(oracle: Oracle) -> Callable[..., Any]:
    """Run a snippet with 0.16 and with ours and check that the outcomes are equal.

    Values must be equal. An error must be of the class that 0.16 raises, or of one derived from
    it (by name), so that any `except` clause for 0.16 catches it. Ours is returned.
    """

    def check(source: str, /, **values: Any) -> Any:
        kind, theirs = oracle.outcome(source, **values)
        our_kind, ours = server.run(bloscpack, source, values)
        assert our_kind == kind, f"0.16: {theirs!r:.500}\nours: {ours!r:.500}"
        if kind == "error":
            assert theirs[0][0] in ours[0], f"0.16: {theirs}\nours: {ours}"
            return ours
        assert type(ours) is type(theirs)
        assert ours == theirs
        return ours

    return check


@pytest.fixture
def outcome() -> Callable[..., tuple[str, Any]]:
    """Run a snippet with ours, as `Oracle.outcome` does with 0.16."""
    return lambda source, /, **values: server.run(bloscpack, source, values)


@pytest.fixture
def describe() -> Callable[[Any], Any]:
    """`oracle_server.describe`."""
    return server.describe


def _entries(kind: str) -> list[dict[str, Any]]:
    """Return the files of the manifest of one kind, each with its "path"."""
    manifest = VECTORS / "manifest.json"
    if not manifest.exists():
        return []
    listed = json.loads(manifest.read_text())
    entries: list[dict[str, Any]] = listed["malformed" if kind == "legacy" else "vectors"]
    if kind in ("array_vector", "bytes_vector"):
        wanted = "ndarray" if kind == "array_vector" else "bytes"
        entries = [entry for entry in entries if entry["kind"] == wanted]
    return [{**entry, "path": VECTORS / entry["file"]} for entry in entries]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes one of these for each such file in the manifest."""
    for kind in ("vector", "array_vector", "bytes_vector", "legacy"):
        if kind not in metafunc.fixturenames:
            continue
        entries = _entries(kind)
        if entries:
            metafunc.parametrize(kind, entries, ids=[entry["name"] for entry in entries])
        else:
            skip = pytest.mark.skip(reason=f"no vectors in {VECTORS}")
            metafunc.parametrize(kind, [pytest.param(None, marks=skip)])
