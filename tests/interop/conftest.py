"""The original bloscpack in a separate process, and the files it wrote."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bloscpack
import bloscpack.format.codec
from tests import snippets
from tests.conftest import REPOSITORY, ReferenceFolder
from tests.oracle import Oracle, Recipe

from . import subject

FILES = ReferenceFolder("bloscpack")
SHARED = REPOSITORY.parent / "shared"
_FOLDER = REPOSITORY / ".oracle"
_SCRIPT = SHARED / "tools" / "make_bloscpack_oracle.sh"
RECIPE = Recipe(
    library="bloscpack 0.16",
    variable="BLOSCPACK_ORACLE",
    python=_FOLDER / "venv" / "bin" / "python",
    probe="import bloscpack.file_io",
    commands=(("bash", _SCRIPT, _FOLDER),),
    cwd=SHARED,  # in the repository it would import our bloscpack
    given_python=lambda folder: Path(folder) / "venv" / "bin" / "python",
)


@pytest.fixture(scope="session")
def oracle(pytestconfig: pytest.Config) -> Iterator[Oracle]:
    """Bloscpack 0.16."""
    oracle = Oracle(RECIPE, Path(subject.__file__), install=pytestconfig.getoption("--all"))
    assert oracle.greeting["bloscpack"] == "0.16.0"
    # Bytes are compared below, so both must compress identically.
    assert set(oracle.greeting["codecs"]) <= set(bloscpack.format.codec.CODECS)
    yield oracle
    oracle.close()


@pytest.fixture
def same(oracle: Oracle) -> Callable[..., Any]:
    """Run a snippet with 0.16 and with our package, and check that the outcomes are equal.

    Values must be equal. An error must be of the class that 0.16 raises, or of a subclass (by
    name), so that any `except` clause for 0.16 catches it. Our outcome is returned.
    """

    def check(source: str, /, **values: Any) -> Any:
        kind, theirs = oracle.outcome(source, **values)
        our_kind, ours = snippets.run(subject.names(bloscpack), source, values)
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
    """Run a snippet with our package, as `Oracle.outcome` does with 0.16."""
    return lambda source, /, **values: snippets.run(subject.names(bloscpack), source, values)


@pytest.fixture
def describe() -> Callable[[Any], Any]:
    """`subject.describe`."""
    return subject.describe


def _entries(kind: str) -> list[dict[str, Any]]:
    """Return the files of one kind in the manifest, each with its "path"."""
    if not FILES:
        return []
    listed = json.loads((FILES / "manifest.json").read_text("utf-8"))
    entries: list[dict[str, Any]] = listed["malformed" if kind == "legacy" else "vectors"]
    if kind in ("array_vector", "bytes_vector"):
        wanted = "ndarray" if kind == "array_vector" else "bytes"
        entries = [entry for entry in entries if entry["kind"] == wanted]
    return [{**entry, "path": FILES / entry["file"]} for entry in entries]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each such file in the manifest."""
    for kind in ("vector", "array_vector", "bytes_vector", "legacy"):
        if kind not in metafunc.fixturenames:
            continue
        entries = _entries(kind)
        if entries:
            metafunc.parametrize(kind, entries, ids=[entry["name"] for entry in entries])
        else:
            skip = pytest.mark.skip(reason=FILES.missing)
            metafunc.parametrize(kind, [pytest.param(None, marks=skip)])
