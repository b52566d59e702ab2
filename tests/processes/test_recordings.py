"""VRS recordings in forks, threads and pools, each in a process under a timeout."""

import multiprocessing
from pathlib import Path

import pytest

from .scenario import run

methods = pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
kinds = pytest.mark.parametrize(
    "kind",
    ["path", "chunks", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bytes", "file"))],
)
forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording in one file; beside it, the same in several files."""
    folder = tmp_path_factory.mktemp("recordings")
    run("recordings", "make", folder)
    assert (folder / "many.vrs_1").exists()
    return folder / "one.vrs"


@pytest.mark.sampled(3)
@forks
@kinds
def test_fork_after_use(path: Path, kind: str) -> None:
    run("recordings", "fork_after_use", path, kind)


@pytest.mark.sampled(2)
@forks
@pytest.mark.parametrize("kind", ["path", "chunks"])
def test_fork_in_a_row(path: Path, kind: str) -> None:
    run("recordings", "fork_in_a_row", path, kind)


@pytest.mark.sampled(2)
@forks
@pytest.mark.parametrize("kind", ["path", "chunks"])
def test_fork_while_reading(path: Path, kind: str) -> None:
    run("recordings", "fork_while_reading", path, kind)


@forks
def test_fork_of_a_writer(path: Path) -> None:
    run("recordings", "fork_of_a_writer", path)


@pytest.mark.sampled(3)
@kinds
def test_threads_share_a_recording(path: Path, kind: str) -> None:
    run("recordings", "threads_share_a_recording", path, kind)


@pytest.mark.sampled(3)
@methods
def test_recordings_travel(path: Path, method: str) -> None:
    run("recordings", "travel", path, "path", method)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bytes", "chunks"])
def test_recordings_of_other_places_travel(path: Path, kind: str) -> None:
    run("recordings", "travel", path, kind, "spawn")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "method", sorted({"fork", "spawn"} & set(multiprocessing.get_all_start_methods()))
)
def test_read_beside_a_writer(path: Path, method: str) -> None:
    run("recordings", "read_beside_a_writer", path, method)
