"""Benzina datasets in forks, threads and pools, each in a process under a timeout."""

import multiprocessing
from pathlib import Path

import pytest

from ..benzina import vectors
from .scenario import run

pytest.importorskip("av")

kinds = pytest.mark.parametrize(
    "kind",
    ["path", "view", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bytes", "file"))],
)
forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)


@pytest.fixture(scope="module")
def path() -> Path:
    vectors.manifest()
    return vectors.FOLDER / "mini12.bzna"


@pytest.mark.sampled(2)
@forks
@kinds
def test_fork_after_use(path: Path, kind: str) -> None:
    run("datasets", "fork_after_use", path, kind)


@pytest.mark.sampled(2)
@forks
@pytest.mark.parametrize("kind", ["path", "view"])
def test_fork_while_reading(path: Path, kind: str) -> None:
    run("datasets", "fork_while_reading", path, kind)


@forks
@pytest.mark.parametrize("kind", ["file"])
def test_fork_while_loading(path: Path, kind: str) -> None:
    run("datasets", "fork_while_loading", path, kind)


@kinds
def test_threads_share_a_dataset(path: Path, kind: str) -> None:
    run("datasets", "threads_share_a_dataset", path, kind)


@forks
def test_datasets_travel_to_forks(path: Path) -> None:
    run("datasets", "travel", path, "path", "fork")


@pytest.mark.parametrize("kind", ["view"])
def test_datasets_travel(path: Path, kind: str) -> None:
    run("datasets", "travel", path, kind, "spawn")
