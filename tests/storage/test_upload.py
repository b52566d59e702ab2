"""Arrays and frame stores written to URLs: whole, or not at all."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import RemoteError, UnsupportedError
from bloscpack.storage.remote import retry
from bloscpack.storage.remote.s3 import Bucket
from bloscpack.storage.remote.s3upload import MultipartUpload, PartsUpload
from bloscpack.storage.sink import open_sink

from ..conftest import Warned, server_fixture
from ..servers import Answer, S3Server

# Smallest part that S3 and moto accept.
PART_NBYTES = 5 << 20
SMALL = np.random.default_rng(1).integers(0, 250, (1000, 64), "u1")
# Incompressible: 12 MB are three parts.
LARGE = np.random.default_rng(2).integers(0, 256, (12, 1 << 20), "u1")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.storage.remote.s3upload._PART_NBYTES", PART_NBYTES)


running_s3 = server_fixture(S3Server)


@pytest.fixture
def s3(running_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(retry, "sleep", sleep)
    running_s3.clear()
    return running_s3


class Place(NamedTuple):
    """Place where objects can be written."""

    url: str
    options: dict[str, Any]
    server: S3Server | None
    nuploads: int = 0

    def content(self, name: str) -> bytes:
        if self.server is not None:
            return self.server.object(name)
        content: bytes = fsspec.core.url_to_fs(self.url)[0].cat_file(f"{self.url}/{name}")
        return content

    def names(self) -> set[str]:
        if self.server is not None:
            return set(self.server.keys())
        filesystem, path = fsspec.core.url_to_fs(self.url)
        return {os.path.basename(name) for name in filesystem.ls(path, detail=False)}


@pytest.fixture(params=["s3", "memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    (scratch := tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        return Place("s3://box", server.options, server, server.uploads())
    if request.param == "memory":
        fsspec.filesystem("memory").pipe_file("/box/other", b"")
        return Place("memory://box", {}, None)
    (folder := tmp_path / "box").mkdir()
    (folder / "other").touch()
    return Place(f"local://{folder}", {}, None)


def no_litter(place: Place, tmp_path: Path) -> bool:
    """Return whether neither temporary files nor parts of objects are left."""
    return not list((tmp_path / "scratch").iterdir()) and (
        place.server is None or place.server.uploads() == place.nuploads
    )


class Stop(Exception):  # noqa: N818
    """Raised by tests to stop something."""


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["small", "large"])
def test_save(place: Place, tmp_path: Path, array: np.ndarray) -> None:
    name = f"saved{len(array)}.blp"
    seen = []
    bp.save(
        f"{place.url}/{name}",
        array,
        attrs={"unit": "m"},
        storage_options=place.options,
        progress=lambda *_: seen.append(name in place.names()),
    )
    bp.save(tmp_path / "a.blp", array, attrs={"unit": "m"})
    assert place.content(name) == (tmp_path / "a.blp").read_bytes()
    assert seen
    assert not any(seen)
    assert np.array_equal(bp.load(f"{place.url}/{name}", storage_options=place.options), array)
    assert no_litter(place, tmp_path)


def test_a_failure_leaves_what_was_there(place: Place, tmp_path: Path) -> None:
    url = f"{place.url}/kept.blp"
    bp.save(url, SMALL, storage_options=place.options)

    def fail(done: int, _: int) -> None:
        if done > 11 << 20:
            raise Stop

    with pytest.raises(Stop):
        bp.save(url, LARGE, storage_options=place.options, progress=fail)
    assert np.array_equal(bp.load(url, storage_options=place.options), SMALL)
    with pytest.raises(Stop):
        bp.save(f"{url}.new", LARGE, storage_options=place.options, progress=fail)
    assert "kept.blp.new" not in place.names()
    assert no_litter(place, tmp_path)


class TestWriter:
    def test_rows(self, place: Place, tmp_path: Path) -> None:
        url = f"{place.url}/rows.blp"
        with bp.Writer(url, dtype="u1", shape=(None, 64), storage_options=place.options) as writer:
            for row in SMALL:
                writer.append(row)
            assert url in repr(writer)
            assert "rows.blp" not in place.names()
        with bp.open(url, storage_options=place.options) as array:
            assert np.array_equal(array[:], SMALL)
        writer.close()
        assert no_litter(place, tmp_path)

    def test_an_error_sends_nothing(self, place: Place, tmp_path: Path) -> None:
        url = f"{place.url}/none.blp"
        writer = bp.Writer(url, dtype="u1", shape=(None, 64), storage_options=place.options)
        writer.append(SMALL)
        with pytest.raises(Stop), writer:
            raise Stop
        assert "none.blp" not in place.names()
        assert no_litter(place, tmp_path)

    def test_a_flush_is_refused(self, place: Place, tmp_path: Path) -> None:
        url = f"{place.url}/none.blp"
        writer = bp.Writer(url, dtype="u1", shape=(None, 64), storage_options=place.options)
        writer.append(SMALL)
        with pytest.raises(UnsupportedError, match="closed"):
            writer.flush()
        writer.abort()
        assert no_litter(place, tmp_path)


class TestStores:
    def test_clips(self, place: Place, tmp_path: Path) -> None:
        url = f"{place.url}/store.blp"
        with bp.frames.create(url, storage_options=place.options) as store:
            for n in range(5):
                store.append(f"c{n}", SMALL.reshape(10, 100, 64)[n:], {"n": n})
            assert np.array_equal(store["c3"][2], SMALL.reshape(10, 100, 64)[5])
            assert store.name == url
            with pytest.raises(UnsupportedError, match="closed"):
                store.flush()
            assert "store.blp" not in place.names()
        with bp.frames.open(url, storage_options=place.options) as again:
            assert list(again) == [f"c{n}" for n in range(5)]
            assert np.array_equal(again["c4"][:], SMALL.reshape(10, 100, 64)[4:])
        with pytest.raises(FileExistsError, match=r"store\.blp"):
            bp.frames.create(url, storage_options=place.options)
        bp.frames.create(url, overwrite=True, storage_options=place.options).close()
        with bp.frames.open(url, storage_options=place.options) as again:
            assert len(again) == 0
        assert no_litter(place, tmp_path)

    def test_an_error_sends_nothing(self, place: Place, tmp_path: Path) -> None:
        url = f"{place.url}/none.blp"
        store = bp.frames.create(url, storage_options=place.options)
        store.append("a", SMALL)
        with pytest.raises(Stop), store:
            raise Stop
        assert "none.blp" not in place.names()
        assert no_litter(place, tmp_path)


class TestParts:
    """Requests to S3."""

    def test_a_small_object_is_one_request(self, s3: S3Server) -> None:
        bp.save("s3://box/a", SMALL, storage_options=s3.options)
        assert [request.method for request in s3.log] == ["PUT"]

    def test_a_large_one_is_its_parts_and_two(self, s3: S3Server, tmp_path: Path) -> None:
        bp.save("s3://box/a", LARGE, storage_options=s3.options)
        bp.save(tmp_path / "a", LARGE)
        nparts = -(-(tmp_path / "a").stat().st_size // PART_NBYTES)
        methods = [request.method for request in s3.log]
        assert methods == ["POST", *nparts * ["PUT"], "POST"]

    def test_the_front_waits(self, s3: S3Server) -> None:
        content = np.random.default_rng(3).bytes(14 << 20)
        place = (8 << 20) - 5
        with open_sink("s3://box/a", s3.options, front_nbytes=8 << 20) as sink:
            for start in range(0, len(content), 3_000_001):
                sink.write(content[start : start + 3_000_001])
            sink.write_at(place, b"12345")
            with pytest.raises(ValueError, match="sent"):
                sink.write_at(place, b"123456")
        assert s3.object("a") == content[:place] + b"12345" + content[place + 5 :]

    def test_parts_become_larger(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("s3fs", reason="an upload to S3 needs it")
        monkeypatch.setattr("bloscpack.storage.remote.s3upload._PART_NBYTES", 1)
        upload = MultipartUpload("s3://box/a", {"anon": True}, 0)
        sent: list[int] = []
        monkeypatch.setattr(upload, "_start", lambda _, data: sent.append(len(data)))
        upload.write(memoryview(bytes(40_000)))
        assert sent[0] == 1
        assert sent[-1] == 32
        assert len(sent) < 10_000
        assert sent == sorted(sent)

    @pytest.mark.parametrize(
        ("number", "fault"), [(0, "drop"), (1, "503"), (3, "drop"), (4, "503")]
    )
    def test_passing_trouble(self, s3: S3Server, number: int, fault: str) -> None:
        s3.faults.extend(number * [""] + [fault])
        bp.save("s3://box/troubled", LARGE, storage_options=s3.options)
        found = bp.load("s3://box/troubled", storage_options=s3.options)
        assert np.array_equal(found, LARGE)

    @pytest.mark.parametrize("is_there", [True, False])
    def test_an_end_whose_answer_was_lost(
        self, s3: S3Server, monkeypatch: pytest.MonkeyPatch, is_there: bool
    ) -> None:
        """The retry finds no such upload: the object shows whether the first try worked."""
        ends = []

        def answer(method: str, path: str, headers: Any, body: bytes) -> Answer:
            if method == "POST" and "uploadId" in path:
                ends.append(path)
                if len(ends) > 1:
                    return Answer(404, {}, b"<Error><Code>NoSuchUpload</Code></Error>")
                if not is_there:
                    return Answer(503, {}, b"")
            found = S3Server.answer(s3, method, path, headers, body)
            return Answer(503, {}, b"") if ends and method == "POST" else found

        monkeypatch.setattr(s3, "answer", answer)
        if is_there:
            bp.save("s3://box/heard", LARGE, storage_options=s3.options)
        else:
            with pytest.raises(FileNotFoundError, match="s3://box/unheard"):
                bp.save("s3://box/unheard", LARGE, storage_options=s3.options)
        assert len(ends) == 2
        assert "HEAD" in [request.method for request in s3.log]
        assert "unheard" not in s3.keys()  # noqa: SIM118

    @pytest.mark.parametrize(("nbytes", "nheard"), [(2 * PART_NBYTES, 0), (100, 1)])
    def test_another_object_is_not_taken_for_the_end(
        self, s3: S3Server, monkeypatch: pytest.MonkeyPatch, nbytes: int, nheard: int
    ) -> None:
        """The upload does not exist: at the first try, or after a try that may have succeeded."""
        s3.put("before", bytes(nbytes))
        upload = MultipartUpload("s3://box/before", s3.options, 0)
        upload.write(memoryview(b"x" * (2 * PART_NBYTES)))
        ends = [Answer(503, {}, b"")] * nheard

        def answer(method: str, path: str, headers: Any, body: bytes) -> Answer:
            if method == "POST" and "uploadId" in path:
                gone = Answer(404, {}, b"<Error><Code>NoSuchUpload</Code></Error>")
                return ends.pop() if ends else gone
            return S3Server.answer(s3, method, path, headers, body)

        monkeypatch.setattr(s3, "answer", answer)
        with pytest.raises(FileNotFoundError):
            upload.commit()
        upload.abort()
        assert s3.object("before") == bytes(nbytes)

    def test_few_parts_are_under_way(self) -> None:
        pytest.importorskip("s3fs", reason="an upload to S3 needs it")
        upload = PartsUpload(Bucket("s3://box/a", {"anon": True}), "a")
        upload.upload_id = "1"
        now = most = 0

        async def send(number: int, names: dict[str, Any]) -> str:
            nonlocal now, most
            now += 1
            most = max(most, now)
            async with asyncio.timeout(120):
                while most < 2:  # until the second one comes
                    await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            now -= 1
            return ""

        for number in range(1, 31):
            upload.start(number, send)
        assert 2 <= most <= 3
        assert len(upload._under_way) <= 3

    @pytest.mark.parametrize(("number", "nparts"), [(0, 1), (1, 3), (2, 2), (4, 1)])
    def test_lasting_trouble(self, s3: S3Server, number: int, nparts: int) -> None:
        before = s3.uploads()
        # The current parts are tried five times each; later requests succeed again.
        s3.faults.extend(number * [""] + 5 * nparts * ["500"])
        with pytest.raises(RemoteError, match=r"s3://box/lost: .*5 requests failed"):
            bp.save("s3://box/lost", LARGE, storage_options=s3.options)
        assert "lost" not in s3.keys()  # noqa: SIM118
        assert s3.uploads() == before

    def test_trouble_to_the_end(self, s3: S3Server, warned: Warned) -> None:
        """Even the abort of the upload fails: the first error is raised, the remains are logged."""
        s3.faults.append("")
        s3.always = "500"
        with pytest.raises(RemoteError, match="part"):
            bp.save("s3://box/lost", LARGE, storage_options=s3.options)
        assert "invisible parts remain" in warned.text

    def test_no_access(self, s3: S3Server) -> None:
        s3.always = "403"
        with pytest.raises(PermissionError, match="s3://box/refused"):
            bp.save("s3://box/refused", SMALL, storage_options=s3.options)
        assert len(s3.log) == 1

    def test_no_bucket(self, s3: S3Server) -> None:
        with pytest.raises(FileNotFoundError, match="s3://missing/a"):
            bp.save("s3://missing/a", SMALL, storage_options=s3.options)


def test_recover_to_a_url(place: Place, tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", SMALL, chunks=100)
    data = (tmp_path / "a.blp").read_bytes()
    with open_sink(f"{place.url}/copy.blp", place.options) as sink:
        sink.write(data)
    assert place.content("copy.blp") == data


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/a.blp", "https://127.0.0.1:9/a.blp"])
def test_nothing_is_written_to_web_servers(url: str) -> None:
    for write in (
        lambda: bp.save(url, SMALL),
        lambda: bp.Writer(url, dtype="u1"),
        lambda: bp.frames.create(url),
    ):
        with pytest.raises(UnsupportedError, match="web server"):
            write()


def test_options_are_for_urls(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    for write in (
        lambda: bp.save(path, SMALL, storage_options={"anon": True}),
        lambda: bp.Writer(path, dtype="u1", storage_options={"anon": True}),
        lambda: bp.frames.create(path, storage_options={"anon": True}),
    ):
        with pytest.raises(ValueError, match="storage_options"):
            write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["memory://box/a/", "memory://", "s3://box", "s3://box/"])
def test_a_folder_is_not_written_to(url: str) -> None:
    """Without its last slash it would be the name of an object."""
    for write in (
        lambda: bp.save(url, np.zeros(3)),
        lambda: bp.frames.create(url, overwrite=True),
        lambda: bp.parts(url, shape=(3,), dtype="u1"),
    ):
        with pytest.raises(UnsupportedError, match="names no object in a folder"):
            write()


def test_an_array_of_an_archive_is_not_written_to() -> None:
    """For fsspec it would be a chain, whose whole object is replaced."""
    bp.savez("memory://box/z.blp", a=SMALL)
    for write in (
        lambda url: bp.save(url, SMALL),
        lambda url: bp.savez(url, a=SMALL),
        lambda url: bp.frames.create(url, overwrite=True),
        lambda url: bp.Writer(url, dtype="u1"),
        lambda url: bp.parts(url, shape=(3,), dtype="u1"),
    ):
        for name in "ab":
            with pytest.raises(UnsupportedError, match=r"z\.blp::/.* names an array"):
                write(f"memory://box/z.blp::/{name}")
    assert np.array_equal(bp.load("memory://box/z.blp")["a"], SMALL)  # type: ignore[call-overload]


def test_an_object_is_not_recovered_to_itself() -> None:
    bp.save("memory://box/damaged.blp", SMALL)
    with pytest.raises(ValueError, match="the same file"):
        bp.recover("memory://box/damaged.blp", "memory://box/damaged.blp")


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["put", "multipart"])
@pytest.mark.parametrize("is_own", [True, False])
def test_an_own_object_whose_response_was_lost_is_not_that_of_another(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, array: Any, is_own: bool
) -> None:
    """The retry finds the object that the first try made, or one of the same size."""
    s3.remove("a")
    ends = []

    def answer(method: str, path: str, headers: Any, body: bytes) -> Answer:
        if "If-None-Match" not in headers:
            return S3Server.answer(s3, method, path, headers, body)
        ends.append(path)
        if len(ends) > 1:
            return Answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
        S3Server.answer(s3, method, path, headers, body)
        if not is_own:
            s3.put("a", bytes(len(s3.object("a"))))
        return Answer(503, {}, b"")

    monkeypatch.setattr(s3, "answer", answer)
    options = {"overwrite": False, "storage_options": s3.options}
    if is_own:
        bp.save("s3://box/a", array, **options)  # type: ignore[call-overload]
    else:
        with pytest.raises(FileExistsError):
            bp.save("s3://box/a", array, **options)  # type: ignore[call-overload]
    assert len(ends) == 2
    assert any(s3.object("a")) is is_own


@pytest.mark.parametrize(
    ("array", "method", "field"),
    [(SMALL, "PUT", "ETag"), (LARGE, "PUT", "ETag"), (LARGE, "POST", "UploadId")],
)
def test_responses_of_another_server(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, array: Any, method: str, field: str
) -> None:
    """A server that accepts all requests has not stored anything."""
    answer = s3.answer

    def empty(*asked: Any) -> Answer:
        return Answer(200, {}, b"") if asked[0] == method else answer(*asked)

    monkeypatch.setattr(s3, "answer", empty)
    with pytest.raises(RemoteError, match=f"s3://box/a: .*has no {field}"):
        bp.save("s3://box/a", array, storage_options=s3.options)


def test_a_version_of_an_object_is_not_written_to() -> None:
    url = "s3://box/a?versionId=x"
    for write in (
        lambda: bp.save(url, np.zeros(3)),
        lambda: bp.frames.create(url),
        lambda: bp.parts(url, shape=(3,), dtype="u1"),
    ):
        with pytest.raises(UnsupportedError, match="leave \\?versionId= out"):
            write()


def write_rows(url: str, array: Any, **options: Any) -> None:
    with bp.Writer(url, dtype=array.dtype, shape=(None, *array.shape[1:]), **options) as writer:
        writer.append(array)


def write_store(url: str, array: Any, **options: Any) -> None:
    with bp.frames.create(url, **options) as store:
        store.append("a", array)


def write_parts(url: str, array: Any, **options: Any) -> None:
    with bp.parts(url, shape=array.shape, dtype=array.dtype, **options) as job:
        job.commit([job.write(0, array)])


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["put", "multipart"])
@pytest.mark.parametrize("write", [bp.save, bp.savez, write_rows, write_store, write_parts])
def test_s3_itself_keeps_an_object_that_appears_at_the_last_moment(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, write: Any, array: Any
) -> None:
    s3.put("a", b"another")
    unfinished = s3.uploads()  # of other tests
    monkeypatch.setattr(retry, "exists", lambda *_: False)
    options = {"storage_options": s3.options, "overwrite": False}
    with pytest.raises(FileExistsError, match=r"s3://box/a.*overwrite=True"):
        write("s3://box/a", array, **options)
    assert s3.object("a") == b"another"
    assert s3.uploads() == unfinished
    s3.remove("a")
    write("s3://box/a", array, **options)
    assert len(s3.object("a")) > 1000


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["put", "multipart"])
def test_a_store_without_conditions_is_written_to(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, array: Any
) -> None:
    s3.remove("a")
    answer = s3.answer

    def without(method: str, path: str, headers: Any, body: bytes) -> Answer:
        if "If-None-Match" in headers:
            return Answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
        return answer(method, path, headers, body)

    monkeypatch.setattr(s3, "answer", without)
    bp.save("s3://box/a", array, overwrite=False, storage_options=s3.options)
    assert len(s3.object("a")) > 1000
