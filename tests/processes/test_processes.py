"""Handles in forks, threads, pools and data loaders, each in a process under a timeout."""

import importlib.util
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

import bloscpack as bp

from .scenario import content, run

methods = pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
kinds = pytest.mark.parametrize(
    "kind",
    [
        "path",
        "file object",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bytes", "other object")),
    ],
)
forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)


LAYOUTS: dict[str, dict[str, Any]] = {
    "rows": {"chunks": 8, "codec": "lz4"},
    "grid of array chunks": {"chunks": (64, 1024), "codec": "auto"},
}


@pytest.fixture(scope="module", params=LAYOUTS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array of 8 MiB in 64 chunks, or in a grid."""
    where = tmp_path_factory.mktemp("processes") / "array.blp"
    bp.save(where, content(), **LAYOUTS[request.param])
    return where


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same array without an offset table: chunks are found one after the other."""
    where = tmp_path_factory.mktemp("processes") / "chained.blp"
    bp.pack_ndarray_to_file(
        content(), where, chunk_size=1 << 17, bloscpack_args=bp.BloscpackArgs(offsets=False)
    )
    return where


@pytest.mark.sampled(5)
@forks
@kinds
def test_fork_after_use(path: Path, kind: str) -> None:
    run("arrays", "fork_after_use", path, kind)


@pytest.mark.sampled(5)
@forks
@pytest.mark.parametrize("kind", ["path", "file object", "other object"])
def test_fork_while_reading(path: Path, kind: str) -> None:
    run("arrays", "fork_while_reading", path, kind)


@forks
def test_fork_without_offset_table(chained: Path) -> None:
    run("arrays", "fork_while_reading", chained, "path")


@forks
def test_fork_in_a_read(path: Path) -> None:
    run("arrays", "fork_in_a_read", path)


@pytest.mark.sampled(7)
@kinds
def test_threads_share_a_handle(path: Path, kind: str) -> None:
    run("arrays", "threads_share_a_handle", path, kind)


def test_threads_share_a_handle_without_offset_table(chained: Path) -> None:
    run("arrays", "threads_share_a_handle", chained, "path")


def test_close_while_reading(path: Path) -> None:
    run("arrays", "close_while_reading", path)


@forks
def test_interrupt(path: Path) -> None:
    run("arrays", "interrupt", path)


def test_end_while_reading(path: Path) -> None:
    run("arrays", "end_while_reading", path)


@pytest.mark.sampled(7)
@methods
@pytest.mark.parametrize("way", ["process", "pool", "executor"])
def test_handles_travel(path: Path, way: str, method: str) -> None:
    run("pools", way, path, method)


# A spawned worker imports torch, which takes seconds.
@pytest.mark.slow
@pytest.mark.parametrize(("method", "num_workers"), [("fork", "2"), ("spawn", "2")])
def test_torch(path: Path, method: str, num_workers: str) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    run("loaders", "torch_loader", path, method, num_workers, nthreads=None)


@pytest.mark.parametrize("library", ["joblib", "dask", "distributed"])
def test_workers_of(path: Path, library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed; tests/parallel/test_threads.py plays its part")
    run("loaders", f"{library}_workers", path, nthreads=None)
