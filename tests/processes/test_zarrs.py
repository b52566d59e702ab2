"""Zarr arrays over files in forks and other processes."""

import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

import bloscpack as bp

from ..servers import FileServer, running
from .scenario import content, run

pytest.importorskip("zarr")
METHODS = multiprocessing.get_all_start_methods()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zarr") / "a.blp"
    bp.save(path, content(), chunks=60)
    return path


@pytest.fixture(scope="module")
def http(path: Path) -> Iterator[str]:
    with running(FileServer()) as server:
        server.files["/a.blp"] = path.read_bytes()
        yield json.dumps([server.url("a.blp"), {}])


@pytest.mark.skipif("fork" not in METHODS, reason="the system does not fork")
@pytest.mark.parametrize("where", ["file", "url"])
def test_fork_after_use(path: Path, http: str, where: str) -> None:
    run("zarrs", "fork_after_use", path, http if where == "url" else "")


@pytest.mark.parametrize("method", [name for name in METHODS if name != "forkserver"])
def test_travel(path: Path, http: str, method: str) -> None:
    run("zarrs", "travel", path, "" if method == "spawn" else http, method)
