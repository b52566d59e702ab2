"""Frame stores in forks, threads and pools, each in a process under a timeout."""

import multiprocessing
from pathlib import Path

import pytest

from .scenario import run

methods = pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
kinds = pytest.mark.parametrize(
    "kind",
    [
        "path",
        "several",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bytes", "few open")),
    ],
)
forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first of three stores."""
    folder = tmp_path_factory.mktemp("stores")
    run("stores", "make", folder)
    return folder / "0.blp"


@pytest.mark.sampled(3)
@forks
@kinds
def test_fork_after_use(path: Path, kind: str) -> None:
    run("stores", "fork_after_use", path, kind)


@pytest.mark.sampled(3)
@forks
@kinds
def test_fork_while_reading(path: Path, kind: str) -> None:
    run("stores", "fork_while_reading", path, kind)


@forks
def test_fork_of_a_writer(path: Path) -> None:
    run("stores", "fork_of_a_writer", path)


@pytest.mark.sampled(3)
@kinds
def test_threads_share_a_handle(path: Path, kind: str) -> None:
    run("stores", "threads_share_a_handle", path, kind)


@pytest.mark.sampled(3)
@methods
def test_handles_travel(path: Path, method: str) -> None:
    run("stores", "travel", path, "path", method)


@pytest.mark.slow
def test_handles_of_several_travel(path: Path) -> None:
    run("stores", "travel", path, "several", "spawn")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "method", sorted({"fork", "spawn"} & set(multiprocessing.get_all_start_methods()))
)
def test_read_beside_a_writer(path: Path, method: str) -> None:
    run("stores", "read_beside_a_writer", path, method)
