"""Parts behind URLs while each request fails in turn: the old object, the new one or none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.parts import PartsJob
from bloscpack.container.chunkparts import PartRecord
from bloscpack.exceptions import RemoteError

from ..conftest import Warned, server_fixture
from ..servers import Answer, cut_range
from ..storage.copying import CopyingServer

# Incompressible: two parts of 6 kB.
ARRAY = np.random.default_rng(1).integers(0, 256, (6, 2000), "u1")
URL = "s3://box/a.blp"
LEAST = 3000


running_s3 = server_fixture(CopyingServer)


@pytest.fixture
def s3(
    running_s3: CopyingServer, retries_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> CopyingServer:
    monkeypatch.setattr("bloscpack.storage.remote.s3join._LEAST_NBYTES", LEAST)
    monkeypatch.setattr("bloscpack.storage.remote.s3upload._PART_NBYTES", LEAST)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", LEAST)
    running_s3.clear()
    running_s3.remove_all()
    return running_s3


def job_for(server: CopyingServer, id_: str = "job") -> PartsJob:
    return PartsJob(
        URL, shape=ARRAY.shape, dtype="u1", chunks=1, id=id_, storage_options=server.options
    )


def all_written(job: PartsJob) -> list[PartRecord]:
    return [job.write(start, ARRAY[start : start + 3], nthreads=1) for start in (0, 3)]


def check(server: CopyingServer) -> None:
    """Check that the new object exists, and nothing else."""
    assert np.array_equal(bp.load(URL, storage_options=server.options), ARRAY)
    assert server.keys() == ["a.blp"]
    assert server.uploads() == 0


def failed_before() -> Any:
    """Return a hook that fails the first request of each kind before the server handles it."""
    seen = set()

    def before(method: str, path: str) -> Answer | None:
        if (method, path) in seen:
            return None
        seen.add((method, path))
        return Answer(503, {}, b"")

    return before


def failed_after(change: Callable[[Answer], Answer]) -> Any:
    """Return a hook that changes the first answer of each kind, after the server's work is done."""
    seen = set()

    def after(method: str, path: str, answer: Answer) -> Answer:
        if (method, path) in seen:
            return answer
        seen.add((method, path))
        return change(answer)

    return after


@pytest.mark.parametrize("kind", ["unheard", "unanswered", "brief"])
def test_temporary_failures(s3: CopyingServer, kind: str) -> None:
    """Every kind of request fails once."""
    if kind == "unheard":
        s3.before = failed_before()
    elif kind == "unanswered":
        s3.after = failed_after(lambda answer: Answer(503, {}, b""))
    else:
        s3.after = failed_after(
            lambda answer: cut_range(answer) if answer.status == 206 else answer
        )
    job = job_for(s3).begin()
    job.commit(all_written(job))
    # An upload whose start was not answered has no id in this process, and no parts.
    s3.clear()
    if kind == "unanswered":
        assert s3.uploads() == 1
        s3.remove_uploads()
    check(s3)


def test_dropped_connections(s3: CopyingServer) -> None:
    job = job_for(s3).begin()
    records = all_written(job)
    s3.faults.extend(["drop", ""] * 3 + ["short", ""])
    job.commit(records)
    s3.clear()
    s3.remove_uploads()
    check(s3)


def test_permanent_failures(s3: CopyingServer) -> None:
    job = job_for(s3).begin()
    records = all_written(job)
    s3.always = "500"
    for work in (job.abort, lambda: job.commit(records)):
        with pytest.raises(RemoteError, match=r"s3://box/.*5 requests failed"):
            work()
    s3.always = "403"
    for work in (job.abort, job.begin, lambda: job.commit(records), lambda: all_written(job)):
        with pytest.raises(PermissionError, match=r"s3://box/"):
            work()
    s3.always = ""
    job.commit(records)
    check(s3)


