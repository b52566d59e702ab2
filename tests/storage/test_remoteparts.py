"""Parts of an object behind a URL: same bytes as `save`, no remains, and few requests."""

import os
import pickle
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.parts import PartsJob
from bloscpack.container.chunkparts import PartRecord
from bloscpack.exceptions import (
    ChecksumMismatch,
    FileChangedError,
    TruncatedError,
    UnsupportedError,
)

from ..conftest import server_fixture
from ..strategies import AnyArray
from .copying import CopyingServer

OPTIONS: dict[str, Any] = {"chunks": 3, "attrs": {"unit": "m"}}
# Chunks of about 3 kB; the last has 2 rows.
ARRAY = np.random.default_rng(1).integers(0, 200, (23, 1000), "u1")
# Smallest part in these tests, also for moto.
LEAST = 4000


running_s3 = server_fixture(CopyingServer)


@pytest.fixture
def s3(
    running_s3: CopyingServer, retries_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> CopyingServer:
    monkeypatch.setattr("bloscpack.storage.remote.s3join._LEAST_NBYTES", LEAST)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", LEAST)
    running_s3.clear()
    running_s3.remove_all()
    return running_s3


class Place(NamedTuple):
    """Place where objects can be written."""

    url: str
    options: dict[str, Any]
    server: CopyingServer | None

    @property
    def is_path(self) -> bool:
        return ":" not in self.url

    def filesystem(self) -> Any:
        return fsspec.filesystem("file" if self.is_path else self.url.partition(":")[0])

    def names(self) -> list[str]:
        """Return the paths of all objects that a test has made."""
        if self.server is not None:
            return self.server.keys() + ["an upload"] * self.server.uploads()
        found: list[str] = self.filesystem().find(self.url, withdirs=True)
        return [name.partition("/box/")[2] for name in found if "/box/" in name]

    def content(self, name: str) -> bytes:
        if self.server is not None:
            return self.server.object(name)
        content: bytes = self.filesystem().cat_file(f"{self.url}/{name}")
        return content

    def put(self, name: str, data: bytes) -> None:
        if self.server is not None:
            self.server.put(name, data)
        else:
            self.filesystem().pipe_file(f"{self.url}/{name}", data)

    def remove(self, name: str) -> None:
        if self.server is not None:
            self.server.remove(name)
        else:
            self.filesystem().rm_file(f"{self.url}/{name}")

    def job(self, name: str = "a.blp", **options: Any) -> PartsJob:
        wanted = {"shape": ARRAY.shape, "dtype": "u1", **OPTIONS, **options}
        return bp.parts(f"{self.url}/{name}", storage_options=self.options, **wanted)

    def save(self, array: AnyArray, **options: Any) -> None:
        bp.save(f"{self.url}/a.blp", array, storage_options=self.options, **options)

    def load(self) -> AnyArray:
        return bp.load(f"{self.url}/a.blp", storage_options=self.options)


@pytest.fixture(params=["s3", "memory", "local", "path"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    (scratch := tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        yield Place("s3://box", server.options, server)
    elif request.param == "memory":
        if (memory := fsspec.filesystem("memory")).exists("/box"):
            memory.rm("/box", recursive=True)
        memory.mkdir("/box")
        yield Place("memory://box", {}, None)
    else:
        (folder := tmp_path / "box").mkdir()
        yield Place(str(folder) if request.param == "path" else f"local://{folder}", {}, None)
    assert not list(scratch.iterdir())


@pytest.fixture
def saved(tmp_path: Path) -> bytes:
    bp.save(tmp_path / "saved.blp", ARRAY, **OPTIONS)
    return (tmp_path / "saved.blp").read_bytes()


def all_written(job: PartsJob, step: int = 9) -> list[PartRecord]:
    return [job.write(start, ARRAY[start : start + step]) for start in range(0, 23, step)]


class TestCommit:
    @pytest.mark.parametrize(("step", "verify"), [(6, True), (23, False)])
    def test_the_bytes_of_save(self, place: Place, saved: bytes, step: int, verify: bool) -> None:
        job = place.job()
        records = all_written(job, step)
        assert "a.blp" not in place.names()
        calls: list[tuple[int, int]] = []
        job.commit(reversed(records), verify=verify, progress=lambda *args: calls.append(args))
        assert place.content("a.blp") == saved
        assert place.names() == ["a.blp"]
        assert calls[-1][0] == calls[-1][1] == sum(record.nbytes for record in records)

    @pytest.mark.parametrize(("shape", "order"), [((), "C"), ((3, 0), "C"), ((40, 50), "F")])
    def test_shapes(self, place: Place, tmp_path: Path, shape: Any, order: Any) -> None:
        array = np.ones(shape, "f4", order=order)
        job = place.job(shape=shape, dtype="f4", order=order, chunks=None, attrs=None)
        ranges = job.split(3)
        parts = [array[:, a:b] if job.axis else array[a:b] if shape else array for a, b in ranges]
        job.commit([job.write(a, rows) for (a, _), rows in zip(ranges, parts, strict=True)])
        bp.save(tmp_path / "a", array)
        assert place.content("a.blp") == (tmp_path / "a").read_bytes()
        assert place.names() == ["a.blp"]

    def test_a_worker_needs_only_the_job(self, place: Place, saved: bytes) -> None:
        sent = pickle.dumps(place.job())
        if place.server is not None:
            place.server.clear()
        assert len(sent) < 1500
        job = pickle.loads(sent)
        assert len(pickle.dumps(job)) == len(sent)
        assert job.path == f"{place.url}/a.blp"
        if place.server is not None:
            assert not place.server.log
        ranges = job.split(9000)
        with ThreadPoolExecutor(4) as pool:
            tasks = [pool.submit(pickle.loads(sent).write, a, ARRAY[a:b]) for a, b in ranges]
            records = [task.result() for task in tasks]
        pickle.loads(sent).commit(pickle.loads(pickle.dumps(records)))
        assert place.content("a.blp") == saved
        assert place.names() == ["a.blp"]

    def test_an_object_that_is_replaced(self, place: Place) -> None:
        place.save(np.zeros(3))
        job = place.job()
        tag = job.target_tag()
        assert tag
        records = all_written(job)
        assert place.load().shape == (3,)
        job.commit(records)
        assert np.array_equal(place.load(), ARRAY)
        assert job.target_tag() not in ("", tag)

    def test_objects_of_the_same_content_differ(self, place: Place) -> None:
        """By the time of creation, which S3 reports in seconds, and the tag of the content."""
        tags = []
        for array in (ARRAY, ARRAY, ARRAY + 1) if place.server is None else (ARRAY, ARRAY + 1):
            place.save(array)
            tags.append(place.job().target_tag())
        assert len(set(tags)) == len(tags)

    def test_an_object_that_must_not_be_replaced(self, place: Place, saved: bytes) -> None:
        job = place.job(overwrite=False)
        records = all_written(job)
        place.save(np.ones(5))
        with pytest.raises(FileExistsError, match=r"a\.blp"):
            job.commit(records)
        with pytest.raises(FileExistsError, match=r"a\.blp"):
            place.job(overwrite=False)
        assert place.load().shape == (5,)
        place.remove("a.blp")
        for _ in range(2):
            job.join(records)
        job.commit(records)
        assert place.content("a.blp") == saved
        assert place.names() == ["a.blp"]

    def test_once_more(self, place: Place) -> None:
        """The committing task may run twice: the job is done only if the object is the same."""
        job = place.job()
        assert job.target_tag() == ""
        records = all_written(job)
        job.join(records)
        joined = job.target_tag()
        job.join(records)
        assert job.target_tag() != "" if place.server else job.target_tag() not in ("", joined)
        job.commit(records)
        tag = job.target_tag()
        job.commit(records)
        assert job.target_tag() == tag
        place.save(ARRAY + 1, chunks=3)
        for _ in range(2):
            with pytest.raises(FileNotFoundError, match=r"committed or aborted.*a\.blp"):
                job.commit(records)
            if "a.blp" in place.names():
                place.remove("a.blp")

    def test_a_part_that_is_not_as_it_was(self, place: Place) -> None:
        """The error names the part; a part that is written again is accepted."""
        job = place.job()
        records = all_written(job)
        (name,) = [name for name in place.names() if name.endswith(records[1].key)]
        data = place.content(name)
        changes: list[tuple[bytes | None, type[Exception]]] = [
            (data[:50] + bytes([data[50] ^ 4]) + data[51:], ChecksumMismatch),
            (data[:-1], TruncatedError),
            (data + b"\0", TruncatedError),
            (None, FileNotFoundError),
        ]
        for changed, error in changes:
            place.put(name, changed) if changed else place.remove(name)
            for verify in (True,) if error is ChecksumMismatch else (True, False):
                with pytest.raises(error, match=r"rows 9 to 18.*write it again") as caught:
                    job.commit(records, verify=verify)
                assert f"{place.url}/a.blp" in str(caught.value)
        assert "a.blp" not in place.names()
        records[1] = job.write(9, ARRAY[9:18])
        job.commit(records)
        assert np.array_equal(place.load(), ARRAY)
        assert place.names() == ["a.blp"]

    def test_joined_and_aborted(self, place: Place) -> None:
        """Aborting removes the parts and keeps the object."""
        job = place.job()
        job.join(all_written(job))
        assert len(place.names()) > 1
        job.abort()
        assert place.names() == ["a.blp"]
        assert np.array_equal(place.load(), ARRAY)

    def test_a_part_that_changes_while_it_is_joined(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if place.is_path:
            pytest.skip("files are not compared with their version while they are joined")
        job = place.job()
        records = all_written(job)
        (name,) = [name for name in place.names() if name.endswith(records[1].key)]
        changed = bytes(len(place.content(name)))
        join = job._store.join

        def joining() -> Any:
            sink = join()
            append_part = sink.append_part

            def changing(key: str, nbytes: int) -> None:
                if key == records[1].key:
                    place.put(name, changed)
                append_part(key, nbytes)

            sink.append_part = changing  # type: ignore[method-assign]
            return sink

        monkeypatch.setattr(job._store, "join", joining)
        with pytest.raises(FileChangedError, match="changed"):
            job.commit(records, verify=False)
        assert "a.blp" not in place.names()
        job.abort()
        assert place.names() == []


class TestAbort:
    def test_nothing_is_left(self, place: Place) -> None:
        job = place.job()
        records = all_written(job)
        job.abort()
        job.abort()
        assert place.names() == []
        with pytest.raises(FileNotFoundError, match="committed or aborted, or was never begun"):
            job.write(0, ARRAY)
        with pytest.raises(FileNotFoundError, match=r"committed or aborted.*a\.blp"):
            job.commit(records)
        assert place.names() == []

    def test_a_block_that_ends(self, place: Place, saved: bytes) -> None:
        with pytest.raises(ValueError, match="not whole chunks"), place.job() as job:
            job.write(0, ARRAY[: 1 + job.write(0, ARRAY).start])
        assert place.names() == []
        with place.job() as job:
            job.commit(all_written(job))
        assert place.names() == ["a.blp"]

    def test_a_task_that_comes_late(self, place: Place) -> None:
        """The job ends while the task is writing a part, which leaves nothing behind."""
        job = place.job()
        sink = job._store.create_part("late")
        job.abort()
        sink.write(bytes(100_000))
        if place.is_path:
            sink.commit()  # its folder has been removed, and it with it
        else:
            with pytest.raises(FileNotFoundError, match="committed or aborted"):
                sink.commit()
            sink.abort()
        assert place.names() == []

    def test_what_killed_programs_have_left(self, place: Place) -> None:
        jobs = [place.job(name) for name in ("a.blp", "a.blp", "b.blp")]
        for job in jobs:
            all_written(job)
        PartsJob(
            f"{place.url}/b.blp", shape=(), dtype="u1", id=jobs[0].id, storage_options=place.options
        ).abort(others=True)
        left = {name.partition("/")[0] for name in place.names()}
        assert len(left) == 2
        again = PartsJob(
            f"{place.url}/a.blp", shape=(), dtype="u1", id=jobs[0].id, storage_options=place.options
        )
        again.abort()
        assert len({name.partition("/")[0] for name in place.names()}) == 1
        again.abort(others=True)
        assert place.names() == []
        again.abort(others=True)

    def test_a_job_that_begins_again(self, place: Place, saved: bytes) -> None:
        job = place.job()
        all_written(job)
        job.abort()
        job.begin()
        job.begin()
        job.commit(all_written(job))
        assert place.content("a.blp") == saved
        assert place.names() == ["a.blp"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9/a.blp", "web server"),
        ("https://127.0.0.1:9/a.blp", "web server"),
        ("simplecache::s3://box/a.blp", "chain of file systems"),
        ("zip://a.blp::s3://box/a.zip", "chain of file systems"),
        ("s3://box/", "names no object"),
        ("s3://box", "names no object"),
    ],
)
def test_urls_that_have_no_place_for_parts(url: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        bp.parts(url, shape=(3,), dtype="u1")
    assert url in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The folder is created, as object stores need no folders."""
    url = f"local://{tmp_path}/new/a.blp"
    with bp.parts(url, shape=(3,), dtype="u1") as job:
        job.commit([job.write(0, np.arange(3, dtype="u1"))])
    assert os.listdir(tmp_path / "new") == ["a.blp"]


@pytest.mark.parametrize("folder", ["a[1]", "b*"])
def test_a_folder_whose_name_is_a_pattern(place: Place, folder: str) -> None:
    """`rm` of fsspec removes what matches: nothing here, or parts in another folder."""
    for name in (folder, "b2"):
        if place.server is None:
            place.filesystem().makedirs(f"{place.url}/{name}")
        place.put(f"{name}/x", b"of others")
    before = place.names()
    with place.job(f"{folder}/a.blp", id="one") as job:
        job.commit(all_written(job))
    assert sorted(place.names()) == sorted([*before, f"{folder}/a.blp"])
    job = place.job(f"{folder}/a.blp", id="one")
    other = place.job("b2/a.blp", id="one")
    job.abort(others=True)
    other.commit(all_written(other))
