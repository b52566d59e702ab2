"""Dask arrays written to URLs: the bytes of `save`, or no object at all."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask has no arrays here")

import bloscpack as bp  # noqa: E402
from bloscpack.array.daskparts import _begin, _end, _join, _write  # noqa: E402
from bloscpack.exceptions import UnsupportedError  # noqa: E402
from bloscpack.integrations.dask import from_bloscpack, save  # noqa: E402
from bloscpack.storage.remote import remoteparts  # noqa: E402

from ..servers import S3Server, running  # noqa: E402
from ..strategies import AnyArray  # noqa: E402
from .test_dask import array as array  # noqa: E402

pytestmark = pytest.mark.usefixtures("two_threads")

URL = "s3://box/x.blp"


@pytest.fixture(scope="module")
def running_s3() -> Iterator[S3Server]:
    with running(S3Server()) as server:
        server.put("a.blp", b"")
        yield server


@pytest.fixture
def content(array: AnyArray, tmp_path: Path) -> bytes:
    bp.save(tmp_path / "a.blp", array, chunks=8)
    return (tmp_path / "a.blp").read_bytes()


@pytest.fixture
def s3(running_s3: S3Server, content: bytes) -> S3Server:
    for key in running_s3.keys():  # noqa: SIM118
        running_s3.remove(key)
    running_s3.put("a.blp", content)
    running_s3.clear()
    return running_s3


@pytest.mark.parametrize("verify", [True, False])
def test_from_url_to_url(s3: S3Server, content: bytes, verify: bool) -> None:
    x = from_bloscpack("s3://box/a.blp", "3 KB", storage_options=s3.options)
    assert x.numblocks == (5, 1)
    assert save(x, URL, chunks=8, verify=verify, storage_options=s3.options) == URL
    assert s3.object("x.blp") == content
    assert s3.keys() == ["a.blp", "x.blp"]
    assert s3.uploads() == 0
    # Parts this small are fetched once to be joined, and once more to be verified.
    assert sum(".parts/" in request.path for request in s3.gets) == 5 * (1 + verify)


def test_delayed(s3: S3Server, array: AnyArray, content: bytes) -> None:
    """No request is sent before it is computed, and it may be computed twice."""
    delayed = save(
        da.from_array(array, chunks=(48, 30)),
        URL,
        compute=False,
        chunks=8,
        storage_options=s3.options,
    )
    delayed = pickle.loads(pickle.dumps(delayed))
    assert s3.log == []
    for _ in range(2):
        assert delayed.compute() == URL
        assert s3.object("x.blp") == content
        assert s3.keys() == ["a.blp", "x.blp"]


def test_an_error_leaves_nothing(s3: S3Server, array: AnyArray) -> None:
    def fails(rows: AnyArray, block_info: Any = None) -> AnyArray:
        if block_info[0]["chunk-location"][0] == 5:
            raise ZeroDivisionError
        return rows

    x = da.from_array(array, chunks=(8, 30)).map_blocks(fails, dtype="i4", meta=array[:0])
    with pytest.raises(ZeroDivisionError):
        save(x, URL, chunks=8, storage_options=s3.options)
    assert s3.keys() == ["a.blp"]
    assert s3.uploads() == 0


def test_tasks_that_write_at_an_error_end_first(
    s3: S3Server, array: AnyArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of one task ends the call only when no other task can leave a part."""
    writing, removed, ended, first = Event(), Event(), Event(), Lock()
    commit, discard = remoteparts._PartSink.commit, remoteparts.RemoteParts.discard

    def slow_commit(sink: Any) -> None:
        # The others leave their threads to the task that fails.
        if not first.acquire(blocking=False):
            return commit(sink)
        writing.set()
        removed.wait(timeout=240)
        try:
            commit(sink)
        finally:
            ended.set()

    def noted_discard(store: Any, **options: Any) -> None:
        discard(store, **options)
        removed.set()

    def fails(rows: AnyArray, block_info: Any = None) -> AnyArray:
        if block_info[0]["chunk-location"][0] == 5:
            writing.wait(timeout=240)
            raise ZeroDivisionError
        return rows

    monkeypatch.setattr(remoteparts._PartSink, "commit", slow_commit)
    monkeypatch.setattr(remoteparts.RemoteParts, "discard", noted_discard)
    x = da.from_array(array, chunks=(8, 30)).map_blocks(fails, dtype="i4", meta=array[:0])
    with dask.config.set(scheduler="threads", num_workers=4), pytest.raises(ZeroDivisionError):
        save(x, URL, chunks=8, storage_options=s3.options)
    assert ended.is_set()
    assert s3.keys() == ["a.blp"]


def test_tasks_that_run_again(s3: S3Server, array: AnyArray, content: bytes) -> None:
    """A cluster that loses a worker runs tasks again; after the job has failed they are late."""
    job = bp.PartsJob(URL, shape=(100, 30), dtype="i4", chunks=8, storage_options=s3.options)
    info = [{"array-location": [(0, 100), (0, 30)]}]
    begun = _begin(job, None)
    for _ in range(2):  # the last task was lost in the middle, with all records
        assert _end(job, _join(job, _write(array, begun, info))) == URL
        assert s3.object("x.blp") == content
    with pytest.raises(FileNotFoundError, match="committed or aborted"):
        _write(array, (job, None), info)
    begun = _begin(job, None)
    _write(array, begun, info)
    job.abort()
    with pytest.raises(FileNotFoundError, match="committed or aborted"):
        _write(array, begun, info)
    assert s3.keys() == ["a.blp", "x.blp"]


def test_targets_that_exist(s3: S3Server, array: AnyArray, content: bytes) -> None:
    with pytest.raises(FileExistsError, match=r"s3://box/a\.blp"):
        save(da.zeros(3), "s3://box/a.blp", overwrite=False, storage_options=s3.options)
    assert s3.object("a.blp") == content
    assert s3.keys() == ["a.blp"]


def test_refused() -> None:
    with pytest.raises(UnsupportedError, match="web server"):
        save(da.zeros(3), "http://localhost/x.blp")
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        save(da.zeros(3), "x.blp", storage_options={"anon": True})