def test_no_bucket(s3: CopyingServer) -> None:
    with pytest.raises(FileNotFoundError, match=r"s3://missing/a\.blp"):
        bp.parts("s3://missing/a.blp", shape=(3,), dtype="u1", storage_options=s3.options)


def cut_off(server: CopyingServer, step: int, work: Callable[[], object]) -> bool:
    """Run `work` with all requests lost from number `step` on; return whether it completed."""
    left = [step]

    def before(method: str, path: str) -> Answer | None:
        left[0] -= 1
        return None if left[0] >= 0 else Answer(403, {}, b"")

    server.before = before
    try:
        work()
    except PermissionError:
        return False
    finally:
        server.clear()
    return True


def test_a_commit_interrupted_at_every_request(s3: CopyingServer) -> None:
    """Another process with the records continues, until only the object is left."""
    job = job_for(s3).begin()
    records = all_written(job)
    seen: list[bool] = []
    for step in range(1, 40):
        done = cut_off(s3, step, lambda: job.commit(records, verify=False, nthreads=1))
        seen.append("a.blp" in s3.keys())  # noqa: SIM118
        if done:
            break
    assert done
    assert seen == sorted(seen)
    # The upload that began when its id could not be stored has no parts.
    assert s3.uploads() == 1
    s3.remove_uploads()
    check(s3)
    assert seen.count(False) > 9
    assert seen.count(True) > 3


@pytest.mark.parametrize("step", [5, 10])
def test_an_interrupted_commit_can_be_aborted(s3: CopyingServer, step: int) -> None:
    job = job_for(s3).begin()
    records = all_written(job)
    assert not cut_off(s3, step, lambda: job.commit(records, verify=False, nthreads=1))
    assert len(s3.keys()) == 4
    assert s3.uploads() == 1
    job_for(s3).abort()
    assert s3.keys() == []
    assert s3.uploads() == 0


class At:
    """Runs `work` at one request, before the request or before its answer."""

    def __init__(
        self, server: CopyingServer, when: str, step: int, work: Callable[[], str]
    ) -> None:
        self.result: str | None = None
        self._left = step
        self._work = work
        if when == "before":
            server.before = self._count
        else:
            server.after = self._count

    def _count(self, method: str, path: str, answer: Any = None) -> Any:
        self._left -= 1
        if self._left == -1:
            self.result = self._work()
        return answer


def late_write(job: PartsJob) -> str:
    try:
        job.write(0, ARRAY[:3], nthreads=1)
    except FileNotFoundError as err:
        return str(err)
    return ""


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_job_ends_while_a_task_writes(s3: CopyingServer, when: str) -> None:
    """At every request: the task fails and leaves nothing, unless it is already complete."""
    for step in range(20):
        job = job_for(s3).begin()
        At(s3, when, step, lambda: job_for(s3).abort() or "")
        found = late_write(job)
        s3.clear()
        if not found:
            break
        assert "committed or aborted" in found
        assert s3.keys() == []
        assert s3.uploads() == 0
    # At the last answer the task is complete, and its part is removed with the others.
    assert step == 6 + (when == "before")
    job.abort()
    assert s3.keys() == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_writes_while_the_job_ends(s3: CopyingServer, when: str) -> None:
    """At every request of the end: the task or the end removes its part."""
    for step in range(10):
        job = job_for(s3).begin()
        job.write(0, ARRAY[:1])
        at = At(s3, when, step, lambda: late_write(job_for(s3)))
        job.abort()
        s3.clear()
        assert s3.keys() == []
        assert s3.uploads() == 0
        if at.result is None:
            break
        assert ("committed or aborted" in at.result) == ((when, step) != ("before", 0))
    assert step == 4


