"""Archives behind URLs: the number of requests, pickles, and versions."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FileChangedError

from ..servers import FileServer, running
from .archives import content_of, packed

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

NOISE = np.random.default_rng(0).integers(0, 256, (300, 1000), "u1")
SMALL = {f"small {n}": np.full(9, n) for n in range(5)}
LARGE = {"a": NOISE, **SMALL, "b": NOISE + 1}


@pytest.fixture(scope="module")
def server() -> Iterator[FileServer]:
    with running(FileServer()) as server:
        server.files = {"/small": packed(SMALL), "/large": packed(LARGE, chunks=10)}
        yield server


def test_requests(server: FileServer) -> None:
    server.clear()
    with bp.open(server.url("small")) as archive:
        assert content_of(archive) == content_of(SMALL)
    assert len(server.log) == 1
    server.clear()
    with bp.open(server.url("large")) as archive:
        assert list(archive) == list(LARGE)
        assert len(server.log) == 2, "the first and the last 64 KiB"
        array = archive["b"]
        assert len(server.log) == 3
        assert array[295].tolist() == LARGE["b"][295].tolist()
        assert len(server.log) == 3, "it was in the last 64 KiB"
        assert array[100].tolist() == LARGE["b"][100].tolist()
        assert len(server.log) == 4
        for name, small in SMALL.items():
            assert archive[name][:].tolist() == small.tolist()
        assert len(server.log) == 5, "small arrays come with the one before them"
    server.clear()
    assert content_of(bp.load(server.url("large"))) == content_of(LARGE)
    assert len(server.log) <= 7


def test_small_arrays_share_requests(server: FileServer) -> None:
    many = {str(n): NOISE[n] for n in range(200)}
    server.files["/many"] = packed(many)
    server.clear()
    assert content_of(bp.load(server.url("many"))) == content_of(many)
    assert len(server.files["/many"]) // 65536 == 3
    assert len(server.log) <= 5
    server.clear()
    with bp.open(server.url("many")) as archive:
        assert len(server.log) == 2, "the first and the last 64 KiB"
        assert archive["90"][:].tolist() == many["90"].tolist()
        assert len(server.log) == 3, "its bundle"
        for number in range(80, 100):
            assert archive[str(number)][5] == many[str(number)][5]
        assert len(server.log) == 3, "neighbours come with it"
        pickled = pickle.dumps(archive["90"])
    server.clear()
    assert pickle.loads(pickled)[7] == many["90"][7]
    assert not server.log


def test_pickles_need_no_request_for_what_was_read(server: FileServer) -> None:
    with bp.open(server.url("large")) as archive:
        array = pickle.dumps(archive["b"])
        whole = pickle.dumps(archive)
    server.clear()
    again = pickle.loads(array)
    assert server.log == []
    assert again[17].tolist() == LARGE["b"][17].tolist()
    assert len(server.log) == 1
    server.clear()
    with pickle.loads(whole) as archive:
        assert list(archive) == list(LARGE)
    assert len(server.log) == 1


def test_another_version_is_refused(server: FileServer) -> None:
    server.files["/changing"] = packed(LARGE)
    with bp.open(server.url("changing")) as archive:
        pickled = pickle.dumps(archive["b"])
        server.files["/changing"] = packed({**LARGE, "a": NOISE[:2]})
        with pytest.raises(FileChangedError):
            archive["a"].read_whole()
    with pytest.raises(FileChangedError):
        pickle.loads(pickled)[100]


def test_verify_and_recover(server: FileServer, tmp_path: object) -> None:
    assert bp.verify(server.url("large")).ok
    assert bp.recover(server.url("large"), f"{tmp_path}/a.blp").ok
    assert bp.verify(server.url("large") + "::/a").nchunks == 30


def test_changed_archives(server: FileServer, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.savez(path, SMALL, changeable=True)
    server.files["/changed"] = path.read_bytes()
    server.clear()
    with bp.open(server.url("changed")) as archive:
        assert content_of(archive) == content_of(SMALL)
        pickled = pickle.dumps(archive["small 3"])
    assert len(server.log) == 1
    assert pickle.loads(pickled)[0] == 3
    assert bp.open(f"{server.url('changed')}::/small 2")[0] == 2
    bp.savez(path, LARGE, chunks=10)
    with bp.open(path, "r+") as archive:
        archive["more"] = np.arange(3)
    server.files["/changed"] = path.read_bytes()
    server.clear()
    with bp.open(server.url("changed")) as archive:
        assert list(archive) == [*LARGE, "more"]
        assert len(server.log) == 2, "the first 64 KiB, and the group"
        array = archive["b"]
        assert len(server.log) == 2, "the group has the front of each array"
        assert array[100].tolist() == LARGE["b"][100].tolist()
        assert len(server.log) <= 4, "a page and a chunk"
    assert bp.verify(server.url("changed")).ok
    with pytest.raises(FileChangedError):
        pickle.loads(pickled)[0]
