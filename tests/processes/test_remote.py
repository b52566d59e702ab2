"""Handles of objects behind URLs in forks, threads, pools and data loaders."""

import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

import bloscpack as bp

from ..servers import FileServer, S3Server, running
from .scenario import content, run

methods = pytest.mark.parametrize(
    "method", [name for name in multiprocessing.get_all_start_methods() if name != "forkserver"]
)
forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("remote") / "a.blp"
    # Not compressed, so that it exceeds the cache of a handle.
    bp.save(path, content(), chunks=8, codec="lz4", clevel=0)
    return path.read_bytes()


@pytest.fixture(scope="module")
def s3(data: bytes) -> Iterator[str]:
    with running(S3Server()) as server:
        yield json.dumps([server.put("a.blp", data), server.options])


@pytest.fixture(scope="module")
def http(data: bytes) -> Iterator[str]:
    with running(FileServer()) as server:
        server.files["/a.blp"] = data
        yield json.dumps([server.url("a.blp"), {}])


@forks
def test_fork_after_use(s3: str, tmp_path: Path) -> None:
    run("remotes", "fork_after_use", tmp_path, s3)


@pytest.mark.slow
@forks
def test_fork_after_use_of_http(http: str, tmp_path: Path) -> None:
    run("remotes", "fork_after_use", tmp_path, http)


@forks
def test_fork_while_reading(s3: str, tmp_path: Path) -> None:
    run("remotes", "fork_while_reading", tmp_path, s3)


@forks
def test_fork_while_reading_http(http: str, tmp_path: Path) -> None:
    run("remotes", "fork_while_reading", tmp_path, http)


@pytest.mark.slow
@forks
def test_fork_between_rows(http: str, tmp_path: Path) -> None:
    run("remotes", "fork_between_rows", tmp_path, http)


@forks
def test_parts_of_forks(s3: str, tmp_path: Path) -> None:
    run("remotes", "parts_of_forks", tmp_path, s3)


def test_threads_share_a_handle(s3: str, tmp_path: Path) -> None:
    run("remotes", "threads_share_a_handle", tmp_path, s3)


@methods
def test_travel(s3: str, tmp_path: Path, method: str) -> None:
    run("remotes", "travel", tmp_path, s3, method)


@pytest.mark.slow
@forks
def test_torch_loader_with_4_workers(s3: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run("remotes", "torch_loader", tmp_path, s3, "fork", nthreads=None)


def test_end_while_reading(s3: str, tmp_path: Path) -> None:
    run("remotes", "end_while_reading", tmp_path, s3)