def test_uploads_of_the_dead(s3: CopyingServer, warned: Warned) -> None:
    """A worker was killed while it sent a part, a program while it joined the parts."""
    job = job_for(s3).begin()
    records = all_written(job)
    worker = job._store.create_part("part")
    worker.write(bytes(3 * LEAST))
    program = job._store.join()
    program.write(bytes(LEAST))
    program.append_part(records[0].key, records[0].nbytes)
    assert s3.uploads() == 2
    other = job_for(s3, "other")
    other.abort()
    assert s3.uploads() == 2
    other.abort(others=True)
    assert s3.uploads() == 0
    assert s3.keys() == []
    with pytest.raises(FileNotFoundError, match="committed or aborted"):
        worker.write(bytes(30 * LEAST))
    with pytest.raises(FileNotFoundError):
        program.commit()
    worker.abort()
    program.abort()
    assert s3.keys() == []


def test_uploads_that_may_not_be_listed(s3: CopyingServer, warned: Warned) -> None:
    job = job_for(s3).begin()
    all_written(job)
    s3.before = lambda method, path: (
        Answer(403, {}, b"") if method == "GET" and "uploads" in path else None
    )
    job.abort()
    assert "cannot list unfinished uploads of parts" in warned.text
    assert s3.keys() == []


def test_many_parts(s3: CopyingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing takes several answers, removing takes one request."""
    monkeypatch.setattr("bloscpack.storage.remote.s3._MAX_REMOVED", 3)
    for job in (job_for(s3, "one").begin(), job_for(s3, "two").begin()):
        for start in (0, 3, 3):
            job.write(start, ARRAY[start : start + 3])
    s3.page = 2
    job.abort(others=True)
    assert s3.keys() == []
    lists = [request for request in s3.log if "list-type" in request.path]
    assert len(lists) == 4 + 2 + 2


def test_many_uploads(s3: CopyingServer, warned: Warned) -> None:
    """Listing takes several answers; an answer that is cut off is not taken for the last one."""
    pages = [("k1", "u1"), ("k2", "u2"), ("", "")]
    asked = []

    def page(method: str, path: str, answer: Answer) -> Answer:
        if method != "GET" or "uploads" not in path:
            return answer
        asked.append(path.partition("prefix")[2].partition("&")[2])
        key, upload = pages[len(asked) - 1]
        cut = (
            f"<NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{upload}</NextUploadIdMarker>"
        )
        body = f"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>{cut if key else ''}"
        body = f"{body}</ListMultipartUploadsResult>"
        return Answer(200, {"Content-Type": "application/xml"}, body.encode())

    s3.after = page
    job_for(s3).abort()
    assert asked == [
        "",
        "key-marker=k1&upload-id-marker=u1",
        "key-marker=k2&upload-id-marker=u2",
    ]
    assert "a truncated listing" in warned.text


@pytest.mark.parametrize(
    ("code", "error"), [("AccessDenied", PermissionError), ("InternalError", RemoteError)]
)
def test_an_object_that_stays(s3: CopyingServer, code: str, error: type[Exception]) -> None:
    job = job_for(s3).begin()
    all_written(job)

    def refused(method: str, path: str, answer: Answer) -> Answer:
        if not path.endswith("?delete"):
            return answer
        text = f"<Error><Key>a</Key><Code>{code}</Code><Message>no</Message></Error>"
        body = f"<DeleteResult>{text}</DeleteResult>".encode()
        return Answer(200, {"Content-Type": "application/xml"}, body)

    s3.after = refused
    with pytest.raises(error, match=f"s3://box/a.blp.*{code}|{code}.*s3://box/a.blp"):
        job.abort()


def test_a_part_that_may_stay(s3: CopyingServer, warned: Warned) -> None:
    """A late task cannot remove its part: it warns, and abort removes the part later."""
    job = job_for(s3)
    sink = job.begin()._store.create_part("late")
    sink.write(b"part")
    job.abort()
    s3.before = lambda method, path: Answer(403, {}, b"") if method == "DELETE" else None
    with pytest.raises(FileNotFoundError, match="committed or aborted"):
        sink.commit()
    sink.abort()
    assert "a part without a record may remain" in warned.text
    s3.clear()
    assert len(s3.keys()) == 1
    job.abort()
    assert s3.keys() == []
